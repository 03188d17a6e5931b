//! `regrow wrap`: one client on our standard streams, one server behind it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regrow::core::{BudgetPolicy, Manner, Orderer, Policy};
use regrow::transport::stdio::{Guard, Stderr, Stdio, environment};
use regrow::{Connection, ErrorStyle, Mask, Port, relay};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use wildmatch::WildMatch;

use crate::arguments::{self, Wrap};
use crate::watch::Watch;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED, client, log};

/// How long the calls of a client that has left may wait for the server to be started.
const LAST_CALLS: Duration = Duration::from_millis(300);
/// How long the client may take to read our last words.
const LAST_WORDS: Duration = Duration::from_millis(300);

pub(crate) fn run(options: Wrap) -> u8 {
    log::start(options.log_level, options.log_format);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start: {error}")),
    };
    let code = runtime.block_on(wrap(options));
    // A thread may still wait for a terminal or a file; nobody waits for it.
    runtime.shutdown_background();
    code
}

async fn wrap(options: Wrap) -> u8 {
    // It stands in logs and in texts for models, so it must forge no line there.
    let name = options.name.clone().unwrap_or_else(|| name_of(&options.command));
    let name: Arc<str> = name.escape_debug().to_string().into();
    let environment = match environment_of(&options) {
        Ok(environment) => environment,
        Err(message) => return usage(&message),
    };
    let watch = match Watch::new(&options.watch) {
        Ok(watch) => watch,
        Err(error) => return usage(&format!("--watch: {error}; name a file or folder that exists")),
    };
    match serve(options, name, environment, watch).await {
        Ok(code) => code,
        Err(error) => failed(&error.to_string()),
    }
}

async fn serve(
    options: Wrap,
    name: Arc<str>,
    environment: environment::Environment,
    mut watch: Watch,
) -> io::Result<u8> {
    let mut told_to_end = ToldToEnd::new().map_err(|error| because("cannot listen to signals", error))?;
    let mut told_to_restart =
        signal(SignalKind::hangup()).map_err(|error| because("cannot listen to signals", error))?;
    let input = client::input().map_err(|error| because("cannot read standard input", error))?;
    let output = client::output().map_err(|error| because("cannot write to standard output", error))?;
    let style = match options.errors {
        arguments::Errors::Tool => ErrorStyle::Tool,
        arguments::Errors::Protocol => ErrorStyle::Protocol,
    };
    let port = Port::new(name.clone(), output, style, options.max_line);
    let connection = connect(&options, name, environment, port.clone())?;
    connection.start();

    let manner = {
        let mut relayed = std::pin::pin!(relay(&connection, &port, input));
        loop {
            tokio::select! {
                ended = &mut relayed => match ended {
                    Ok(()) => break Manner::ClientLeft,
                    Err(error) => {
                        tracing::warn!("reading from the client failed: {error}");
                        break Manner::ClientLeft;
                    }
                },
                () = told_to_end.recv() => break Manner::Told,
                _ = told_to_restart.recv() => connection.reconnect(Orderer::Person),
                () = watch.next() => {
                    tracing::info!("a watched file has changed");
                    connection.reconnect(Orderer::Person);
                }
            }
        }
    };
    tokio::select! {
        _ = part(&connection, manner) => {}
        () = told_to_end.recv() => {
            connection.close_in(Manner::Told).await;
        }
    }
    port.finish(LAST_WORDS).await;
    let status = connection.status().borrow().clone();
    Ok(if status.sessions == 0 && status.last_fault.is_some() { SERVER_FAILED } else { DONE })
}

/// Ends the connection. What a client wrote before it left, such as a file on our input, is handed over first.
async fn part(connection: &Connection, manner: Manner) {
    if manner == Manner::ClientLeft {
        // What waits for longer never runs, and nobody is left to be told.
        let _ = timeout(LAST_CALLS, connection.all_handed_over()).await;
    }
    connection.close_in(manner).await;
}

