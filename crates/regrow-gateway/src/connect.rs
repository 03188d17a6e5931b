//! From a described server to a connection with it.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use regrow::core::{BudgetPolicy, Policy};
use regrow::transport::Transport;
use regrow::transport::http::{Credential, HeaderFile, Headers, Http, HttpClient, Limits, SetupError};
use regrow::transport::stdio::{Environment, Guard, Stderr, Stdio, environment};
use regrow::{Builder, Connection, Mask};

use crate::config::{Inherit, Options, Problems, Process, Reach, Remote, Secret, ServerConfig};
use crate::tool_filter::Glob;

/// Why there can be no connection with a server as it is described.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its entry in the configuration has problems.
    #[error("{}", .0.brief())]
    Broken(Problems),
    /// A file that it needs, or the like, cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// A connection as the server's description wants it, to be built or refined.
///
/// The guard ends a server that we started if we are killed. Lines of its standard error go to `stderr`. The account is the credential of a
/// remote server whose description has none.
pub fn connect(
    server: &ServerConfig,
    guard: Option<Arc<Guard>>,
    stderr: Stderr,
    account: Option<Arc<dyn Credential>>,
) -> Result<Builder, ConnectError> {
    // It stands in logs and in texts for models, so it must forge no line there.
    let name: Arc<str> = server.name.escape_debug().to_string().into();
    let builder = match &server.reach {
        Reach::Process(process) => {
            let (stdio, mask) = stdio(&name, process, &server.options, stderr);
            let stdio = guard.into_iter().fold(stdio, Stdio::guard);
            builder(name, stdio, mask, &server.options)
        }
        Reach::Remote(remote) => {
            let http = http(remote, &server.options, account)?;
            let mask = http.mask();
            builder(name, http, mask, &server.options)
        }
        Reach::Broken(problems) => return Err(ConnectError::Broken(problems.clone())),
    };
    Ok(builder)
}

fn builder(name: Arc<str>, transport: impl Transport, mask: Mask, options: &Options) -> Builder {
    let safe_tools: Vec<Glob> = options.safe_tools.iter().map(|glob| Glob::new(glob)).collect();
    let builder = Connection::builder(name, transport)
        .policy(policy(options))
        .max_line(options.max_line)
        .mask(mask)
        .era(options.era)
        .stderr_in_errors(options.stderr_in_errors);
    if safe_tools.is_empty() {
        return builder; // So that nobody reads the names of tools for nothing.
    }
    builder.safe_tools(move |tool| safe_tools.iter().any(|glob| glob.matches(tool)))
}

fn policy(options: &Options) -> Policy {
    let (charges, window) = options.budget;
    let usual = Policy::default();
    Policy {
        connect_timeout: options.connect_timeout,
        // A server that must start fast has to leave time for the other era, too.
        discover_timeout: usual
            .discover_timeout
            .min(options.connect_timeout / 2)
            .max(Duration::from_millis(1)),
        call_timeout: options.call_timeout,
        patience: options.patience,
        idle_probe: options.idle_probe,
        hang_timeout: options.hang_timeout,
        budget: BudgetPolicy { charges, window },
        replay: options.replay,
        max_calls: usize::try_from(options.queue).unwrap_or(usize::MAX),
        ..usual
    }
}

/// The environment that a server gets.
pub fn environment_of(process: &Process, options: &Options) -> Environment {
    let mut environment = match &process.inherit {
        Inherit::Named(_) if options.clean_env => environment::clean(),
        _ => environment::inherited(),
    };
    environment.extend(inherited_by_name(process));
    for name in &process.removed {
        environment.remove(OsStr::new(name));
    }
    for (name, value) in &process.variables {
        environment.insert(name.into(), value.reveal().into());
    }
    environment
}

/// The variables of ours that its entry names, as they are.
fn inherited_by_name(process: &Process) -> Environment {
    let Inherit::Named(globs) = &process.inherit else { return Environment::new() };
    let is_named =
        |name: &OsString| name.to_str().is_some_and(|name| globs.iter().any(|glob| glob.matches(name)));
    environment::inherited().into_iter().filter(|(name, _)| is_named(name)).collect()
}

fn stdio(name: &str, process: &Process, options: &Options, stderr: Stderr) -> (Stdio, Mask) {
    let common = environment::clean();
    let environment = environment_of(process, options);
    let text =
        |(name, value): (&OsString, &OsString)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
    // What the operator names is not for everybody either, unless every program gets it anyway. An address with a user in it may be a
    // secret even then.
    let inherited = inherited_by_name(process);
    let inherited = inherited.iter().filter_map(text);
    let written = process.variables.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let named = written.chain(inherited);
    let named = named.filter(|(name, value)| value.contains('@') || !common.contains_key(OsStr::new(name)));
    let named = named.map(|(_, value)| value);
    let secrets = Mask::secrets_of(environment.iter().filter_map(text));
    let mask = Mask::new(secrets.chain(named).chain(secret_args(&process.args)).collect::<Vec<_>>());
    let mut stdio = Stdio::new(name, &process.program)
        .args(process.args.iter().map(Secret::reveal))
        .environment(environment)
        .mask(mask.clone())
        .new_privileges(!options.no_new_privileges)
        .stderr(stderr);
    if let Some(directory) = &process.directory {
        stdio = stdio.directory(directory);
    }
    if let Some(sandbox) = &options.sandbox {
        stdio = stdio.sandbox(sandbox.clone());
    }
    (stdio, mask)
}

/// What follows an option that sounds secret: `--api-key=x`, `--token x`.
fn secret_args(args: &[Secret]) -> Vec<String> {
    let options = args.iter().enumerate().filter(|(_, arg)| arg.reveal().starts_with('-'));
    let pairs = options.filter_map(|(number, arg)| match arg.reveal().split_once('=') {
        Some((option, value)) => Some((option.to_owned(), value.to_owned())),
        None => Some((arg.reveal().to_owned(), args.get(number + 1)?.reveal().to_owned())),
    });
    Mask::secrets_of(pairs).collect()
}

fn http(
    remote: &Remote,
    options: &Options,
    account: Option<Arc<dyn Credential>>,
) -> Result<Http, SetupError> {
    let headers = Headers::new(remote.headers.iter().map(|(name, value)| (&**name, value.reveal())))?;
    let mut limits = Limits::default();
    limits.connect = options.reach_timeout;
    limits.header = options.header_timeout;
    limits.idle = options.stream_timeout;
    limits.max_message = options.max_line;
    let mut http = Http::new(remote.url.reveal())?.headers(headers.headers()).limits(limits);
    if let Some(account) = account {
        http = http.credential(account);
    }
    if let Some(path) = &options.header_file {
        http = http.credential(Arc::new(HeaderFile::new(path)?));
    }
    if options.ca_file.is_some() || options.client_cert.is_some() {
        let mut client = HttpClient::builder().connect(options.reach_timeout);
        if let Some(path) = &options.ca_file {
            client = client.ca_file(path);
        }
        if let (Some(certificate), Some(key)) = (&options.client_cert, &options.client_key) {
            client = client.certificate(certificate, key);
        }
        http = http.client(client.build()?);
    }
    Ok(http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_the_policy_is_the_usual_one() {
        assert_eq!(policy(&Options::default()), Policy::default());
    }

    #[test]
    fn secrets_among_the_arguments_are_known_by_their_options() {
        let args = ["--api-key=one-secret", "--token", "two-secret", "--port", "8080", "three", "--password"];
        assert_eq!(secret_args(&args.map(Secret::new)), ["one-secret", "two-secret"]);
    }
}
