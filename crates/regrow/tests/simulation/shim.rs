//! Stands between the engine and a process, and has a bug.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::{Epoch, Fault, Ladder};
use regrow::transport::{BoxFuture, Ended, Link, Pipes, Process, Transport};
use regrow_testkit::server::Server;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, duplex};
use tokio::time::sleep;

use crate::bug::Bug;

#[derive(Clone)]
pub struct Shim {
    server: Server,
    bug: Bug,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    starts: u64,
    /// A message that is kept for later, and the start that it comes from.
    kept: Option<(u64, Value)>,
}

impl Shim {
    pub fn new(server: Server, bug: Bug) -> Shim {
        Shim { server, bug, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while writing")
    }

    /// What the server gets instead of this message.
    fn to_server(&self, start: u64, message: Value) -> Vec<Value> {
        let method = message["method"].as_str().unwrap_or_default();
        let restarted = start > 1;
        match self.bug {
            Bug::CallsTwice if method == "tools/call" => vec![message.clone(), message],
            Bug::SubscribesTwice if method == "resources/subscribe" && restarted => {
                vec![message.clone(), message]
            }
            Bug::ForgetsSubscription if method == "resources/subscribe" && restarted => vec![],
            Bug::RepliesTwice if method.is_empty() => vec![message.clone(), message],
            Bug::RepliesToTheNext if method.is_empty() => {
                self.state().kept = Some((start, message.clone()));
                vec![message]
            }
            Bug::RepliesToTheNext if method == "tools/call" => {
                let kept = self.state().kept.take_if(|(from, _)| *from < start);
                kept.map(|(_, message)| message).into_iter().chain([message]).collect()
            }
            _ => vec![message],
        }
    }

    /// What the engine gets instead of this message.
    fn to_engine(&self, start: u64, message: Value) -> Vec<Value> {
        if self.bug != Bug::AnswersCross || message["result"]["got"].is_null() {
            return vec![message];
        }
        match self.state().kept.replace((start, message.clone())) {
            Some((from, mut other)) if from == start => {
                let mut message = message;
                std::mem::swap(&mut message["id"], &mut other["id"]);
                vec![other, message]
            }
            _ => vec![message],
        }
    }

    fn between(self, start: u64, pipes: Pipes) -> Pipes {
        let (input, from_engine) = duplex(64 * 1024);
        let (to_engine, output) = duplex(64 * 1024);
        let (there, back) = (self.clone(), self.clone());
        tokio::spawn(pass(from_engine, pipes.input, move |message| there.to_server(start, message)));
        tokio::spawn(pass(pipes.output, to_engine, move |message| back.to_engine(start, message)));
        let process: Arc<dyn Process> = match self.bug {
            Bug::SaysGoneTooSoon => Arc::new(Gone { process: pipes.process, stays: false }),
            Bug::LeavesProcess => Arc::new(Gone { process: pipes.process, stays: true }),
            _ => pipes.process,
        };
        Pipes { input: Box::new(input), output: Box::new(output), process }
    }
}

impl Transport for Shim {
    fn open(&self, epoch: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let shim = self.clone();
        let start = {
            let mut state = self.state();
            state.starts += 1;
            state.starts
        };
        if self.bug == Bug::StaysDown && start > 2 {
            let fault = Fault::SpawnFailed { program: "x".into(), reason: "down for good".into() };
            return Box::pin(std::future::ready(Err(fault)));
        }
        let opening = self.server.open(epoch);
        Box::pin(async move {
            let pipes = opening.await?.into_pipes().expect("a process has pipes");
            Ok(Link::Pipes(shim.between(start, pipes)))
        })
    }
}

/// Hands on lines, each as what it is turned into; what is no message as it is.
async fn pass(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    turn: impl Fn(Value) -> Vec<Value>,
) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let lines = match serde_json::from_str(&line) {
            Ok(message) => turn(message).iter().map(|message| format!("{message}\n")).collect(),
            Err(_) => format!("{line}\n"),
        };
        if to.write_all(lines.as_bytes()).await.is_err() {
            return; // Nobody reads any more.
        }
    }
}

/// A process that is said to be gone while it is not.
struct Gone {
    process: Arc<dyn Process>,
    stays: bool,
}

impl Process for Gone {
    fn exited(&self) -> BoxFuture<Fault> {
        self.process.exited()
    }

    fn end(&self, ladder: Ladder) -> BoxFuture<Ended> {
        let process = self.process.clone();
        if self.stays {
            std::mem::forget(process);
        } else {
            tokio::spawn(async move {
                sleep(Duration::from_secs(2)).await;
                process.end(ladder).await
            });
        }
        Box::pin(std::future::ready(Ended::default()))
    }

    fn stderr(&self) -> regrow::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        self.process.pid()
    }
}
