//! One link to a remote server: the near end of its exchanges.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use regrow::core::{Fault, Ladder};
use regrow::transport::{
    BoxFuture, Ended, ExchangeHandler, Exchanges, ListenEnd, OutgoingMessage, Process, Receipt,
};
use regrow_protocol::lines::Line;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Path, Remote};
use crate::script::{Act, unreachable};
use crate::signal::Signal;

/// A link that was opened to a server. Clones share it.
#[derive(Clone)]
pub(super) struct FarEnd(Arc<Inner>);

struct Inner {
    remote: Remote,
    number: usize,
    /// What the server knows us by; none before the handshake.
    session: Mutex<Option<usize>>,
    end: Signal<bool>,
    left: AtomicBool,
    /// By when its end must be over.
    over_by: Signal<Option<Instant>>,
    ends: AtomicUsize,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.end.value() {
            self.remote.world().links -= 1;
            self.leave();
        }
    }
}

impl Inner {
    /// Nothing lives at the other end of it any more, or that is ended: what is still on its way may come to its end.
    fn leave(&self) {
        if !self.left.swap(true, Ordering::Relaxed) {
            self.remote.world().live -= 1;
        }
    }
}

/// Notes that what was being carried was dropped.
struct Carrying {
    remote: Remote,
    message: Option<Value>,
}

impl Drop for Carrying {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.remote.world().dropped.push(message);
        }
    }
}

impl FarEnd {
    pub(super) fn new(remote: Remote, number: usize) -> FarEnd {
        FarEnd(Arc::new(Inner {
            remote,
            number,
            session: Mutex::new(None),
            end: Signal::new(false),
            left: AtomicBool::new(false),
            over_by: Signal::new(None),
            ends: AtomicUsize::new(0),
        }))
    }

    /// Nothing may be begun on a link that was ended.
    fn begin(&self, what: &str) {
        if self.0.end.value() {
            self.0.remote.world().after_end.push(format!("{what} on link {}", self.0.number));
        }
    }

    fn session(&self) -> Option<usize> {
        *self.0.session.lock().unwrap()
    }

    fn known_session(&self) -> Option<usize> {
        self.session().filter(|session| self.0.remote.world().sessions.contains(session))
    }

    async fn exchange(&self, message: &Value, ear: &Arc<dyn ExchangeHandler>) -> Result<Receipt, Fault> {
        let remote = &self.0.remote;
        let mut life = remote.life();
        remote.connect().await?;
        if !ear.sent() {
            return Err(Fault::Broken { reason: "given up".into() });
        }
        tokio::select! {
            biased;
            () = life.changed() => Err(Fault::Broken { reason: "connection reset".into() }),
            done = self.serve(message, ear) => done,
        }
    }

    async fn serve(&self, message: &Value, ear: &Arc<dyn ExchangeHandler>) -> Result<Receipt, Fault> {
        let remote = &self.0.remote;
        remote.travel().await;
        if remote.path() == Path::Down {
            return Err(Fault::Broken { reason: "connection reset".into() });
        }
        let mut acts: std::collections::VecDeque<Act> =
            remote.hear(self.0.number, self.session(), message).into();
        let mut orders = None;
        loop {
            let act = match (acts.pop_front(), &mut orders) {
                (Some(act), _) => act,
                (None, Some(orders)) => match mpsc::UnboundedReceiver::recv(orders).await {
                    Some(act) => act,
                    None => return Ok(Receipt::Done),
                },
                (None, None) => return Ok(Receipt::Done),
            };
            match act {
                Act::Say(said) => {
                    remote.travel().await;
                    if said.get("result").is_some() && message["method"] == "initialize" {
                        remote.world().sessions.insert(self.0.number);
                        *self.0.session.lock().unwrap() = Some(self.0.number);
                    }
                    ear.heard();
                    let is_answer = said["id"] == message["id"] && said.get("method").is_none();
                    let over = ear.take(line(&said));
                    ear.room().await;
                    if over && is_answer {
                        return Ok(Receipt::Done);
                    }
                }
                Act::SayElsewhere(said) => remote.say(said),
                Act::Elsewhere => {
                    // The server works on alone.
                    let (remote, rest) = (remote.clone(), std::mem::take(&mut acts));
                    tokio::spawn(async move {
                        for act in rest {
                            match act {
                                Act::Wait(length) => sleep(length).await,
                                Act::SayElsewhere(said) => remote.say(said),
                                _ => {}
                            }
                        }
                    });
                    return Ok(Receipt::Elsewhere(202));
                }
                Act::Wait(length) => sleep(length).await,
                Act::Effect(key) => remote.0.log.effect(key),
                Act::Fail(fault) => {
                    remote.travel().await;
                    ear.heard();
                    return Err(fault);
                }
                Act::Stay => {
                    let (sender, receiver) = mpsc::unbounded_channel();
                    remote.world().stays.insert(message["id"].to_string(), sender);
                    orders = Some(receiver);
                    acts.clear();
                }
                Act::Forget => remote.forget(),
                Act::Die(_) => remote.kill(),
                Act::Write(_) | Act::CloseOutput | Act::StopReading | Act::ReadOn => {} // There is no pipe.
            }
        }
    }

