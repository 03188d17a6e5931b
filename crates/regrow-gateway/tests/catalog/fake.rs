//! A server in memory whose lists can be changed, slowed and broken, and which counts what it is asked.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::Fault;
use regrow::{Connection, Era, Status};
use regrow_gateway::catalog::{Catalog, CatalogRefresher, Item, WatchedCatalog};
use regrow_protocol::list::List;
use regrow_testkit::script::{Act, Plan, Speaks, answer, refusal, timed};
use regrow_testkit::server::Server;
use regrow_testkit::world::{to, until};
use serde_json::{Value, json};
use tokio::time::sleep;

/// A server. Clones share it.
#[derive(Clone)]
pub struct Fake {
    world: Arc<Mutex<World>>,
    server: Server,
}

pub struct World {
    pub capabilities: Value,
    /// What it answers to each method: the result, or an error code.
    pub answers: BTreeMap<&'static str, Answer>,
    /// Whether it can be started no more.
    pub is_broken: bool,
}

pub type Answer = Arc<dyn Fn(&Value) -> Result<Value, i64> + Send + Sync>;

impl Deref for Fake {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Fake {
    /// A server with tools only.
    pub fn new() -> Fake {
        let world = Arc::new(Mutex::new(World {
            capabilities: json!({ "tools": { "listChanged": true } }),
            answers: BTreeMap::new(),
            is_broken: false,
        }));
        let started = world.clone();
        let fake = Fake { world, server: Server::new(move |_| plan(&started)) };
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

    /// From now on it answers this method so: with a result, with an error, or, where the result is null, not at all. A
    /// result says itself how long it takes (`pauseMs`).
    pub fn answers(
        &self,
        method: &'static str,
        answer: impl Fn(&Value) -> Result<Value, i64> + Send + Sync + 'static,
    ) {
        self.world().answers.insert(method, Arc::new(answer));
    }

    pub fn starts(&self) -> usize {
        self.server.starts().len()
    }

    pub fn die(&self) {
        self.server.die(Fault::Killed { signal: 9 });
    }
}

fn plan(world: &Arc<Mutex<World>>) -> Plan {
    let (now, later) = (world.lock().expect("nobody panics with it"), world.clone());
    let habit = move |message: &Value| {
        let method = message["method"].as_str()?;
        let say = later.lock().expect("nobody panics with it").answers.get(method)?.clone();
        let id = &message["id"];
        Some(match say(&message["params"]) {
            Ok(Value::Null) => vec![],
            Ok(result) => {
                let pause = Duration::from_millis(result["pauseMs"].as_u64().unwrap_or_default());
                timed(vec![(pause, answer(id, result))])
            }
            Err(code) => vec![Act::Say(refusal(id, code, "secret"))],
        })
    };
    let capabilities = now.capabilities.clone();
    Plan {
        cannot_start: now.is_broken.then_some(Fault::Exited { code: 1 }),
        speaks: Speaks::Both,
        capabilities: capabilities.clone(),
        listens: false,
        habit: Arc::new(habit),
        ..Plan::default()
    }
    .on("server/discover", move |message| {
        let result = json!({
            "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "fake", "version": "1" } },
        });
        vec![Act::Say(answer(&message["id"], result))]
    })
}

/// A catalog that is kept fresh over a connection to a fake.
pub struct Kept {
    pub connection: Connection,
    pub catalog: Arc<WatchedCatalog>,
    pub keeper: CatalogRefresher,
}

impl Kept {
    /// The connection is not started yet.
    pub fn new(fake: &Fake, era: Era) -> Kept {
        let connection = connection(fake, era);
        let catalog = Arc::new(WatchedCatalog::new(Catalog::default(), Arc::default()));
        let keeper = CatalogRefresher::start(
            connection.clone(),
            catalog.clone(),
            std::sync::Arc::new(regrow_gateway::catalog::Pinning::off()),
        );
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
        until(&self.connection, Status::is_ready).await;
        sleep(Duration::from_millis(10)).await;
    }

    pub fn now(&self) -> Arc<Catalog> {
        self.catalog.current()
    }

    /// The keys of a list; none where it was never fetched.
    pub fn keys(&self, list: List) -> Option<Vec<String>> {
        let catalog = self.now();
        let listing = catalog.listing(list)?;
        Some(listing.items().iter().map(Item::key).map(str::to_owned).collect())
    }
}

pub fn connection(fake: &Fake, era: Era) -> Connection {
    to(&fake.server).era(era).build()
}
