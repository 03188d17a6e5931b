//! One life of a connection, from one seed: who its clients are, what they do, what happens to the server, and the end.

use std::time::Duration;

use regrow::core::{Manner, Notice as What, Policy, Requester};
use regrow::{Connection, Era};
use regrow_testkit::chance::Chance;
use regrow_testkit::script::Speaks;
use regrow_testkit::storm;
use regrow_testkit::world::{secs, settle, tasks};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep, timeout};

use crate::bug::Bug;
use crate::face::Face;
use crate::far::Far;
use crate::history::{End, Event, History, Notice, Recorder};
use crate::key::Key;
use crate::{far_process, far_remote};

/// Lives it in simulated time.
pub fn live(seed: u64, bug: Option<Bug>) -> History {
    let (history, panics) = storm::run(async { Life::begin(seed, bug).pass().await });
    let mut history = history.unwrap_or_default();
    history.left.panics = panics;
    history
}

struct Life {
    chance: Chance,
    recorder: Recorder,
    far: Far,
    face: Face,
    connection: Connection,
    call_timeout: Duration,
    calls: JoinSet<()>,
    /// What clients do beside their calls.
    others: JoinSet<()>,
    last: u32,
    last_uri: u32,
}

impl Life {
    fn begin(seed: u64, bug: Option<Bug>) -> Life {
        let mut chance = Chance(seed);
        let recorder = Recorder::new();
        // Bugs are planted where a program has a process.
        let (on_pipes, relayed) = (chance.one_in(2), chance.one_in(3));
        let (on_pipes, relayed) = if bug.is_some() { (true, false) } else { (on_pipes, relayed) };
        let far = if on_pipes { Far::process(seed) } else { Far::remote(seed) };
        let call_timeout = chance.pick(&[secs(2), secs(8), secs(30)]);
        let policy = Policy {
            connect_timeout: secs(30),
            drain_timeout: secs(5),
            call_timeout: Some(call_timeout),
            ..Policy::default()
        };
        let builder = far.builder(bug).policy(policy).seed(seed).safe_tools(|tool| tool == "safe");
        let (face, connection) = match relayed {
            true => {
                let bridged = !on_pipes || chance.one_in(2);
                let is_modern = match far_process::speaks(seed) {
                    _ if bridged => chance.one_in(2),
                    Speaks::Both => chance.one_in(2),
                    speaks => !speaks.is_legacy(),
                };
                Face::relayed(builder, recorder.clone(), is_modern, bridged)
            }
            false => {
                let insists = chance.one_in(3) && far.speaks_legacy();
                let era = if insists { Era::Legacy } else { Era::Auto };
                let clients = 1 + chance.below(3) as u8;
                Face::program(builder.era(era), recorder.clone(), bug, clients)
            }
        };
        observe(&connection, &recorder, bug);
        Life {
            chance,
            recorder,
            far,
            face,
            connection,
            call_timeout,
            calls: JoinSet::new(),
            others: JoinSet::new(),
            last: 0,
            last_uri: 0,
        }
    }

    async fn pass(mut self) -> History {
        let greeted = self.face.greet(&mut self.chance).await;
        if greeted {
            for _ in 0..(8 + self.chance.below(24)) {
                sleep(self.chance.length()).await;
                self.far.gust(&mut self.chance, &self.recorder);
                self.order().await;
                self.act();
            }
        }
        let mut offers = None;
        if greeted && self.chance.one_in(4) && !self.connection.status().borrow().is_closed() {
            offers = self.recover().await;
        }
        self.end(offers).await
    }

    /// What the operator and the machine do.
    async fn order(&mut self) {
        match self.chance.below(40) {
            0 => {
                self.recorder.note(Event::Weather("reconnect, as a person wants".into()));
                self.connection.reconnect(Requester::Person);
            }
            1 => {
                self.recorder.note(Event::Weather("reconnect, as a program wants".into()));
                self.connection.reconnect(Requester::Program);
            }
            2 => {
                let length = self.chance.pick(&[secs(6), secs(60), secs(3600), secs(8 * 3600)]);
                self.recorder.note(Event::Jumps(length));
                advance(length).await;
            }
            _ => {}
        }
    }

    /// What one of the clients does.
    fn act(&mut self) {
        match self.chance.below(12) {
            0 => drop(self.others.spawn(self.face.list())),
            1 => {
                self.last_uri += 1;
                self.others.spawn(self.face.subscribe(uri(self.last_uri)));
            }
            2 if self.last_uri > 0 => {
                let number = 1 + self.chance.below(u64::from(self.last_uri)) as u32;
                self.others.spawn(self.face.unsubscribe(uri(number)));
            }
            3 => drop(self.others.spawn(self.face.listen())),
            _ => {
                let key = self.key();
                let within = self.face.deadline(&mut self.chance, self.call_timeout);
                let gives_up = self.chance.one_in(8).then(|| self.chance.length());
                let arguments = self.arguments(key);
                let params = json!({ "name": key.tool(), "arguments": arguments });
                self.calls.spawn(self.face.call(key, params, within, gives_up));
            }
        }
    }

