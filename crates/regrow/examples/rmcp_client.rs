//! A client on rmcp that does as it is told, for `tests/peers`: `rmcp_client [--mode legacy|auto] URL`.
//!
//! It speaks as `tests/peers/led.py` says: requests come as lines on its standard input, each answer goes out as a line.

use std::error::Error;
use std::io::BufRead;
use std::process::ExitCode;

use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, Peer, RoleClient};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// So many requests may wait to be begun; whoever leads us then waits.
const WAITING: usize = 64;

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
    // For rmcp's HTTP client. Nobody else has chosen one: this is the first line that runs.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (mut mode, mut url) = (ClientLifecycleMode::Initialize, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--mode" => mode = read_mode(arguments.next().as_deref())?,
            _ => url = Some(argument),
        }
    }
    let url = url.ok_or("usage: rmcp_client [--mode legacy|auto] URL")?;
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = ().serve_with_lifecycle(transport, mode).await?;
    println!("{}", json!({ "connected": client.peer_info().map(|info| info.protocol_version.clone()) }));

    let mut requests = requests();
    let mut pending = JoinSet::new();
    while let Some(line) = requests.recv().await {
        let request: Value = serde_json::from_str(&line)?;
        let peer = client.peer().clone();
        pending.spawn(async move {
            let mut answer =
                answer(&peer, &request).await.unwrap_or_else(|error| json!({ "threw": error.to_string() }));
            answer["id"] = request["id"].clone();
            println!("{answer}");
        });
        // What has ended is let go of; it has printed its answer itself.
        while pending.try_join_next().is_some() {}
    }
    while pending.join_next().await.is_some() {}
    client.cancel().await?;
    Ok(())
}

fn read_mode(name: Option<&str>) -> Result<ClientLifecycleMode, String> {
    match name {
        Some("legacy") => Ok(ClientLifecycleMode::Initialize),
        Some("auto") => Ok(ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        }),
        other => Err(format!("no mode: {other:?}")),
    }
}

/// The lines of standard input. Read by a thread of their own, which ends with them.
fn requests() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return; // Nobody asks for more: the client has ended.
            }
        }
    });
    receiver
}

async fn answer(peer: &Peer<RoleClient>, request: &Value) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let Some(tool) = request["call"].as_str() else {
        let tools = peer.list_all_tools().await?;
        return Ok(json!({ "tools": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>() }));
    };
    let arguments = request["arguments"].as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    Ok(told(&peer.call_tool(params).await?))
}

fn told(result: &CallToolResult) -> Value {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.as_str()).collect();
    json!({ "text": texts.join("\n"), "isError": result.is_error == Some(true), "meta": result.meta })
}
