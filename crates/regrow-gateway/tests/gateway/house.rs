//! A gateway in front of servers in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::Policy;
use regrow::{Connection, Era};
use regrow_gateway::catalog::Store;
use regrow_gateway::config::{Config, Inherit, Options, Place, Process, Reach, ServerConfig, Sessions};
use regrow_gateway::operate::{Operate, ServerReport};
use regrow_gateway::{Clients, Connect, Gateway, Settings};

use crate::fake::Fake;

pub const LIST_WAIT: Duration = Duration::from_secs(5);

/// A gateway, and the servers that it finds by the names of their programs.
pub struct House {
    pub gateway: Gateway,
    fakes: Arc<Mutex<BTreeMap<String, Fake>>>,
}

impl House {
    /// In front of these servers, with the usual options.
    pub fn new(clients: Clients, fakes: &[&Fake]) -> House {
        House::with(clients, fakes, |_| {})
    }

    /// With these options for all of them. Sessions are shared, unless they say otherwise.
    pub fn with(clients: Clients, fakes: &[&Fake], set: impl Fn(&mut Options)) -> House {
        House::kept(clients, fakes, None, set)
    }

    /// With catalogs that are kept in this store.
    pub fn kept(
        clients: Clients,
        fakes: &[&Fake],
        store: Option<Store>,
        set: impl Fn(&mut Options),
    ) -> House {
        let described = fakes.iter().map(|fake| described(fake, &set)).collect();
        let known: Arc<Mutex<BTreeMap<String, Fake>>> = Arc::default();
        let settings = Settings {
            clients,
            connect: connect(known.clone()),
            store,
            pins: None,
            pin: Default::default(),
            list_wait: LIST_WAIT,
            max_clients: 16,
            shares: Default::default(),
            config_files: vec![],
            audit: Default::default(),
            traces: Default::default(),
            log_level: None,
        };
        fakes.iter().for_each(|fake| learn(&known, fake));
        House { gateway: Gateway::new(config(described), settings), fakes: known }
    }

    /// Takes another configuration.
    pub fn reload(&self, servers: Vec<(&Fake, ServerConfig)>) -> regrow_gateway::Changes {
        servers.iter().for_each(|(fake, _)| learn(&self.fakes, fake));
        self.gateway.reload(config(servers.into_iter().map(|(_, server)| server).collect()))
    }

    pub fn report(&self, name: &str) -> ServerReport {
        self.gateway.servers().into_iter().find(|report| report.name == name).expect("it is there")
    }
}

fn learn(known: &Mutex<BTreeMap<String, Fake>>, fake: &Fake) {
    known.lock().expect("no panic").insert(fake.name.to_string(), fake.clone());
}

/// This server as a file would describe it.
pub fn described(fake: &Fake, set: impl Fn(&mut Options)) -> ServerConfig {
    let era = if fake.is_modern() { Era::Modern } else { Era::Legacy };
    let mut options = Options { era, sessions: Sessions::Shared, ..Options::default() };
    set(&mut options);
    let process = Process {
        program: fake.name.to_string(),
        args: vec![],
        variables: BTreeMap::new(),
        inherit: Inherit::Named(vec![]),
        removed: vec![],
        directory: None,
    };
    ServerConfig {
        name: fake.name.to_string(),
        file: "test".into(),
        place: Place { file: "test".into(), line: 1, column: 1 },
        reach: Reach::Process(process),
        options,
        account_is_of: None,
    }
}

fn config(servers: Vec<ServerConfig>) -> Config {
    Config { servers, ..Config::default() }
}

fn connect(known: Arc<Mutex<BTreeMap<String, Fake>>>) -> Connect {
    Box::new(move |server, _| {
        let Reach::Process(process) = &server.reach else { panic!("it is one") };
        let fake = known.lock().expect("no panic")[&process.program].clone();
        let usual = Policy::default();
        let Options { call_timeout, connect_timeout, .. } = server.options;
        let discover_timeout = usual.discover_timeout.min(connect_timeout / 3);
        let mut policy = Policy { call_timeout, connect_timeout, discover_timeout, ..usual };
        policy.backoff.jitter_percent = 0;
        let builder = match fake.is_remote() {
            true => Connection::builder(&*server.name, fake.wire()),
            false => Connection::builder(&*server.name, fake.server),
        };
        Ok(builder.policy(policy).seed(1).era(server.options.era).safe_tools(|tool| tool == "safe"))
    })
}
