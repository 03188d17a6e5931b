//! The far side of a life: a server on pipes or at the end of a network, and the weather around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::transport::Transport;
use regrow::{Builder, Connection};
use regrow_testkit::chance::Chance;
use regrow_testkit::log::Log;
use regrow_testkit::remote::Remote;
use regrow_testkit::script::Speaks;
use regrow_testkit::server::Server;
use serde_json::Value;

use crate::bug::Bug;
use crate::history::{Heard, History, Recorder};
use crate::shim::Shim;
use crate::{far_process, far_remote};

/// Shared by everything on the far side: from when on it behaves.
pub type Calm = Arc<AtomicBool>;

/// A server.
pub enum Far {
    Process { server: Server, calm: Calm, speaks: Speaks, tools: far_process::Tools },
    Remote { server: Remote, calm: Calm },
}

impl Far {
    pub fn process(seed: u64) -> Far {
        let (calm, tools) = (Calm::default(), far_process::Tools::default());
        let speaks = far_process::speaks(seed);
        Far::Process { server: far_process::server(seed, &calm, &tools), calm, speaks, tools }
    }

    pub fn remote(seed: u64) -> Far {
        let calm = Calm::default();
        Far::Remote { server: far_remote::server(seed, &calm), calm }
    }

    pub fn is_process(&self) -> bool {
        matches!(self, Far::Process { .. })
    }

    pub fn speaks_legacy(&self) -> bool {
        match self {
            Far::Process { speaks, .. } => *speaks != Speaks::Modern,
            Far::Remote { server, .. } => server.world().plan.speaks != Speaks::Modern,
        }
    }

    /// A connection to it that is to be made; through the shim where that has a bug.
    pub fn builder(&self, bug: Option<Bug>) -> Builder {
        fn to(transport: impl Transport) -> Builder {
            Connection::builder("fake", transport)
        }
        match (self, bug) {
            (Far::Process { server, .. }, Some(bug)) if bug.is_far() => to(Shim::new(server.clone(), bug)),
            (Far::Process { server, .. }, _) => to(server.clone()),
            (Far::Remote { server, .. }, _) => to(server.clone()),
        }
    }

    /// Something may happen to the server, or to the way to it.
    pub fn gust(&self, chance: &mut Chance, recorder: &Recorder) {
        match self {
            Far::Process { server, .. } => far_process::gust(server, chance, recorder),
            Far::Remote { server, .. } => far_remote::gust(server, chance, recorder),
        }
    }

    /// From here on it behaves.
    pub fn calm(&self) {
        match self {
            Far::Process { calm, .. } => calm.store(true, Ordering::Relaxed),
            Far::Remote { server, calm } => {
                calm.store(true, Ordering::Relaxed);
                far_remote::calm(server);
            }
        }
    }

    /// The tools of its newest start, where a client that listed them is told of every change.
    pub fn offers(&self) -> Option<Vec<String>> {
        match self {
            Far::Process { speaks, tools, .. } if speaks.is_legacy() => {
                tools.lock().expect("nobody panics while writing").clone()
            }
            _ => None,
        }
    }

    /// Its own account of the life.
    pub fn testify(&self, history: &mut History) {
        match self {
            Far::Process { server, .. } => {
                record(server, history);
                history.left.processes = server.alive();
                history.left.most_processes = server.most_alive();
            }
            Far::Remote { server, .. } => {
                record(server, history);
                let world = server.world();
                history.left.processes = world.links;
                history.left.most_processes = world.most_live;
                history.left.after_end = world.after_end.clone();
            }
        }
        history.piped = self.is_process();
    }
}

fn record(log: &Log, history: &mut History) {
    history.heard = log.heard().iter().map(|one| (one.at, one.start, hear(&one.message))).collect();
    history.starts = log.starts();
    let effects = log.all_effects().into_iter();
    history.runs = effects.filter_map(|(key, runs)| Some((key.parse().ok()?, runs))).collect();
}

fn hear(message: &Value) -> Heard {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let params = &message["params"];
    match message["method"].as_str() {
        Some("tools/call") => match text(&params["arguments"]["key"]).parse() {
            Ok(key) => Heard::Call(key),
            Err(()) => Heard::Other("tools/call".into()),
        },
        Some("resources/subscribe") => Heard::Subscribe(text(&params["uri"])),
        Some("subscriptions/listen") => Heard::Listen,
        Some(method) => Heard::Other(method.to_owned()),
        None => Heard::Answer(message["id"].to_string(), text(&message["result"]["nonce"])),
    }
}
