//! A server in memory whose lists can be changed, slowed and broken, and which counts what it is asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::{Epoch, Fault, Ladder, Policy};
use regrow::transport::{BoxFuture, Ended, Link, Pipes, Process, Transport};
use regrow::{Connection, Era, Status};
use regrow_gateway::catalog::{Catalog, CatalogRefresher, Item};
use regrow_protocol::list::List;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// A server. Clones share it.
#[derive(Clone)]
pub struct Fake {
    world: Arc<Mutex<World>>,
    exit: watch::Sender<Option<Fault>>,
}

pub struct World {
    pub capabilities: Value,
    /// What it answers to each method: the result, or an error code.
    pub answers: BTreeMap<&'static str, Answer>,
    /// Whether it can be started no more.
    pub is_broken: bool,
    pub starts: usize,
    pub heard: Vec<Heard>,
}

pub type Answer = Arc<dyn Fn(&Value) -> Result<Value, i64> + Send + Sync>;

/// A request that it got.
#[derive(Clone, Debug)]
pub struct Heard {
    pub method: String,
    pub params: Value,
}

impl Fake {
    /// A server with tools only.
    pub fn new() -> Fake {
        let fake = Fake {
            world: Arc::new(Mutex::new(World {
                capabilities: json!({ "tools": { "listChanged": true } }),
                answers: BTreeMap::new(),
                is_broken: false,
                starts: 0,
                heard: vec![],
            })),
            exit: watch::Sender::new(None),
        };
        fake.offers(&["one"]);
        fake
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("nobody panics with it")
    }

    /// From now on it has these tools.
    pub fn offers(&self, tools: &[&str]) {
        let tools: Vec<_> = tools.iter().map(|name| json!({ "name": name })).collect();
        self.answers("tools/list", move |_| Ok(json!({ "tools": tools })));
    }

    /// From now on it answers this method so.
    pub fn answers(
        &self,
        method: &'static str,
        answer: impl Fn(&Value) -> Result<Value, i64> + Send + Sync + 'static,
    ) {
        self.world().answers.insert(method, Arc::new(answer));
    }

    /// What it was asked by this method.
    pub fn heard_of(&self, method: &str) -> Vec<Heard> {
        self.world().heard.iter().filter(|heard| heard.method == method).cloned().collect()
    }

    pub fn count(&self, method: &str) -> usize {
        self.heard_of(method).len()
    }

    pub fn starts(&self) -> usize {
        self.world().starts
    }

    pub fn die(&self) {
        self.exit.send_replace(Some(Fault::Killed { signal: 9 }));
    }

    /// How it answers a request: with a result, with an error, or, where the result is null, not at all.
    fn answer(&self, message: &Value) -> Option<Value> {
        let method = message["method"].as_str()?;
        let answer = {
            let mut world = self.world();
            let heard = Heard { method: method.into(), params: message["params"].clone() };
            world.heard.push(heard);
            world.answers.get(method).cloned()
        };
        let capabilities = self.world().capabilities.clone();
        let info = json!({ "name": "fake", "version": "1" });
        let result = match (method, answer) {
            (_, Some(answer)) => answer(&message["params"]),
            ("initialize", _) => Ok(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info,
            })),
            ("server/discover", _) => Ok(json!({
                "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete",
                "_meta": { "io.modelcontextprotocol/serverInfo": info },
            })),
            ("ping", _) => Ok(json!({})),
            _ => Err(-32601),
        };
        let id = message.get("id")?;
        match result {
            Ok(Value::Null) => None,
            Ok(result) => Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            Err(code) => {
                Some(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "secret" } }))
            }
        }
    }

    async fn serve(self, input: DuplexStream, mut output: DuplexStream) {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message = serde_json::from_str(&line).expect("we write JSON");
            // A result says itself how long it takes.
            if let Some(answer) = self.answer(&message) {
                if let Some(pause) = answer["result"]["pauseMs"].as_u64() {
                    sleep(Duration::from_millis(pause)).await;
                }
                if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Transport for Fake {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        self.world().starts += 1;
        if self.world().is_broken {
            return Box::pin(std::future::ready(Err(Fault::Exited { code: 1 })));
        }
        self.exit.send_replace(None);
        let (input, their_input) = duplex(1 << 16);
        let (their_output, output) = duplex(1 << 16);
        tokio::spawn(self.clone().serve(their_input, their_output));
        let process = Arc::new(self.clone());
        let pipes = Pipes { input: Box::new(input), output: Box::new(output), process };
        Box::pin(std::future::ready(Ok(Link::Pipes(pipes))))
    }
}

impl Process for Fake {
    fn exited(&self) -> BoxFuture<Fault> {
        let mut exit = self.exit.subscribe();
        Box::pin(async move {
            let fault = exit.wait_for(Option::is_some).await.expect("the fake is there");
            fault.clone().expect("it was waited for")
        })
    }

    fn end(&self, _: Ladder) -> BoxFuture<Ended> {
        self.exit.send_if_modified(|exit| exit.replace(Fault::Exited { code: 0 }).is_none());
        let fault = self.exit.borrow().clone();
        Box::pin(std::future::ready(Ended { fault, ..Ended::default() }))
    }

    fn stderr(&self) -> regrow::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        None
    }
}

/// A catalog that is kept fresh over a connection to a fake.
pub struct Kept {
    pub connection: Connection,
    pub catalog: Arc<regrow::watch::Sender<Arc<Catalog>>>,
    pub keeper: CatalogRefresher,
}

impl Kept {
    /// The connection is not started yet.
    pub fn new(fake: &Fake, era: Era) -> Kept {
        let connection = connection(fake, era);
        let catalog = Arc::new(regrow::watch::Sender::new(Arc::new(Catalog::default())));
        let keeper = CatalogRefresher::start(connection.clone(), catalog.clone());
        Kept { connection, catalog, keeper }
    }

    /// The connection is ready, and all lists that come at once are there.
    pub async fn ready(fake: &Fake, era: Era) -> Kept {
        let kept = Kept::new(fake, era);
        kept.start().await;
        kept
    }

    pub async fn start(&self) {
        self.connection.start();
        self.until_connection(Status::is_ready).await;
        sleep(Duration::from_millis(10)).await;
    }

    pub async fn until_connection(&self, is_so: impl Fn(&Status) -> bool) {
        let mut status = self.connection.status();
        let seen = timeout(Duration::from_secs(3600), status.wait_for(|status| is_so(status))).await;
        seen.expect("it came to that in an hour").expect("the connection is there");
    }

    pub fn now(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// The keys of a list; none where it was never fetched.
    pub fn keys(&self, list: List) -> Option<Vec<String>> {
        let catalog = self.now();
        let listing = catalog.listing(list)?;
        Some(listing.items().iter().map(Item::key).map(str::to_owned).collect())
    }
}

pub fn connection(fake: &Fake, era: Era) -> Connection {
    let mut policy = Policy::default();
    policy.backoff.jitter_percent = 0;
    Connection::builder("fake", fake.clone()).policy(policy).seed(1).era(era).build()
}
