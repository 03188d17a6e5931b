//! Commands of an operator.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use regrow_protocol::text::escape;
use serde::Deserialize;
use serde_json::json;

use super::Operator;
use super::answer::{no_such_server, refused, say};
use crate::audit::Record;
use crate::config::nearest;
use crate::operate::{CommandError, LogLevel, ServerCommand};

pub(super) async fn command(
    State(operate): Operator,
    Path((server, name)): Path<(String, String)>,
) -> Response {
    let Some(command) = ServerCommand::named(&name) else {
        let near = nearest(&name, ServerCommand::ALL.map(ServerCommand::name));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return refused(StatusCode::NOT_FOUND, &format!("unknown command: {}{hint}", escape(&name)));
    };
    let done = operate.command(&server, command);
    let record = Record::command(command.name(), Some(&server), outcome_of(&done));
    let response = match done {
        Ok(()) => {
            tracing::info!(server = &*server, "{}: accepted", command.name());
            // It is begun, not done.
            say(StatusCode::ACCEPTED, json!({ "server": server, "order": command.name() }))
        }
        Err(CommandError::NoSuchServer) => no_such_server(&operate.servers(), &server),
        Err(error) => failed(&error),
    };
    recorded(response, record)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelOrder {
    level: LogLevel,
}

pub(super) async fn log_level(State(operate): Operator, body: Bytes) -> Response {
    let wanted: LevelOrder = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(_) => {
            let form = "send {\"level\": \"info\"}; the levels are off, error, warn, info, debug";
            return refused(StatusCode::BAD_REQUEST, form);
        }
    };
    let done = operate.log_level(wanted.level);
    let record = Record::command(format!("log-level {}", wanted.level.name()), None, outcome_of(&done));
    let response = match done {
        Ok(()) => say(StatusCode::OK, json!({ "level": wanted.level })),
        Err(error) => failed(&error),
    };
    recorded(response, record)
}

pub(super) async fn logs(State(operate): Operator, Path(server): Path<String>) -> Response {
    match operate.logs(&server) {
        Some(lines) => say(StatusCode::OK, json!({ "server": server, "lines": lines })),
        None => no_such_server(&operate.servers(), &server),
    }
}

fn outcome_of(done: &Result<(), CommandError>) -> &'static str {
    done.as_ref().map_or_else(CommandError::name, |()| "ok")
}

/// The response to a command, with what the audit log gets to know of it.
fn recorded(mut response: Response, record: Record) -> Response {
    response.extensions_mut().insert(record);
    response
}

fn failed(error: &CommandError) -> Response {
    let code = match error {
        CommandError::NoSuchServer => StatusCode::NOT_FOUND,
        CommandError::Impossible(_) => StatusCode::CONFLICT,
        CommandError::Closing => StatusCode::SERVICE_UNAVAILABLE,
    };
    refused(code, &error.to_string())
}