fn connect(
    options: &Wrap,
    name: Arc<str>,
    environment: environment::Environment,
    port: Arc<Port>,
) -> io::Result<Connection> {
    let secrets = environment
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    // What the operator names is not for everybody either, unless every program gets it anyway.
    let harmless = environment::clean();
    let named = options.variables.iter().filter_map(|variable| {
        let name = variable.split_once('=').map_or(variable.as_str(), |(name, _)| name);
        let value = environment.get(OsStr::new(name))?;
        (!harmless.contains_key(OsStr::new(name))).then(|| value.to_str().map(str::to_owned))?
    });
    let mask = Mask::new(Mask::secrets_of(secrets).chain(named).collect::<Vec<_>>());
    let guard = ourselves().and_then(|program| Guard::start(&program, &["guard"]));
    let guard = guard
        .map_err(|error| because("cannot start the guard, which ends servers if we are killed", error))?;
    let mut stdio = Stdio::new(&*name, &options.command[0])
        .args(&options.command[1..])
        .environment(environment)
        .mask(mask.clone())
        .guard(Arc::new(guard))
        .stderr(match options.stderr {
            arguments::Stderr::Pass => Stderr::Pass,
            arguments::Stderr::Keep => Stderr::Keep,
        });
    if let Some(directory) = &options.cwd {
        stdio = stdio.directory(directory);
    }
    let safe_tools: Vec<WildMatch> = options.safe_tools.iter().map(|glob| WildMatch::new(glob)).collect();
    Ok(Connection::builder(name, stdio)
        .policy(policy(options))
        .max_line(options.max_line)
        .mask(mask)
        .stderr_in_errors(options.stderr_in_errors)
        .safe_tools(move |tool| safe_tools.iter().any(|glob| glob.matches(tool)))
        .relay_to(port)
        .build())
}

/// What the operating system says, with what we were about to do.
fn because(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Our own executable, also after an upgrade has put another in its place.
fn ourselves() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

fn policy(options: &Wrap) -> Policy {
    let (charges, window) = options.budget;
    Policy {
        connect_timeout: options.connect_timeout,
        call_timeout: options.call_timeout.0,
        idle_probe: options.idle_probe.0,
        budget: BudgetPolicy { charges, window },
        replay: match options.replay {
            arguments::Replay::Never => regrow::core::Replay::Never,
            arguments::Replay::Safe => regrow::core::Replay::Safe,
            arguments::Replay::Hints => regrow::core::Replay::Hints,
        },
        ..Policy::default()
    }
}

/// Our environment as the host chose it, or a short list of it; and what `-e` names.
fn environment_of(options: &Wrap) -> Result<environment::Environment, String> {
    let mut environment = if options.clean_env { environment::clean() } else { environment::inherited() };
    for variable in &options.variables {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, OsString::from(value)),
            None => match std::env::var_os(variable) {
                Some(value) => (variable.as_str(), value),
                None => {
                    return Err(format!(
                        "-e {variable}: there is no such variable; set it, or write {variable}=VALUE"
                    ));
                }
            },
        };
        if name.is_empty() {
            return Err("-e: a variable needs a name; write NAME=VALUE".into());
        }
        environment.insert(name.into(), value);
    }
    Ok(environment)
}

/// A name for a server from its command: that of the program, or of what a runner such as `npx` runs.
fn name_of(command: &[OsString]) -> String {
    const RUNNERS: [&str; 12] =
        ["npx", "npm", "pnpm", "bunx", "uvx", "uv", "node", "deno", "bun", "python", "python3", "docker"];
    const WORDS: [&str; 4] = ["exec", "run", "tool", "dlx"];
    let stem =
        |argument: &OsStr| Path::new(argument).file_stem().unwrap_or(argument).to_string_lossy().into_owned();
    let program = command.first().map(|program| stem(program)).unwrap_or_default();
    if !RUNNERS.contains(&program.as_str()) {
        return program;
    }
    let run = command[1..].iter().find(|argument| {
        let argument = argument.to_string_lossy();
        !argument.starts_with('-') && !WORDS.contains(&&*argument)
    });
    // `@scope/package@1.2.3`: the version is no part of the name.
    let name = run.map(|argument| {
        let argument = argument.to_string_lossy();
        let package = argument.rsplit('/').next().unwrap_or(&argument);
        stem(OsStr::new(package.split('@').find(|part| !part.is_empty()).unwrap_or(package)))
    });
    name.unwrap_or(program)
}

/// SIGTERM and SIGINT.
struct ToldToEnd {
    terminate: Signal,
    interrupt: Signal,
}

impl ToldToEnd {
    fn new() -> io::Result<ToldToEnd> {
        Ok(ToldToEnd {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn usage(message: &str) -> u8 {
    eprintln!("regrow: {message}\nTry `regrow wrap --help`.");
    USAGE
}

fn failed(message: &str) -> u8 {
    eprintln!("regrow: {message}");
    WE_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_after_what_runs() {
        let name = |command: &str| name_of(&command.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(name("npx -y @modelcontextprotocol/server-everything"), "server-everything");
        assert_eq!(name("npx -y @scope/thing@1.2.3"), "thing");
        assert_eq!(name("/usr/bin/python3 -m mcp_server_time"), "mcp_server_time");
        assert_eq!(name("uvx mcp-server-git"), "mcp-server-git");
        assert_eq!(name("/opt/bin/my-server.sh --port 3"), "my-server");
        assert_eq!(name("node"), "node");
    }
}