    fn key(&mut self) -> Key {
        self.last += 1;
        let client = self.chance.pick(&self.face.clients());
        Key { client, number: self.last, safe: self.chance.one_in(3) }
    }

    fn arguments(&mut self, key: Key) -> serde_json::Value {
        let chance = &mut self.chance;
        let (ms, says) = (chance.length().as_millis() as u64, chance.below(3));
        let mut arguments = json!({ "key": key.to_string(), "ms": ms, "says": says });
        if chance.one_in(3) {
            let mishap = match self.far.is_process() {
                true => chance.pick(&far_process::MISHAPS),
                false => chance.pick(&far_remote::MISHAPS),
            };
            arguments["mishap"] = mishap.into();
        }
        arguments
    }

    /// The storm is over: calls succeed again, however long that takes, and clients know what the server offers.
    async fn recover(&mut self) -> Option<Vec<String>> {
        self.recorder.note(Event::Calm);
        let mut in_a_row = 0;
        for _ in 0..200 {
            self.far.calm(); // Again: a call from before may have done harm since.
            in_a_row = if self.is_served().await { in_a_row + 1 } else { 0 };
            if in_a_row == 3 {
                break;
            }
            sleep(secs(20)).await;
        }
        sleep(secs(60)).await; // A client that heard of a change has looked.
        if in_a_row == 3 && self.face.is_program() { self.far.offers() } else { None }
    }

    /// Makes a call without a mishap, and says whether it is answered.
    async fn is_served(&mut self) -> bool {
        let key = self.key();
        let params = json!({ "name": key.tool(), "arguments": { "key": key.to_string() } });
        let before = self.recorder.events().len();
        let within = self.call_timeout.min(secs(30));
        self.face.call(key, params, within, None).await;
        for _ in 0..=within.as_secs() {
            let end = self.recorder.events()[before..].iter().find_map(|(_, event)| match event {
                Event::Ends(of, end) if *of == key => Some(end.clone()),
                _ => None,
            });
            match end {
                Some(end) => return matches!(end, End::Answered(Some(_))),
                None => sleep(secs(1)).await,
            }
        }
        false
    }

    async fn end(mut self, offers: Option<Vec<String>>) -> History {
        self.recorder.note(Event::Closes);
        let mut status = self.connection.status();
        // Where anything here takes too long, the checker sees it. Calls about which a person is asked may take an hour.
        let _ = timeout(secs(10_000), self.close()).await;
        let Life { recorder, far, face, connection, mut calls, mut others, .. } = self;
        let relayed = !face.is_program();
        drop((face, connection));
        let _ = timeout(secs(600), status.wait_for(|status| status.is_closed())).await;
        recorder.note(Event::Closed);
        settle().await;
        let pending = status.borrow().pending;
        let all = async { while calls.join_next().await.is_some() || others.join_next().await.is_some() {} };
        let _ = timeout(secs(10_000), all).await;
        drop((calls, others));
        sleep(secs(60)).await; // Until those who answer elsewhere have.
        let mut history = History { offers, relayed, ..History::default() };
        history.left.pending = pending;
        history.left.tasks = tasks();
        far.testify(&mut history);
        history.events = recorder.take();
        history
    }

    async fn close(&mut self) {
        let connection = &self.connection;
        match self.chance.below(6) {
            _ if !self.face.is_program() => self.face.leave().await,
            0 => drop(connection.drain().await),
            1 => drop(connection.close_in(Manner::Told).await),
            2 => drop(connection.close_in(Manner::ClientLeft).await),
            3 => drop(tokio::join!(connection.close(), connection.close_in(Manner::Told))),
            4 => {
                // It closes when the last handle is dropped, which the caller does.
                while self.calls.join_next().await.is_some() {}
                self.others.shutdown().await;
                self.face.let_go().await;
            }
            _ => drop(connection.close().await),
        }
    }
}

fn uri(number: u32) -> String {
    format!("a://{number}")
}

/// Writes down what observers are told.
fn observe(connection: &Connection, recorder: &Recorder, bug: Option<Bug>) {
    let (mut notices, written) = (connection.notices(), recorder.clone());
    tokio::spawn(async move {
        while let Some(notice) = notices.next().await {
            let begins = match &notice.what {
                What::Connecting(epoch) => Some(*epoch),
                _ => None,
            };
            let is_fault = matches!(notice.what, What::Fault(..) | What::Late(..));
            let fault = is_fault && bug != Some(Bug::HidesFaults);
            let abandons = matches!(notice.what, What::Abandoned(_));
            let ready = matches!(notice.what, What::Ready(_));
            let ends = is_fault || matches!(notice.what, What::Retired(..) | What::Planned(..));
            let parks = matches!(notice.what, What::Parked(_));
            let text = notice.text();
            written.note(Event::Notice(Notice { text, begins, ready, ends, parks, fault, abandons }));
        }
    });
    let (mut status, written) = (connection.status(), recorder.clone());
    tokio::spawn(async move {
        while status.changed().await.is_ok() {
            let left = status.borrow_and_update().budget_left;
            written.note(Event::Budget(left));
        }
    });
}
