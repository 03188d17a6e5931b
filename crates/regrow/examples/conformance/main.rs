//! The client that the official conformance suite runs against its servers, made of nothing but this crate:
//! `conformance [--wrap REGROW] [--era legacy|modern] [--server-era legacy|modern] URL`.
//!
//! It does what any curious client does: it lists what the server has, and uses all of it once, with arguments that fit the
//! schemas. Whatever the server asks on the way is accepted with the defaults of the question. That is all the suite's
//! scenarios want, whichever they are. A server that asks for a token gets one, by OAuth. With `--wrap` it reaches the server
//! through `regrow wrap URL` instead, which may be told the server's era, and the client that the suite has registered.

mod consent;
mod oauth;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use regrow::transport::http::Http;
use regrow::transport::stdio::{Stdio, environment};
use regrow::{CallError, ClientParams, Connection, Era, IncomingMessages};
use serde_json::{Map, Value, json};
use url::Url;

use crate::oauth::{OAuth, OUR_DOCUMENT, Registered};

/// How often a server may answer a request with a question.
const MAX_ROUNDS: usize = 8;
/// The variable that tells `regrow wrap` the secret of our client.
const SECRET: &str = "CONFORMANCE_CLIENT_SECRET";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    // For the requests that are not Regrow's own. Nobody else has chosen one: this is the first line that runs.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = None;
    let mut era = Era::Auto;
    let mut wrap = None;
    let mut server_era = "auto".to_owned();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), &wrap) {
            ("--wrap", _) => wrap = arguments.next(),
            ("--server-era", _) => server_era = arguments.next().unwrap_or_default(),
            ("--era", _) => era = read_era(arguments.next().as_deref())?,
            (url, None) => {
                let credential = OAuth::new(Url::parse(url)?, registered());
                let server = Http::new(url)?.credential(Arc::new(credential));
                builder = Some(Connection::builder("conformance", server));
            }
            (url, Some(regrow)) => {
                let mut arguments = vec!["wrap", "--no-cache", "--era", &server_era];
                arguments.extend(["--client-metadata-url", OUR_DOCUMENT]);
                let mut variables = environment::inherited();
                let client = registered();
                if let Some(Registered { issuer, client_id, client_secret }) = &client {
                    arguments.extend(["--issuer", issuer, "--client-id", client_id]);
                    if let Some(secret) = client_secret {
                        arguments.extend(["--client-secret-env", SECRET]);
                        variables.insert(SECRET.into(), secret.into());
                    }
                }
                arguments.push(url);
                let server = Stdio::new("conformance", regrow).args(arguments).environment(variables);
                builder = Some(Connection::builder("conformance", server));
            }
        }
    }
    let hello = ClientParams {
        client_info: json!({ "name": "regrow-conformance", "version": env!("CARGO_PKG_VERSION") }),
        capabilities: json!({ "elicitation": {}, "sampling": {}, "roots": {} }),
        legacy_version: None,
    };
    let connection = builder
        .ok_or("usage: conformance [--wrap REGROW] [--era legacy|modern] [--server-era legacy|modern] URL")?;
    let connection = connection.era(era).client_params(hello).build();
    if let Some(incoming) = connection.incoming() {
        tokio::spawn(answer_all(connection.clone(), incoming));
    }
    let walked = walk(&connection).await;
    connection.close().await;
    Ok(walked?)
}

fn read_era(name: Option<&str>) -> Result<Era, String> {
    match name {
        Some("legacy") => Ok(Era::Legacy),
        Some("modern") => Ok(Era::Modern),
        other => Err(format!("no era: {other:?}")),
    }
}

/// Uses everything that the server has, once.
async fn walk(connection: &Connection) -> Result<(), CallError> {
    let tools = list(connection, "tools/list", "tools").await?;
    let welcome = connection.welcome();
    let result =
        welcome.and_then(|welcome| serde_json::from_slice::<Value>(&welcome.result).ok()).unwrap_or_default();
    let has = |what: &str| result["capabilities"].get(what).is_some();

    match wanted_calls() {
        Some(calls) => {
            for call in calls {
                use_once(connection, "tools/call", call).await?;
            }
        }
        None => {
            for tool in &tools {
                let params = json!({ "name": tool["name"], "arguments": arguments_for(tool, &tools) });
                use_once(connection, "tools/call", params).await?;
            }
        }
    }
    if has("resources") {
        for resource in list(connection, "resources/list", "resources").await? {
            use_once(connection, "resources/read", json!({ "uri": resource["uri"] })).await?;
        }
    }
    if has("prompts") {
        for prompt in list(connection, "prompts/list", "prompts").await? {
            use_once(connection, "prompts/get", json!({ "name": prompt["name"] })).await?;
        }
    }
    Ok(())
}

