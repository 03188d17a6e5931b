//! `regrow serve`: all servers of a configuration behind one endpoint.

mod demo;
mod http;
mod memory;
mod overseer;
mod progress;
mod stdio;
mod threads;

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use regrow::{EraFile, ErrorStyle, cache_folder};
use regrow_gateway::audit::Audit;
use regrow_gateway::catalog::{Pin, PinFolder, Store};
use regrow_gateway::config::{Config, Problems, Reach, Secret, ServerConfig};
use regrow_gateway::operate::traces::Traces;
use regrow_gateway::shares::Shares;
use regrow_gateway::{Clients, Gateway, Settings, connect, operate};
use tokio::runtime;

use crate::account;
use crate::arguments::{self, Errors, HttpFace, LogLevel, Serve, Transport, Users};
use crate::files::{Files, Unusable, shown};
use crate::log::SetLevel;
use crate::{USAGE, WE_FAILED, guard, log};
use overseer::Overseer;
use threads::Threads;

pub(crate) fn run(options: Serve) -> u8 {
    let set_level = log::start(options.log_level, options.log_format);
    let files = Files::find(options.file.iter().chain(&options.config).cloned());
    // On standard input a client speaks, not a person.
    let may_ask = options.transport == Transport::Http;
    let config = match &files {
        Some(files) => files.read_or_ask(may_ask).map_err(Unusable::problems),
        None => Ok(demo::config()),
    };
    let config = match config {
        Ok(config) => config,
        Err(problems) => return refused(&problems),
    };
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let served = runtime.block_on(serve(&options, files, config, set_level));
    // A thread may still wait for a terminal or a file; nobody waits for it.
    runtime.shutdown_background();
    served.unwrap_or_else(|error| failed(&error))
}

async fn serve(options: &Serve, files: Option<Files>, config: Config, set_level: SetLevel) -> io::Result<u8> {
    // To the end: a refresh of tokens may still run on one of them.
    let threads = Threads::start(options)?;
    if config.servers.is_empty() {
        tracing::warn!(
            "there are no servers in the configuration; add one: Regrow reloads the file when it changes"
        );
    }
    say_broken(&config);
    let traces = traces()?;
    let audit = match options.audit.destination() {
        Some(destination) => Audit::open(destination).map_err(io::Error::other)?,
        None => Audit::off(),
    };
    let shares = Arc::new(shares(&options.http));
    let settings =
        settings(options, files.as_ref(), set_level, audit.clone(), traces.clone(), shares.clone())?;
    let config_files = settings.config_files.clone();
    let overseer = Overseer::new(files, audit.clone(), options.transport == Transport::Http)?;
    let served = match options.transport {
        Transport::Stdio => stdio::serve(options, Gateway::new(config, settings), overseer).await,
        Transport::Http => match http::bind(options, audit.clone(), shares).await {
            Ok((bound, operator_token)) => {
                let bound = (bound.with_threads(threads.runtimes()), operator_token);
                http::serve(options, bound, Gateway::new(config, settings), overseer, config_files).await
            }
            Err(message) => Ok(usage(&message)),
        },
    };
    account::finish_refreshes().await;
    audit.close().await;
    #[cfg(feature = "otel")]
    traces.close().await;
    served
}

/// Calls are traced where the usual variables name a collector.
#[cfg(feature = "otel")]
fn traces() -> io::Result<Traces> {
    let is_named = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match is_named("OTEL_EXPORTER_OTLP_ENDPOINT") || is_named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        true => Traces::export(None).map_err(io::Error::other),
        false => Ok(Traces::off()),
    }
}

#[cfg(not(feature = "otel"))]
fn traces() -> io::Result<Traces> {
    Ok(Traces::off())
}

fn settings(
    options: &Serve,
    files: Option<&Files>,
    set_level: SetLevel,
    audit: Audit,
    traces: Traces,
    shares: Arc<Shares>,
) -> io::Result<Settings> {
    let cache = !options.no_cache;
    let guard = guard::of_servers()?;
    let era_file = EraFile::of_user().filter(|_| cache);
    Ok(Settings {
        clients: match options.transport {
            Transport::Stdio => Clients::One,
            Transport::Http => Clients::Many,
        },
        connect: Box::new(move |server, stderr| {
            let builder = connect(server, Some(guard.clone()), stderr, account::of_server(server))?;
            Ok(match &era_file {
                Some(file) => builder.era_file(file.clone(), address(server)),
                None => builder,
            })
        }),
        store: cache_folder().filter(|_| cache).map(|folder| Store::open(folder, SystemTime::now())),
        pins: PinFolder::of_user().filter(|_| cache),
        pin: match options.pin {
            arguments::Pin::Off => Pin::Off,
            arguments::Pin::Warn => Pin::Warn,
            arguments::Pin::Hold => Pin::Hold,
        },
        list_wait: options.list_wait,
        max_clients: options.http.max_clients,
        shares,
        config_files: files.iter().flat_map(|files| &files.paths).map(|path| shown(path)).collect(),
        audit,
        traces,
        log_level: Some(Box::new(move |level| set_level(as_said(level)))),
    })
}

/// A client token is one principal each. Without tokens the user who runs the gateway is one, and all others together are another.
fn shares(options: &HttpFace) -> Shares {
    let is_one_principal = match options.token_envs.len() {
        0 => !options.insecure && options.allow_users == Users::Own,
        tokens => tokens == 1,
    };
    Shares::new(options.memory_budget.unwrap_or_else(memory::default_budget), is_one_principal)
}

/// What the era of a server is remembered by. It is kept as a fingerprint only.
fn address(server: &ServerConfig) -> String {
    match &server.reach {
        Reach::Remote(remote) => remote.url.reveal().to_owned(),
        Reach::Broken(_) => String::new(),
        Reach::Process(process) => {
            let args: Vec<&str> = process.args.iter().map(Secret::reveal).collect();
            format!("{:?}", (&process.program, args))
        }
    }
}

fn as_said(level: operate::LogLevel) -> LogLevel {
    match level {
        operate::LogLevel::Off => LogLevel::Off,
        operate::LogLevel::Error => LogLevel::Error,
        operate::LogLevel::Warn => LogLevel::Warn,
        operate::LogLevel::Info => LogLevel::Info,
        operate::LogLevel::Debug => LogLevel::Debug,
    }
}

fn style(options: &Serve) -> ErrorStyle {
    match options.errors {
        Errors::Tool => ErrorStyle::Tool,
        Errors::Protocol => ErrorStyle::Protocol,
    }
}

/// Logs which servers cannot be served, and what to do about it. The others are served.
fn say_broken(config: &Config) {
    for (server, problems) in config.broken() {
        for problem in &problems.0 {
            tracing::error!(server = &*server.name, "not served: {problem}");
        }
    }
    let (all, broken) = (config.servers.len(), config.broken().count());
    if broken > 0 {
        tracing::warn!(
            "{broken} of {all} servers in the configuration cannot be served; fix the file: Regrow reloads it"
        );
    }
}

fn refused(problems: &Problems) -> u8 {
    eprintln!("{problems}");
    USAGE
}

fn usage(message: &str) -> u8 {
    eprintln!("regrow: {message}\nTry `regrow serve --help`.");
    USAGE
}

fn failed(error: &io::Error) -> u8 {
    eprintln!("regrow: cannot serve: {error}");
    WE_FAILED
}
