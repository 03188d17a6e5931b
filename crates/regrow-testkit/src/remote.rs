//! A server at the far end of a network that misbehaves on command, and remembers all that reached it and when.

mod link;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::{Epoch, Evidence, Fault};
use regrow::transport::{BoxFuture, Link, Transport};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use crate::log::Log;
use crate::script::{Act, Plan, Speaks, is_modern, no_session, unreachable};
use crate::signal::{Signal, Watcher};
use link::FarEnd;

/// What the network does with what is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Up,
    /// Connections are refused.
    Down,
    /// Packets vanish: nothing fails, and nothing comes.
    Partitioned,
}

/// A server behind a network. It dereferences to its log; clones share it.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    log: Log,
    path: Signal<Path>,
    /// Which life of the server: exchanges do not outlive the one that they began in.
    life: Signal<u64>,
    mended: Notify,
    world: Mutex<World>,
}

/// How the server is, and what has happened to it.
pub struct World {
    pub plan: Arc<Plan>,
    /// There and back.
    pub latency: Duration,
    /// How long it takes to end a session.
    pub farewell: Duration,
    /// Every exchange is refused so, whatever it carries.
    pub refuses: Option<Fault>,
    /// No link can be opened, for this reason.
    pub closed: Option<Fault>,
    pub has_stream: bool,
    pub sessions: BTreeSet<usize>,
    /// What it wants to say on its own streams, by session.
    pub unsaid: BTreeMap<usize, VecDeque<Value>>,
    pub stays: BTreeMap<String, mpsc::UnboundedSender<Act>>,
    pub ended: Vec<(Duration, usize)>,
    /// What was being carried when its future was dropped.
    pub dropped: Vec<Value>,
    pub checks: Vec<Duration>,
    pub listened: Vec<Duration>,
    /// How many links are open.
    pub links: usize,
    /// How many of them have not been left because the server has forgotten their session.
    pub live: usize,
    /// How many that were at once at most.
    pub most_live: usize,
    /// What was begun on a link that had been ended.
    pub after_end: Vec<String>,
}

impl Deref for Remote {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.0.log
    }
}

impl Remote {
    pub fn new(speaks: Speaks) -> Remote {
        Remote::with(Plan { speaks, listens: speaks == Speaks::Modern, ..Plan::default() })
    }

    pub fn with(plan: Plan) -> Remote {
        Remote(Arc::new(Inner {
            log: Log::new(),
            path: Signal::new(Path::Up),
            life: Signal::new(0),
            mended: Notify::new(),
            world: Mutex::new(World {
                plan: Arc::new(plan),
                latency: Duration::ZERO,
                farewell: Duration::ZERO,
                refuses: None,
                closed: None,
                has_stream: true,
                sessions: BTreeSet::new(),
                unsaid: BTreeMap::new(),
                stays: BTreeMap::new(),
                ended: vec![],
                dropped: vec![],
                checks: vec![],
                listened: vec![],
                links: 0,
                live: 0,
                most_live: 0,
                after_end: vec![],
            }),
        }))
    }

    pub fn legacy() -> Remote {
        Remote::new(Speaks::Legacy)
    }

    pub fn modern() -> Remote {
        Remote::new(Speaks::Modern)
    }

    /// Does this about messages of this method.
    pub fn on(
        self,
        method: &'static str,
        act: impl Fn(&Value) -> Option<Vec<Act>> + Send + Sync + 'static,
    ) -> Remote {
        let plan = Plan::clone(&self.world().plan).when(method, act);
        self.world().plan = Arc::new(plan);
        self
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap()
    }

    /// The network is so from now on.
    pub fn set_path(&self, path: Path) {
        self.0.path.set(path);
    }

    /// The server dies: every exchange breaks, its sessions are forgotten, and nobody answers at its address.
    pub fn kill(&self) {
        self.set_path(Path::Down);
        self.forget();
        self.cut();
    }

    /// It is there again.
    pub fn revive(&self) {
        self.set_path(Path::Up);
    }

    /// Forgets every session, and lives on.
    pub fn forget(&self) {
        let mut world = self.world();
        world.sessions.clear();
        world.unsaid.clear();
    }

    /// Every exchange breaks. The server and its sessions live.
    pub fn cut(&self) {
        self.0.life.change(|life| *life += 1);
    }

    /// Whatever was wrong with our credentials is right now.
    pub fn mend(&self) {
        self.world().refuses = None;
        self.0.mended.notify_one();
    }

    /// Says this on its own, on the stream of each session.
    pub fn say(&self, message: Value) {
        let mut world = self.world();
        for session in world.sessions.clone() {
            world.unsaid.entry(session).or_default().push_back(message.clone());
        }
        drop(world);
        self.0.path.change(|_| {}); // Those who listen look.
    }

    /// The exchange that carries the request of this id, and stays, goes on with this.
    pub fn order(&self, id: &Value, act: Act) {
        let world = self.world();
        let stay = world.stays.get(&id.to_string()).expect("it stays");
        let _ = stay.send(act); // An exchange that is over does nothing.
    }

    /// The methods of what was being carried when its exchange was dropped.
    pub fn dropped(&self) -> Vec<String> {
        let world = self.world();
        world
            .dropped
            .iter()
            .map(|message| message["method"].as_str().unwrap_or("answer").to_owned())
            .collect()
    }

    fn life(&self) -> Watcher<u64> {
        self.0.life.watch()
    }

    fn path(&self) -> Path {
        self.0.path.value()
    }

    fn path_changes(&self) -> Watcher<Path> {
        self.0.path.watch()
    }

    /// Half of the way there and back; as long as it takes where packets vanish.
    async fn travel(&self) {
        let half = self.world().latency / 2;
        if !half.is_zero() {
            sleep(half).await;
        }
        self.0.path.watch().until(|path| *path != Path::Partitioned).await;
    }

    async fn connect(&self) -> Result<(), Fault> {
        self.travel().await;
        match self.path() {
            Path::Down => Err(unreachable()),
            Path::Up | Path::Partitioned => Ok(()),
        }
    }

    /// What it does about this message, which came by this link.
    fn hear(&self, link: usize, session: Option<usize>, message: &Value) -> Vec<Act> {
        self.0.log.hear(link, message.clone(), message.to_string());
        let world = self.world();
        if let Some(fault) = &world.refuses {
            return vec![Act::Fail(fault.clone())];
        }
        let is_legacy = world.plan.speaks != Speaks::Modern && !is_modern(message);
        let is_known = session.is_some_and(|session| world.sessions.contains(&session));
        if is_legacy && message["method"] != "initialize" && !is_known {
            return vec![Act::Fail(no_session(Evidence::Words))];
        }
        let plan = world.plan.clone();
        drop(world);
        plan.acts(message)
    }
}

impl Transport for Remote {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let number = self.0.log.start();
        {
            let mut world = self.world();
            if let Some(fault) = &world.closed {
                return Box::pin(std::future::ready(Err(fault.clone())));
            }
            world.links += 1;
            world.live += 1;
            world.most_live = world.most_live.max(world.live);
        }
        let end = FarEnd::new(self.clone(), number);
        let link = Link::Exchanges { exchanges: Arc::new(end.clone()), process: Arc::new(end) };
        Box::pin(std::future::ready(Ok(link)))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn mended(&self) -> BoxFuture<()> {
        let remote = self.clone();
        Box::pin(async move { remote.0.mended.notified().await })
    }
}
