//! A whole gateway in simulated time, before two servers that say what they got.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use regrow::core::{Epoch, Fault, Ladder};
use regrow::transport::{BoxFuture, Ended, Link, Pipes, Process, Transport};
use regrow::{Connection, Era};
use regrow_gateway::config::{self, Config, Options, Place, Reach};
use regrow_gateway::operate::Operate;
use regrow_gateway::{Clients, Gateway, Settings};
use regrow_protocol::frame::{self, Frame, Kind};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

/// The servers and their tools. Some would be called the same together.
const SERVERS: [(&str, &[&str]); 2] = [("a", &["b__c", "echo", "t.1", "t/1"]), ("a__b", &["c", "echo"])];

/// A gateway. What its servers hear is kept.
pub(super) struct House {
    gateway: Gateway,
    heard: Heard,
}

type Heard = Arc<Mutex<Vec<(&'static str, String)>>>;

impl House {
    /// Must be called inside a tokio runtime.
    pub(super) fn new() -> House {
        let heard = Heard::default();
        let at_servers = heard.clone();
        let settings = Settings {
            clients: Clients::Many,
            connect: Box::new(move |server, _| {
                let of = SERVERS.iter().find(|(name, _)| **name == server.name).expect("it is one of ours");
                let echo = Echo { of: *of, heard: at_servers.clone() };
                Ok(Connection::builder(&*server.name, echo).seed(1).era(Era::Legacy))
            }),
            store: None,
            pins: None,
            pin: Default::default(),
            list_wait: Duration::from_secs(5),
            max_clients: 16,
            shares: Default::default(),
            config_files: vec![],
            audit: Default::default(),
            traces: Default::default(),
            log_level: None,
        };
        let servers = SERVERS.iter().map(|(name, _)| described(name)).collect();
        let gateway = Gateway::new(Config { servers, ..Config::default() }, settings);
        House { gateway, heard }
    }

    /// A face that nobody has seen yet.
    pub(super) fn pages(&self) -> Router {
        regrow_gateway::fuzzing::pages(Arc::new(self.gateway.clone()))
    }

    /// How many clients are there.
    pub(super) fn clients(&self) -> u64 {
        self.gateway.gateway().clients
    }

    /// All that its servers heard since this was last asked, with the name of each.
    pub(super) fn heard(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut *lock(&self.heard))
    }
}

fn described(name: &str) -> config::ServerConfig {
    let process = config::Process {
        program: name.to_owned(),
        args: vec![],
        variables: BTreeMap::new(),
        inherit: config::Inherit::Named(vec![]),
        removed: vec![],
        directory: None,
    };
    config::ServerConfig {
        file: "fuzz".into(),
        name: name.to_owned(),
        place: Place { file: "fuzz".into(), line: 1, column: 1 },
        reach: Reach::Process(process),
        options: Options { era: Era::Legacy, ..Options::default() },
        account_is_of: None,
    }
}

/// A server that answers each request with the arguments that it got.
#[derive(Clone)]
struct Echo {
    of: (&'static str, &'static [&'static str]),
    heard: Heard,
}

impl Echo {
    async fn serve(self, input: DuplexStream, mut output: DuplexStream) {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let answer = self.answer(&line);
            lock(&self.heard).push((self.of.0, line));
            let Some(answer) = answer else { continue };
            if output.write_all(&answer).await.is_err() {
                return; // Nobody reads any more.
            }
        }
    }

    /// A tool that says whose it is.
    fn listed(&self, tool: &str) -> Value {
        json!({ "name": tool, "server": self.of.0, "tool": tool })
    }

    fn answer(&self, line: &str) -> Option<bytes::Bytes> {
        let message = Frame::parse(line.to_owned().into()).ok()?;
        let Kind::Request { id, method } = message.kind() else { return None };
        let say = |result: &Value| Some(frame::response(&id, result.to_string().as_bytes()));
        match method {
            "initialize" => say(&json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {}, "logging": {} },
                "serverInfo": { "name": self.of.0, "version": "1" },
            })),
            "tools/list" => {
                let tools: Vec<_> = self.of.1.iter().map(|tool| self.listed(tool)).collect();
                say(&json!({ "tools": tools }))
            }
            _ => {
                let params = message.params().unwrap_or_default();
                let params: BTreeMap<String, &RawValue> = serde_json::from_slice(params).unwrap_or_default();
                let got = params.get("arguments").map_or("null", |raw| raw.get());
                Some(frame::response(&id, format!("{{\"content\":[],\"got\":{got}}}").as_bytes()))
            }
        }
    }
}

impl Transport for Echo {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let (input, far_input) = duplex(1 << 16);
        let (far_output, output) = duplex(1 << 16);
        tokio::spawn(self.clone().serve(far_input, far_output));
        let pipes = Pipes { input: Box::new(input), output: Box::new(output), process: Arc::new(Lasting) };
        Box::pin(std::future::ready(Ok(Link::Pipes(pipes))))
    }
}

/// A process that never ends on its own.
struct Lasting;

impl Process for Lasting {
    fn exited(&self) -> BoxFuture<Fault> {
        Box::pin(std::future::pending())
    }

    fn end(&self, _: Ladder) -> BoxFuture<Ended> {
        Box::pin(std::future::ready(Ended::default()))
    }

    fn stderr(&self) -> regrow::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
