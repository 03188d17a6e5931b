//! Does what the lines on standard input say, with one supervised connection.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regrow::Connection;
use regrow::core::{Manner, Notice, Policy};
use regrow::transport::http::Http;
use regrow::transport::stdio::{Guard, Stdio, environment};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// Reads tasks until the end of the input, or until told to end; each is done beside the others.
pub(super) async fn serve(guard: Guard) {
    let client =
        Arc::new(Client { guard: Arc::new(guard), server: described(), connection: Mutex::default() });
    say(&json!({ "hello": concat!("regrow ", env!("CARGO_PKG_VERSION")) }));
    let mut terminated = signal(SignalKind::terminate()).expect("a runtime with I/O can hear of signals");
    let mut lines = input();
    let manner = loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break Manner::ClientLeft };
                let task: Value = serde_json::from_str(&line).unwrap_or_default();
                let client = Arc::clone(&client);
                tokio::spawn(async move { client.answer(&task).await });
            }
            _ = terminated.recv() => break Manner::Told,
        }
    };
    if let Some(connection) = client.connection() {
        connection.close_in(manner).await;
    }
}

/// The lines of standard input, read by a thread of their own.
fn input() -> tokio::sync::mpsc::Receiver<String> {
    let (lines, read) = tokio::sync::mpsc::channel(64);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return; // We are ending.
            }
        }
    });
    read
}

/// Where the server is, as the environment says.
fn described() -> Server {
    match std::env::var("REGROW_CHAOS_URL") {
        Ok(url) => Server::Remote(url),
        Err(_) => {
            let command = std::env::var("REGROW_CHAOS_COMMAND").unwrap_or_default();
            Server::Process(serde_json::from_str(&command).unwrap_or_default())
        }
    }
}

enum Server {
    Process(Vec<String>),
    Remote(String),
}

struct Client {
    guard: Arc<Guard>,
    server: Server,
    connection: Mutex<Option<Connection>>,
}

impl Client {
    fn connection(&self) -> Option<Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn answer(&self, task: &Value) {
        let timeout = Duration::from_millis(task["timeout_ms"].as_u64().unwrap_or(30_000));
        let outcome = match task["do"].as_str() {
            Some("connect") => self.connect(timeout).await,
            Some("list") => self.list().await,
            Some("call") => self.call(task, timeout).await,
            Some("status") => Ok(self.status().to_owned()),
            Some("close") => self.close().await,
            _ => return, // The first line says where the server is, as the environment does.
        };
        say(&match outcome {
            Ok(text) => json!({ "id": task["id"], "ok": true, "text": text }),
            Err(error) => json!({ "id": task["id"], "ok": false, "error": error }),
        });
    }

    async fn connect(&self, timeout: Duration) -> Result<String, String> {
        self.close().await?;
        let policy = Policy { connect_timeout: timeout, ..Policy::default() };
        let builder = match &self.server {
            Server::Process(command) => {
                let (program, args) = command.split_first().ok_or("REGROW_CHAOS_COMMAND names no program")?;
                let stdio = Stdio::new("chaos", program).args(args).environment(environment::inherited());
                Connection::builder("chaos", stdio.guard(Arc::clone(&self.guard)))
            }
            Server::Remote(url) => {
                Connection::builder("chaos", Http::new(url).map_err(|error| error.to_string())?)
            }
        };
        let connection = builder.policy(policy).build();
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
        let mut notices = connection.notices();
        connection.start();
        while let Some(notice) = notices.next().await {
            match &notice.what {
                Notice::Ready(_) => return Ok("connected".into()),
                Notice::Fault(_, fault, _) | Notice::Parked(fault) => return Err(fault.to_string()),
                _ => {}
            }
        }
        Err("the connection was closed".into())
    }

    async fn list(&self) -> Result<String, String> {
        let connection = self.connection().ok_or("not connected")?;
        let answer = connection.request("tools/list", None).await.map_err(|error| error.to_string())?;
        let result = answer.value().unwrap_or_default();
        let tools = result["tools"].as_array().into_iter().flatten();
        Ok(tools.filter_map(|tool| tool["name"].as_str()).collect::<Vec<_>>().join("\n"))
    }

    async fn call(&self, task: &Value, timeout: Duration) -> Result<String, String> {
        let connection = self.connection().ok_or("not connected")?;
        let params = json!({ "name": task["tool"], "arguments": task["arguments"] });
        let answer = connection.request_within("tools/call", Some(params), Some(timeout)).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let result: Value = match answer.into_result() {
            Ok(result) => serde_json::from_slice(result).unwrap_or_default(),
            Err(error) => {
                let error: Value = serde_json::from_slice(error).unwrap_or_default();
                return Err(error["message"].as_str().unwrap_or_default().to_owned());
            }
        };
        let texts = result["content"].as_array().into_iter().flatten();
        let text = texts.filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n");
        if result["isError"] == true { Err(text) } else { Ok(text) }
    }

    fn status(&self) -> &'static str {
        let ready = self.connection().is_some_and(|connection| connection.status().borrow().is_ready());
        if ready { "ready" } else { "down" }
    }

    async fn close(&self) -> Result<String, String> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection {
            connection.close().await;
        }
        Ok("closed".into())
    }
}

/// A line, whole. Nobody is left to tell if the suite has gone.
fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