    async fn hear(&self, ear: &Arc<dyn ExchangeHandler>) -> ListenEnd {
        let remote = &self.0.remote;
        let mut life = remote.life();
        if let Err(fault) = remote.connect().await {
            return ListenEnd::Lost(fault);
        }
        let Some(session) = self.known_session() else {
            return std::future::pending().await; // No stream is given, and only a message tells why.
        };
        let mut path = remote.path_changes();
        loop {
            let said = remote.world().unsaid.get_mut(&session).and_then(|unsaid| unsaid.pop_front());
            let lost = ListenEnd::Lost(Fault::Broken { reason: "connection reset".into() });
            match said {
                Some(said) => {
                    remote.travel().await;
                    ear.take(line(&said));
                    tokio::select! {
                        biased;
                        () = life.changed() => return lost,
                        () = ear.room() => {}
                    }
                }
                None => tokio::select! {
                    biased;
                    () = life.changed() => return lost,
                    () = path.changed() => {}
                },
            }
        }
    }

    /// Runs until it is over, or the link is.
    async fn during_life<T>(&self, exchange: impl Future<Output = T>) -> Option<T> {
        let mut end = self.0.end.watch();
        tokio::select! {
            biased;
            _ = end.until(|end| *end) => None,
            done = exchange => Some(done),
        }
    }
}

fn line(message: &Value) -> Line {
    Line::Whole(message.to_string().into())
}

impl Exchanges for FarEnd {
    fn carry(
        self: Arc<Self>,
        message: OutgoingMessage,
        ear: Arc<dyn ExchangeHandler>,
    ) -> BoxFuture<Result<Receipt, Fault>> {
        let message: Value = serde_json::from_slice(&message.body().into_line()).unwrap();
        Box::pin(async move {
            self.begin(message["method"].as_str().unwrap_or("an answer"));
            let remote = self.0.remote.clone();
            let mut carrying = Carrying { remote, message: Some(message.clone()) };
            let carried = self.during_life(self.exchange(&message, &ear)).await;
            carrying.message = None;
            carried.unwrap_or(Err(Fault::Closed))
        })
    }

    fn listen(self: Arc<Self>, ear: Arc<dyn ExchangeHandler>) -> BoxFuture<ListenEnd> {
        Box::pin(async move {
            self.begin("listening");
            let has_stream = {
                let mut world = self.0.remote.world();
                let at = self.0.remote.elapsed();
                world.listened.push(at);
                world.has_stream
            };
            if self.session().is_none() {
                return std::future::pending().await;
            }
            if !has_stream {
                return ListenEnd::NoStream;
            }
            self.during_life(self.hear(&ear)).await.unwrap_or(ListenEnd::Over(Fault::Closed))
        })
    }

    fn forgotten(&self) {
        self.0.leave();
    }

    fn check_reachable(self: Arc<Self>) -> BoxFuture<Result<(), Fault>> {
        Box::pin(async move {
            let remote = &self.0.remote;
            {
                let at = remote.elapsed();
                remote.world().checks.push(at);
            }
            remote.connect().await?;
            remote.travel().await;
            match remote.path() {
                Path::Down => Err(unreachable()),
                _ => Ok(()),
            }
        })
    }
}

impl Process for FarEnd {
    fn exited(&self) -> BoxFuture<Fault> {
        Box::pin(std::future::pending())
    }

    fn end(&self, ladder: Ladder) -> BoxFuture<Ended> {
        let again = self.0.end.set(true);
        self.0.ends.fetch_add(1, Ordering::Relaxed);
        let remote = self.0.remote.clone();
        let farewell = {
            let at = remote.elapsed();
            let mut world = remote.world();
            if !again {
                world.links -= 1;
                world.ended.push((at, self.0.number));
            }
            world.farewell
        };
        self.0.leave();
        let session = self.session();
        let by = Instant::now() + ladder.length();
        self.0.over_by.change(|over| *over = Some(over.map_or(by, |over| over.min(by))));
        let link = self.clone();
        Box::pin(async move {
            let mut said = std::pin::pin!(async {
                remote.travel().await;
                sleep(farewell).await;
            });
            let mut hurry = link.0.over_by.watch();
            loop {
                let by = link.0.over_by.value().expect("it is being ended");
                tokio::select! {
                    biased;
                    () = &mut said => break,
                    () = sleep_until(by) => break, // Whether the server has heard it or not.
                    () = hurry.changed() => {}
                }
            }
            if let Some(session) = session {
                remote.world().sessions.remove(&session);
            }
            Ended::default()
        })
    }

    fn stderr(&self) -> regrow::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        None
    }
}
