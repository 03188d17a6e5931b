//! A fake server at the end of a network. Each connection to it has a way of its own, which is refused, cut, slow or forgotten
//! like all others of that server, or has mishaps of its own by chance.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use regrow::core::{Evidence, Fault};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::{Act, Plan, Speaks, deferred, no_session, status};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fake::{Fake, SUBSCRIPTION, Script, Session};

/// What the network is like now.
#[derive(Default)]
pub struct Network {
    /// Up, if it was never said.
    path: Option<Path>,
    /// Throws the dice over single exchanges, while there is a storm.
    pub mishaps: Option<Rng>,
}

impl Fake {
    /// One more way to it.
    pub fn wire(&self) -> Remote {
        let remote = Remote::new(if self.is_modern() { Speaks::Modern } else { Speaks::Legacy });
        let mut world = self.world();
        let at = world.sessions.len();
        world.sessions.push(Session::over(&remote));
        if let Some(path) = world.network.path {
            remote.set_path(path);
        }
        drop(world);
        let (script, way) = (Script::clone(self), remote.clone());
        let mut far = remote.world();
        let habit = Arc::new(move |message: &Value| Some(script.exchange(at, &way, message)));
        far.plan = Arc::new(Plan { habit, ..Plan::clone(&far.plan) });
        drop(far);
        remote
    }

    /// Every way to it.
    pub fn wires(&self) -> Vec<Remote> {
        self.world().sessions.iter().filter_map(|session| session.wire.clone()).collect()
    }

    /// The network is so from now on, also for those who come later.
    pub fn set_path(&self, path: Path) {
        self.world().network.path = Some(path);
        self.wires().iter().for_each(|wire| wire.set_path(path));
    }
}

impl Script {
    /// What it does about a message that came this way.
    fn exchange(&self, at: usize, way: &Remote, message: &Value) -> Vec<Act> {
        if let Some(mishap) = self.chance(20, before) {
            return mishap;
        }
        let (id, method) = (&message["id"], message["method"].as_str());
        if method == Some("initialize") {
            self.world().sessions[at] = Session::over(way);
        }
        let (mut acts, mut is_answered) = (vec![], false);
        for act in self.acts(at, message) {
            match act {
                Act::Say(said) => {
                    let (is_answer, is_ours) = (said.get("method").is_none(), said["id"] == *id);
                    match (is_answer, is_ours) {
                        (true, true) if is_answered => acts.push(Act::SayElsewhere(said)),
                        (true, false) => say(way, &said),
                        _ => acts.push(Act::Say(said)),
                    }
                    is_answered |= is_answer && is_ours;
                }
                Act::Die(_) => restart(way),
                other => acts.push(other),
            }
        }
        match acts.last() {
            Some(Act::Say(done)) if is_answered && method == Some("tools/call") => {
                let done = done.clone();
                if let Some(mishap) = self.chance(12, |random| after(random, done)) {
                    acts.pop();
                    acts.extend(mishap);
                }
            }
            _ if !is_answered && method.is_some() && !id.is_null() => acts.push(Act::Stay),
            _ => {}
        }
        acts
    }

    /// What comes of the dice, one time in so many.
    fn chance<T>(&self, rarely: u8, of: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        let mut world = self.world();
        let random = world.network.mishaps.as_mut()?;
        (random.u8(..rarely) == 0).then(|| of(random))
    }
}

/// What becomes of an exchange before the server has done anything.
fn before(random: &mut Rng) -> Vec<Act> {
    match random.u8(..9) {
        0 => vec![Act::Fail(status(502))],
        1 => vec![Act::Fail(status(404))],
        2 => vec![Act::Fail(deferred(Duration::from_millis(random.u64(..5000))))],
        3 => vec![Act::Fail(Fault::AnswerCut)],
        4 => vec![Act::Stay],
        5 => vec![Act::Wait(Duration::from_millis(random.u64(..5000))), Act::Fail(status(504))],
        6 => vec![Act::Forget, Act::Fail(no_session(Evidence::Words))],
        7 => vec![Act::Fail(Fault::Unauthorized { code: 401 })],
        _ => vec![Act::Fail(Fault::Broken { reason: "reset".into() })],
    }
}

/// What becomes of it when the call has run, instead of its answer.
fn after(random: &mut Rng, done: Value) -> Vec<Act> {
    match random.u8(..5) {
        0 => vec![Act::Fail(Fault::AnswerCut)],
        1 => vec![Act::Fail(status(502))],
        2 => vec![Act::Forget, Act::Fail(no_session(Evidence::Response))],
        3 => vec![Act::Elsewhere, Act::SayElsewhere(done)],
        _ => vec![Act::Say(json!("rubbish")), Act::Say(done)],
    }
}

/// Says this on the exchange that it belongs to, if that is still open; else on the stream of the server's own.
pub fn say(way: &Remote, message: &Value) {
    let stream = &message["params"]["_meta"][SUBSCRIPTION];
    let exchange = if stream.is_null() { &message["id"] } else { stream };
    let stays = way.world().stays.contains_key(&exchange.to_string());
    match stays {
        true => way.order(exchange, Act::Say(message.clone())),
        false => way.say(message.clone()),
    }
}

/// The server dies, and is there again soon.
pub fn restart(way: &Remote) {
    way.kill();
    let way = way.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        way.revive();
    });
}
