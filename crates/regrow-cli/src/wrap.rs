//! `regrow wrap`: one client on our standard streams, one server behind it.

pub(crate) mod name;
pub(crate) mod process;
pub(crate) mod remote;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use regrow::core::{BudgetPolicy, Manner, Policy, Requester};
use regrow::transport::Transport;
use regrow::{Builder, Connection, ErrorStyle, Mask, Port, Upstream, relay};
use tokio::signal::unix::{Signal, SignalKind, signal};
use wildmatch::WildMatch;

use crate::account;
use crate::arguments::{self, Wrap};
use crate::watch::Watch;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED, client, guard, log};

/// How long the client may take to read our last words.
const LAST_WORDS: Duration = Duration::from_millis(300);

pub(crate) fn run(options: Wrap) -> u8 {
    let _ = log::start(options.log_level, options.log_format); // It stays as it was asked for.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start: {error}")),
    };
    let code = runtime.block_on(wrap(options));
    // A thread may still wait for a terminal or a file; nobody waits for it.
    runtime.shutdown_background();
    code
}

/// A server as it was described on the command line.
enum Server {
    Process(process::Process),
    Remote(Box<remote::Remote>),
}

/// The connection, and who takes what the client writes.
struct Connected {
    connection: Connection,
    upstream: Arc<dyn Upstream>,
}

async fn wrap(options: Wrap) -> u8 {
    let server = match &options.url {
        Some(url) => remote::Remote::read(&options, url).map(Box::new).map(Server::Remote),
        None => process::Process::read(&options).map(Server::Process),
    };
    let server = match server {
        Ok(server) => server,
        Err(message) => return usage(&message),
    };
    let named = options.name.clone().unwrap_or_else(|| match &server {
        Server::Process(process) => process.name(),
        Server::Remote(remote) => remote.name(),
    });
    // It stands in logs and in texts for models, so it must forge no line there.
    let name: Arc<str> = named.escape_debug().to_string().into();
    let watch = match Watch::new(&options.watch) {
        Ok(watch) => watch,
        Err(error) => return usage(&format!("--watch: {error}; name a file or folder that exists")),
    };
    match serve(options, name, server, watch).await {
        Ok(code) => code,
        Err(error) => failed(&error.to_string()),
    }
}

async fn serve(options: Wrap, name: Arc<str>, server: Server, mut watch: Watch) -> io::Result<u8> {
    let guard = guard::of_servers()?;
    if matches!(server, Server::Process(_)) {
        guard.start_early(); // Beside all that follows until the server can be started.
    }
    let mut told_to_end = ToldToEnd::new().map_err(|error| because("cannot handle signals", error))?;
    let mut told_to_restart =
        signal(SignalKind::hangup()).map_err(|error| because("cannot handle signals", error))?;
    let input = client::input().map_err(|error| because("cannot read standard input", error))?;
    let output = client::output().map_err(|error| because("cannot write to standard output", error))?;
    let style = match options.errors {
        arguments::Errors::Tool => ErrorStyle::Tool,
        arguments::Errors::Protocol => ErrorStyle::Protocol,
    };
    client::say_what_is_awaited();
    let port = Port::new(name.clone(), output, style, options.max_line);
    client::watch_output(&port);
    let Connected { connection, upstream } = match server {
        Server::Process(process) => process.connect(&options, name, port.clone(), guard),
        Server::Remote(remote) => remote.connect(&options, name, port.clone()),
    };

    let manner = {
        let mut relayed = std::pin::pin!(relay(&*upstream, &port, input));
        loop {
            tokio::select! {
                biased;
                () = told_to_end.recv() => break Manner::Told,
                ended = &mut relayed => match ended {
                    Ok(()) => break Manner::ClientLeft,
                    Err(error) => {
                        tracing::warn!("cannot read from the client: {error}");
                        break Manner::ClientLeft;
                    }
                },
                _ = told_to_restart.recv() => connection.reconnect(Requester::Person),
                () = watch.next() => {
                    tracing::info!("a watched file has changed");
                    connection.reconnect(Requester::Person);
                }
            }
        }
    };
    tokio::select! {
        biased;
        _ = connection.close_in(manner) => {}
        () = told_to_end.recv() => {
            connection.close_in(Manner::Told).await;
        }
    }
    port.finish(LAST_WORDS).await;
    account::finish_refreshes().await;
    let status = connection.status().borrow().clone();
    let served = status.sessions > 0 || status.last_fault.is_none();
    Ok(if served && port.has_answered_all() { DONE } else { SERVER_FAILED })
}

/// What is the same for every kind of server.
fn builder(options: &Wrap, name: Arc<str>, transport: impl Transport, mask: Mask) -> Builder {
    let safe_tools: Vec<WildMatch> = options.safe_tools.iter().map(|glob| WildMatch::new(glob)).collect();
    let builder = Connection::builder(name, transport)
        .policy(policy(options))
        .max_line(options.max_line)
        .mask(mask)
        .stderr_in_errors(options.stderr_in_errors);
    if safe_tools.is_empty() {
        return builder; // So that nobody reads the names of tools for nothing.
    }
    builder.safe_tools(move |tool| safe_tools.iter().any(|glob| glob.matches(tool)))
}

/// What the operating system says, with what we were about to do.
fn because(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn policy(options: &Wrap) -> Policy {
    let (charges, window) = options.budget;
    Policy {
        connect_timeout: options.connect_timeout,
        call_timeout: options.call_timeout.0,
        patience: options.patience.0,
        idle_probe: options.idle_probe.0,
        hang_timeout: options.hang_timeout.0,
        max_calls: usize::try_from(options.queue).unwrap_or(usize::MAX),
        budget: BudgetPolicy { charges, window },
        replay: match options.replay {
            arguments::Replay::Never => regrow::core::Replay::Never,
            arguments::Replay::Safe => regrow::core::Replay::Safe,
            arguments::Replay::Hints => regrow::core::Replay::Hints,
        },
        ..Policy::default()
    }
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
            biased;
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