/// The calls that the suite asks for by name, where it does.
fn wanted_calls() -> Option<Vec<Value>> {
    context()?["toolCalls"].as_array().cloned()
}

/// The client that the suite says is known to an authorization server, where it does.
fn registered() -> Option<Registered> {
    let context = context()?;
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let client_secret = text("client_secret");
    Some(Registered { issuer: text("issuer")?, client_id: text("client_id")?, client_secret })
}

/// What the suite tells to its clients beside the address.
fn context() -> Option<Value> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok()?;
    serde_json::from_str(&context).ok()
}

/// A list of the server, empty where it has none.
async fn list(connection: &Connection, method: &str, member: &str) -> Result<Vec<Value>, CallError> {
    let result = use_once(connection, method, json!({})).await?;
    Ok(result[member].as_array().cloned().unwrap_or_default())
}

/// Sends a request, and again with the answers while the server answers with questions. An error of its own is told, and null.
async fn use_once(connection: &Connection, method: &str, params: Value) -> Result<Value, CallError> {
    let mut round = params.clone();
    for _ in 0..MAX_ROUNDS {
        let answer = connection.request(method, Some(round)).await?;
        let Some(result) = answer.value() else {
            let error = answer.into_result().err().unwrap_or_default();
            println!("{method} {params}: {}", String::from_utf8_lossy(error));
            return Ok(Value::Null);
        };
        println!("{method} {params}: {result}");
        if result["resultType"] != "input_required" {
            return Ok(result);
        }
        round = next_round(&params, &result);
    }
    println!("{method} {params}: too many questions");
    Ok(Value::Null)
}

/// The same request with the answers to the server's questions, and with the state that it gave us to keep.
fn next_round(params: &Value, result: &Value) -> Value {
    let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
    let answers: Map<String, Value> = questions
        .into_iter()
        .map(|(key, question)| {
            let method = question["method"].as_str().unwrap_or_default();
            (key, answer(method, &question["params"]).unwrap_or_default())
        })
        .collect();
    let mut params = params.clone();
    params["inputResponses"] = answers.into();
    if let Some(state) = result.get("requestState") {
        params["requestState"] = state.clone();
    }
    params
}

/// Answers what a server of the legacy era asks.
async fn answer_all(connection: Connection, mut incoming: IncomingMessages) {
    while let Some(message) = incoming.next().await {
        let Some(method) = message.frame.method().filter(|_| message.frame.id().is_some()) else { continue };
        let params = message.frame.params().and_then(|params| serde_json::from_slice(params).ok());
        match answer(method, &params.unwrap_or_default()) {
            Some(result) => connection.respond(&message, &result),
            None => connection.refuse(&message, -32601, "Method not found"),
        };
    }
}

/// What a user who accepts everything says, or a model that has little to say.
fn answer(method: &str, params: &Value) -> Option<Value> {
    match method {
        "elicitation/create" => {
            let schema = &params["requestedSchema"];
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let content: Map<String, Value> =
                properties.iter().map(|(name, property)| (name.clone(), example(property))).collect();
            Some(json!({ "action": "accept", "content": content }))
        }
        "sampling/createMessage" => {
            let content = json!({ "type": "text", "text": "yes" });
            Some(json!({ "role": "assistant", "content": content, "model": "none" }))
        }
        "roots/list" => Some(json!({ "roots": [] })),
        _ => None,
    }
}

/// Arguments for a tool. One that wants a schema gets that of another tool, as we have received it.
fn arguments_for(tool: &Value, tools: &[Value]) -> Value {
    let schema = &tool["inputSchema"];
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let arguments = properties.iter().filter(|(name, _)| required.iter().any(|one| one == name.as_str()));
    let value = |name: &str, property| match name {
        "schema" => tools
            .iter()
            .find(|other| *other != tool)
            .map(|other| other["inputSchema"].clone())
            .unwrap_or_default(),
        _ => example(property),
    };
    arguments.map(|(name, property)| (name.clone(), value(name, property))).collect::<Map<_, _>>().into()
}

/// A value that fits a schema: its default, else the first of its choices, else one of its type.
fn example(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("number" | "integer") => json!(1),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}
