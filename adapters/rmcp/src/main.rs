//! rmcp's client, as its documentation shows it, driven over the line protocol of `regrow chaos client` (docs/chaos.md).

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult};
use rmcp::service::{PeerRequestOptions, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::RwLock;

type Service = RunningService<RoleClient, ()>;
type Outcome = Result<String, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() {
    let client = Arc::new(Client::default());
    say(&json!({ "hello": "rmcp 3.8.0" }));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let task: Value = serde_json::from_str(&line).unwrap_or_default();
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.answer(&task).await });
    }
    // What it says at the end interests nobody: what counts is what is left.
    let _ = client.close().await;
}

#[derive(Default)]
struct Client {
    service: RwLock<Option<Service>>,
}

impl Client {
    async fn answer(&self, task: &Value) {
        let timeout = Duration::from_millis(task["timeout_ms"].as_u64().unwrap_or(30_000));
        let outcome = match task["do"].as_str() {
            Some("connect") => self.connect(timeout).await,
            Some("list") => self.list().await,
            Some("call") => self.call(task, timeout).await,
            Some("status") => Ok(self.status().await),
            Some("close") => self.close().await,
            _ => return, // The first line says where the server is, as the environment does.
        };
        say(&match outcome {
            Ok(text) => json!({ "id": task["id"], "ok": true, "text": text }),
            Err(error) => json!({ "id": task["id"], "ok": false, "error": error.to_string() }),
        });
    }

    async fn connect(&self, timeout: Duration) -> Outcome {
        let service = match std::env::var("REGROW_CHAOS_URL") {
            Ok(url) => {
                let transport = StreamableHttpClientTransport::from_uri(url);
                tokio::time::timeout(timeout, ().serve(transport)).await??
            }
            Err(_) => {
                let command: Vec<String> = serde_json::from_str(&std::env::var("REGROW_CHAOS_COMMAND")?)?;
                let (program, args) = command.split_first().ok_or("no command")?;
                let mut command = Command::new(program);
                command.args(args);
                tokio::time::timeout(timeout, ().serve(TokioChildProcess::new(command)?)).await??
            }
        };
        *self.service.write().await = Some(service);
        Ok("connected".into())
    }

    async fn list(&self) -> Outcome {
        let service = self.service.read().await;
        let tools = service.as_ref().ok_or("not connected")?.list_all_tools().await?;
        Ok(tools.into_iter().map(|tool| tool.name.into_owned()).collect::<Vec<_>>().join("\n"))
    }

    async fn call(&self, task: &Value, timeout: Duration) -> Outcome {
        let name = task["tool"].as_str().unwrap_or_default().to_owned();
        let arguments = task["arguments"].as_object().cloned().unwrap_or_default();
        let request = CallToolRequest::new(CallToolRequestParams::new(name).with_arguments(arguments));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::with_timeout(timeout);
        let service = self.service.read().await;
        let handle = service.as_ref().ok_or("not connected")?.send_request_with_option(request, options).await?;
        drop(service);
        let ServerResult::CallToolResult(result) = handle.await_response().await? else {
            return Err("not the result of a tool".into());
        };
        let texts = result.content.iter().filter_map(|content| content.as_text());
        let text = texts.map(|text| text.text.as_str()).collect::<Vec<_>>().join("\n");
        if result.is_error == Some(true) { Err(text.into()) } else { Ok(text) }
    }

    async fn status(&self) -> String {
        let service = self.service.read().await;
        let ready = service.as_ref().is_some_and(|service| !service.is_transport_closed());
        if ready { "ready".into() } else { "down".into() }
    }

    async fn close(&self) -> Outcome {
        if let Some(service) = self.service.write().await.take() {
            service.cancel().await?;
        }
        Ok("closed".into())
    }
}

/// A line, whole. Nobody is left to tell if the suite has gone.
fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
