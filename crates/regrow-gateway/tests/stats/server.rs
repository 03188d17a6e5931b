//! A server that never was: it answers, and dies when told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Epoch, Fault, Ladder};
use regrow::transport::{BoxFuture, Ended, Link, Pipes, Process, Transport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::sleep;

/// Clones share it.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    refusal: Option<Fault>,
    running: Option<Running>,
}

/// One process; its end is known to all who hold it.
#[derive(Clone)]
struct Running(Arc<watch::Sender<Option<Fault>>>);

impl Server {
    /// Ends the process that runs now.
    pub fn die(&self, fault: Fault) {
        self.0.lock().unwrap().running.as_ref().unwrap().die(fault);
    }

    /// Cannot be started from now on, for this reason.
    pub fn refuse(&self, fault: Option<Fault>) {
        self.0.lock().unwrap().refusal = fault;
    }

    pub fn is_alive(&self) -> bool {
        self.0.lock().unwrap().running.as_ref().is_some_and(|running| running.0.borrow().is_none())
    }
}

impl Transport for Server {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let mut inner = self.0.lock().unwrap();
        if let Some(fault) = inner.refusal.clone() {
            return Box::pin(std::future::ready(Err(fault)));
        }
        let running = Running(Arc::new(watch::channel(None).0));
        inner.running = Some(running.clone());
        let (input, stdin) = duplex(64 * 1024);
        let (stdout, output) = duplex(64 * 1024);
        let serving = running.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = serving.death() => {}
                () = serve(stdin, stdout) => serving.die(Fault::Exited { code: 0 }),
            }
        });
        let pipes = Pipes { input: Box::new(input), output: Box::new(output), process: Arc::new(running) };
        Box::pin(std::future::ready(Ok(Link::Pipes(pipes))))
    }
}

impl Running {
    fn die(&self, fault: Fault) {
        self.0.send_if_modified(|end| match end {
            Some(_) => false,
            None => {
                *end = Some(fault);
                true
            }
        });
    }

    async fn death(&self) -> Fault {
        let mut end = self.0.subscribe();
        end.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }
}

impl Process for Running {
    fn exited(&self) -> BoxFuture<Fault> {
        let running = self.clone();
        Box::pin(async move { running.death().await })
    }

    fn end(&self, _: Ladder) -> BoxFuture<Ended> {
        self.die(Fault::Exited { code: 0 });
        let running = self.clone();
        Box::pin(async move { Ended { fault: Some(running.death().await), ..Ended::default() } })
    }

    fn stderr(&self) -> regrow::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        Some(11)
    }
}

async fn serve(stdin: DuplexStream, mut stdout: DuplexStream) {
    let mut lines = BufReader::new(stdin).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"].is_null() {
            continue;
        }
        let arguments = &message["params"]["arguments"];
        sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0))).await;
        let answer = match message["method"].as_str().unwrap() {
            "initialize" => json!({ "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "fake", "version": "1.2" },
            }}),
            "tools/call" if arguments["refuses"] == true => {
                json!({ "error": { "code": -32602, "message": "no" } })
            }
            "tools/call" => json!({ "result": { "content": [], "isError": arguments["fails"] == true } }),
            _ => json!({ "result": {} }),
        };
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = message["id"].clone();
        if stdout.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return; // Nobody listens any more.
        }
    }
}
