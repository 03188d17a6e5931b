//! Any number of clients over HTTP, all servers behind them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use regrow::core::Manner;
use regrow_gateway::Gateway;
use regrow_gateway::audit::Audit;
use regrow_gateway::config::Secret;
use regrow_gateway::face::http::{self, AllowUsers, Bound, ClientLimits, Options, Parting, Tls};
use regrow_gateway::operate;
use regrow_gateway::shares::Shares;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::overseer::Overseer;
use super::{progress, style};
use crate::DONE;
use crate::arguments::{Serve, Users};
use crate::running::{self, Announced, OperatorToken, Running};

/// After the calls in flight have had their time: to end the servers, and to tell clients what became of their calls.
const AFTER_DRAIN: Duration = Duration::from_secs(3);

/// For errors of calls to reach their clients, if the gateway must stop at once.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// Listens, or says what is wrong and what to do about it. Besides the token of `--admin-token-env`, the gateway accepts one that it
/// generates for the commands of its user on this machine. So the former, which may live long, is never written down.
pub(super) async fn bind(
    options: &Serve,
    audit: Audit,
    shares: Arc<Shares>,
) -> Result<(Bound, OperatorToken), String> {
    let face = &options.http;
    let secret = |option: &str, name: &String| match std::env::var(name) {
        Ok(token) if !token.is_empty() => Ok(Secret::new(&token)),
        _ => Err(format!("{option} {name}: the variable is not set or empty; set it to a secret")),
    };
    let tokens = face.token_envs.iter().map(|name| secret("--token-env", name));
    let generated = OperatorToken::generate().map_err(|error| format!("no operator token: {error}"))?;
    let mut operator_tokens = vec![Secret::new(generated.reveal())];
    if let Some(name) = &face.admin_token_env {
        operator_tokens.push(secret("--admin-token-env", name)?);
    }
    let usual = ClientLimits::default();
    let limits = ClientLimits {
        connections: usual.connections.min(files_for_clients()),
        body: options.max_line,
        session_idle: face.session_idle,
        sessions: face.max_clients,
        drain: options.drain_timeout,
        ..usual
    };
    let options = Options {
        addresses: vec![SocketAddr::new(face.host, face.port)],
        tokens: tokens.collect::<Result<_, _>>()?,
        operator_tokens,
        allow_users: match face.allow_users {
            Users::Own => AllowUsers::Own,
            Users::Any => AllowUsers::Any,
        },
        insecure: face.insecure,
        hosts: face.hosts.clone(),
        origins: face.origins.clone(),
        sse: face.sse,
        tls: face
            .tls_cert
            .clone()
            .zip(face.tls_key.clone())
            .map(|(certificate, key)| Tls { certificate, key }),
        audit,
        style: style(options),
        limits,
        shares,
    };
    let bound = http::bind(options).await.map_err(|error| error.to_string())?;
    Ok((bound, generated))
}

/// Half of the files that we may have open: servers need theirs, also while more clients come than we can take.
fn files_for_clients() -> usize {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    most.and_then(|most| usize::try_from(most / 2).ok()).unwrap_or(usize::MAX)
}

pub(super) async fn serve(
    options: &Serve,
    (bound, operator_token): (Bound, OperatorToken),
    gateway: Gateway,
    mut overseer: Overseer,
    config_files: Vec<String>,
) -> io::Result<u8> {
    // Before anybody reads where we are: who reads it may ask at once.
    let announced = announce(options, &bound, operator_token, config_files);
    for address in bound.addresses() {
        let scheme = scheme(options);
        tracing::info!("serving at {scheme}://{address}/mcp");
        tracing::info!("status at {scheme}://{address}/status; `regrow status` shows it, too");
    }
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.unwrap_or_default() };
    let admit = Arc::new(gateway.clone());
    let end_servers = {
        let gateway = gateway.clone();
        async move |manner| {
            let tell = |name: &str, left| tracing::info!(server = name, "ended; {left} left");
            gateway.shutdown(manner, tell).await;
        }
    };
    let pages = operate::routes(Arc::new(gateway.clone()));
    let mut serving = tokio::spawn(bound.serve(admit, pages, stopped, end_servers));
    {
        let mut overseen = std::pin::pin!(overseer.oversee(&gateway));
        tokio::select! {
            biased;
            () = &mut overseen => {}
            () = progress::show(&gateway) => overseen.await,
        }
    }

    tracing::info!("shutting down: no new calls; those in flight have {:?} to finish", options.drain_timeout);
    gateway.close();
    let _ = stop.send(()); // Unless it has ended on its own.
    let is_over = tokio::select! {
        biased;
        ended = timeout(options.drain_timeout + AFTER_DRAIN, &mut serving) => {
            if !matches!(ended, Ok(Ok(Parting { unanswered: 0 }))) {
                tracing::warn!("not all calls ended in time");
            }
            ended.is_ok()
        }
        () = overseer.told_again() => {
            tracing::info!("second signal: stopping at once");
            false
        }
    };
    gateway.shutdown(Manner::Told, |_, _| {}).await;
    if !is_over {
        // Calls in flight have failed. Clients that do not read that soon will not.
        let _ = timeout(LAST_BYTES, serving).await;
    }
    drop(announced);
    Ok(DONE)
}

fn scheme(options: &Serve) -> &'static str {
    if options.http.tls_cert.is_some() { "https" } else { "http" }
}

/// Lets the operator's commands find us, and gives them our token. We serve without that, too.
fn announce(
    options: &Serve,
    bound: &Bound,
    operator_token: OperatorToken,
    config_files: Vec<String>,
) -> Option<Announced> {
    let running = Running {
        url: running::url(scheme(options), *bound.addresses().first()?),
        pid: std::process::id(),
        operator_token,
        config_files,
    };
    let say = |error: &io::Error| {
        let then = match options.http.admin_token_env {
            Some(_) => "they need --url and the operator token",
            None => "restart with --admin-token-env to use them",
        };
        tracing::warn!("`regrow status` and the like cannot find this gateway ({error}); {then}");
    };
    running::announce(&running).inspect_err(say).ok()
}
