//! Our own options, under `"regrow"`: for one server, or at top level for all.

use std::path::PathBuf;
use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use regrow::core::{Policy, Replay};
use regrow::transport::stdio::Sandbox;
use regrow_protocol::version::Era;

use crate::catalog::Pin;
use crate::tool_filter::ToolFilter;

use super::members::{self, KEY, Member};
use super::message::printable;
use super::names::nearest;
use super::reading::Reading;
use super::sign_in::{self, SignIn};
use super::{sandbox, tools};

mod setting;
mod table;

use setting::Setting;
pub use table::{Described, Kind, OPTIONS};

/// What we do for a server, beyond how it is reached. `docs/configuration.md` tells of each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `OPTIONS` says what each means, for people and for this.
pub struct Options {
    pub call_timeout: Option<Duration>,
    pub connect_timeout: Duration,
    pub patience: Option<Duration>,
    pub idle_probe: Option<Duration>,
    pub hang_timeout: Option<Duration>,
    pub budget: (u32, Duration),
    pub replay: Replay,
    pub safe_tools: Vec<String>,
    pub max_line: usize,
    pub era: Era,
    pub clean_env: bool,
    pub no_new_privileges: bool,
    pub sandbox: Option<Sandbox>,
    pub stderr_in_errors: bool,
    pub header_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub reach_timeout: Duration,
    pub header_timeout: Option<Duration>,
    pub stream_timeout: Option<Duration>,
    pub sign_in: SignIn,
    pub start: Start,
    pub idle_stop: Option<Duration>,
    pub sessions: Sessions,
    pub session_idle: Duration,
    pub max_sessions: u32,
    pub queue: u32,
    pub concurrency: Option<u32>,
    pub rate: Option<(u32, Duration)>,
    pub tools: ToolFilter,
    pub pin: Option<Pin>,
}

/// When a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With us.
    Eager,
    /// With the first call.
    Lazy,
}

/// Who shares a session with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// The clients of one principal, except those that need a session of their own.
    Auto,
    /// The clients of one principal.
    Shared,
    /// Nobody: each client session has its own.
    Private,
}

impl Default for Options {
    fn default() -> Options {
        let policy = Policy::default();
        let limits = regrow::transport::http::Limits::default();
        Options {
            call_timeout: policy.call_timeout,
            connect_timeout: policy.connect_timeout,
            patience: policy.patience,
            idle_probe: policy.idle_probe,
            hang_timeout: policy.hang_timeout,
            budget: (policy.budget.charges, policy.budget.window),
            replay: policy.replay,
            safe_tools: vec![],
            max_line: regrow::MAX_LINE,
            era: Era::Auto,
            clean_env: true,
            no_new_privileges: true,
            sandbox: None,
            stderr_in_errors: false,
            header_file: None,
            ca_file: None,
            client_cert: None,
            client_key: None,
            reach_timeout: limits.connect,
            header_timeout: limits.header,
            stream_timeout: limits.idle,
            sign_in: SignIn::default(),
            start: Start::Eager,
            idle_stop: None,
            sessions: Sessions::Auto,
            session_idle: Duration::from_secs(1800),
            max_sessions: 64,
            queue: u32::try_from(policy.max_calls).unwrap_or(u32::MAX),
            concurrency: None,
            rate: None,
            tools: ToolFilter::default(),
            pin: None,
        }
    }
}

/// Reads the options in this member over those that hold already.
pub(super) fn read(reading: &mut Reading<'_>, member: Option<Member<'_>>, options: &mut Options) {
    let Some(member) = member else { return };
    let Value::Object(object) = member.value else {
        reading.problem(
            member.value.range(),
            KEY,
            "it must be an object; write { \"callTimeout\": \"60s\" }",
        );
        return;
    };
    let mut seen: Vec<&str> = vec![];
    for option in members::all(object) {
        let field = format!("{KEY}.{}", option.name);
        if seen.contains(&option.name) {
            reading.problem(option.at, &field, "it is written twice; keep one of them");
        }
        seen.push(option.name);
        let Some(described) = OPTIONS.iter().find(|described| described.name == option.name) else {
            let text = unknown_option(option.name, reading);
            reading.problem(option.at, &field, text);
            continue;
        };
        let setting = match described.kind {
            Kind::Path => match reading.path(option.value, &field) {
                Some(path) => Setting::Path(path),
                None => continue,
            },
            Kind::Sandbox => match sandbox::read(reading, option.value, &field) {
                Some(sandbox) => Setting::Sandbox(sandbox),
                None => continue,
            },
            Kind::Tools => match tools::read(reading, option.value, &field) {
                Some(tools) => Setting::Tools(tools),
                None => continue,
            },
            Kind::SignIn => match sign_in::read(reading, option.value, &field) {
                Some(sign_in) => Setting::SignIn(sign_in),
                None => continue,
            },
            _ => Setting::Value(option.value),
        };
        if let Err(problem) = (described.set)(options, &setting) {
            reading.problem(option.value.range(), &field, problem);
        }
    }
    let (certificate, key) = (options.client_cert.is_some(), options.client_key.is_some());
    if certificate != key {
        let text = "clientCert and clientKey belong together; set both or none";
        reading.problem(member.at, KEY, text);
    }
    if options.sandbox.is_some() && !options.no_new_privileges {
        let text = "a server in a sandbox gains no rights; remove \"sandbox\" or \"noNewPrivileges\"";
        reading.problem(member.at, KEY, text);
    }
}

/// What is to be said about an option that does not exist.
fn unknown_option(name: &str, reading: &Reading<'_>) -> String {
    match nearest(name, OPTIONS.iter().map(|option| option.name)) {
        _ if members::of_server(reading.host).contains(&name) && name != KEY => {
            match reading.is_in_server() {
                true => format!("this is not an option of Regrow; move it out of \"{KEY}\", to beside it"),
                false => "this is not an option of Regrow; it belongs to a server".into(),
            }
        }
        Some(meant) => format!("there is no such option; did you mean \"{}\"?", printable(meant)),
        None => "there is no such option; docs/configuration.md lists all".into(),
    }
}

/// Whether this is a value that the option can have.
pub(super) fn accepts(option: &Described, value: &Value<'_>) -> bool {
    match (option.kind, value) {
        (Kind::Sandbox, Value::Object(object)) => sandbox::is_ours(object),
        (Kind::Tools, Value::Object(object)) => tools::is_ours(object),
        (Kind::SignIn, Value::Object(object)) => sign_in::is_ours(object),
        _ => (option.set)(&mut Options::default(), &Setting::Value(value)).is_ok(),
    }
}

#[cfg(test)]
mod tests;
