//! What is counted of the calls to a server and of its restarts, over a connection to a fake server in paused time.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Delivery, Fault, Requester};
use regrow::{Connection, Outcome, Reply, Request, Status};
use regrow_gateway::operate::{ServerReport, ServerState};
use regrow_gateway::stats::{CallCount, CallTimer, Ending, Stats, watch};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_testkit::script::{Act, Plan, answer, refusal};
use regrow_testkit::server::Server;
use regrow_testkit::world::{secs, settle, tasks, to, until};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

struct World {
    server: Server,
    /// Why the server cannot be started.
    refusal: Arc<Mutex<Option<Fault>>>,
    connection: Connection,
    stats: Arc<Stats>,
}

impl World {
    /// A connection that is watched, to be started.
    fn new() -> World {
        let refusal: Arc<Mutex<Option<Fault>>> = Arc::default();
        let now = refusal.clone();
        let server = Server::new(move |_| Plan {
            cannot_start: now.lock().unwrap().clone(),
            ..Plan::default().on("tools/call", work)
        });
        let (connection, stats) = (to(&server).build(), Arc::new(Stats::default()));
        watch(stats.clone(), &connection);
        World { server, refusal, connection, stats }
    }

    async fn ready() -> World {
        let world = World::new();
        world.connection.start();
        world.until(Status::is_ready).await;
        world
    }

    async fn until(&self, is_so: impl Fn(&Status) -> bool) {
        until(&self.connection, is_so).await;
        settle().await;
    }

    /// The server cannot be started from now on, for this reason.
    fn refuse(&self, fault: Option<Fault>) {
        *self.refusal.lock().unwrap() = fault;
    }

    /// Waits for the session after this many.
    async fn until_session(&self, number: u64) {
        self.until(|status| status.sessions == number && status.is_ready()).await;
    }

    /// Calls the tool, and waits for the end if the caller does.
    fn call(&self, arguments: Value) -> oneshot::Receiver<Outcome> {
        let (reply, end) = oneshot::channel();
        let id = RawId::from(7);
        let params = json!({ "name": "work", "arguments": arguments }).to_string();
        let request = Frame::parse(frame::request(&id, "tools/call", Some(params.as_bytes()))).unwrap();
        self.connection.submit(Request::new(request, id, Box::new(Timed(self.stats.begin(), reply))));
        end
    }

    fn report(&self) -> ServerReport {
        let status = self.connection.status().borrow().clone();
        ServerReport::new("fake", &self.stats).standing(&status)
    }
}

/// A call that is counted when it ends.
struct Timed(CallTimer, oneshot::Sender<Outcome>);

impl Reply for Timed {
    fn end(self: Box<Self>, outcome: Outcome) {
        self.0.end(Ending::of(&outcome));
        let _ = self.1.send(outcome); // A test need not wait for it.
    }
}

/// What the tool does is in its arguments: `ms` before the answer, `refuses`, `fails`.
fn work(message: &Value) -> Vec<Act> {
    let (id, arguments) = (&message["id"], &message["params"]["arguments"]);
    let said = match arguments["refuses"] == true {
        true => refusal(id, -32602, "no"),
        false => answer(id, json!({ "content": [], "isError": arguments["fails"] == true })),
    };
    let wait = arguments["ms"].as_u64().map(|ms| Act::Wait(Duration::from_millis(ms)));
    wait.into_iter().chain([Act::Say(said)]).collect()
}

fn count(outcome: &'static str, delivery: Delivery, count: u64) -> CallCount {
    CallCount { outcome, delivery, count }
}

#[tokio::test(start_paused = true)]
async fn every_call_is_counted_once_by_what_became_of_it() {
    let world = World::ready().await;
    for arguments in [json!({}), json!({ "ms": 300 }), json!({ "fails": true }), json!({ "refuses": true })] {
        assert!(matches!(world.call(arguments).await.unwrap(), Outcome::Answered(_)));
    }
    let running = world.call(json!({ "ms": 10_000 }));
    settle().await;
    assert_eq!(world.stats.in_flight(), 1);
    world.server.die(Fault::Killed { signal: 9 });
    assert!(matches!(running.await.unwrap(), Outcome::Failed(_)));
    assert_eq!(world.stats.in_flight(), 0);
    assert_eq!(
        world.stats.calls(),
        [
            count("answered", Delivery::Answered, 2),
            count("tool-error", Delivery::Answered, 1),
            count("rpc-error", Delivery::Answered, 1),
            count("interrupted", Delivery::Unknown, 1),
        ]
    );
    let latency = world.stats.latency();
    assert_eq!(latency.count(), 5);
    assert!(latency.longest >= Duration::from_millis(300), "{latency:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_in_flight_no_longer() {
    let world = World::ready().await;
    let _end = world.call(json!({ "ms": 10_000 }));
    settle().await;
    let params = json!({ "requestId": 7 }).to_string();
    let line = frame::notification("notifications/cancelled", Some(params.as_bytes()));
    assert!(world.connection.cancel(&RawId::from(7), &Frame::parse(line).unwrap()));
    settle().await;
    assert_eq!(world.stats.in_flight(), 0);
    assert_eq!(world.stats.calls(), [count("cancelled", Delivery::Unknown, 1)]);
    assert_eq!(world.stats.latency().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn restarts_have_a_reason_and_recoveries_a_length() {
    let world = World::ready().await;
    assert_eq!(world.stats.restarts(), BTreeMap::new());

    world.call(json!({})).await.unwrap();
    world.server.die(Fault::Exited { code: 0 }); // Idle, after a good answer: in good order.
    world.until_session(2).await;

    world.server.die(Fault::Killed { signal: 9 });
    world.until_session(3).await;

    world.refuse(Some(Fault::SpawnFailed { program: "fake".into(), reason: "busy".into() }));
    let lost = Instant::now();
    world.server.die(Fault::Exited { code: 3 });
    sleep(secs(5)).await;
    world.refuse(None);
    world.until_session(4).await;
    let away = lost.elapsed();

    world.connection.reconnect(Requester::Person);
    world.until_session(5).await;

    let restarts = world.stats.restarts();
    assert_eq!(restarts["retired"], 1);
    assert_eq!(restarts["killed"], 1);
    assert_eq!(restarts["exited"], 1);
    assert_eq!(restarts["planned"], 1);
    assert!(restarts["spawn-failed"] >= 2, "{restarts:?}");
    let recovery = world.stats.recovery();
    assert_eq!(recovery.count(), 3, "the planned one is none");
    assert!(away.abs_diff(recovery.longest) < Duration::from_millis(10), "{away:?} {recovery:?}");
    assert!(away > secs(5));
}

#[tokio::test(start_paused = true)]
async fn the_report_says_where_the_connection_stands_and_why() {
    let world = World::new();
    sleep(secs(7)).await;
    let report = world.report();
    assert_eq!((report.state, report.in_state), (ServerState::Idle, secs(7)));

    world.connection.start();
    world.until(Status::is_ready).await;
    sleep(secs(20)).await;
    let report = world.report().welcomed(&world.connection.welcome().unwrap());
    assert_eq!(
        (report.state, report.epoch, report.budget_left, report.pid),
        (ServerState::Ready, 1, 5, Some(1001))
    );
    assert_eq!(report.in_state.as_secs(), 20);
    assert_eq!(report.era.as_deref(), Some("legacy"));
    let info = report.server_info.as_ref().unwrap();
    assert_eq!((&*info.name, &*info.version), ("fake", "1"));
    assert_eq!(report.why_not_ready(), None);

    world.refuse(Some(Fault::NotFound { program: "fake".into() }));
    world.server.die(Fault::Exited { code: 3 });
    world.until(|status| status.state.name() == "parked").await;
    let report = world.report();
    let fault = report.last_fault.as_ref().unwrap();
    assert_eq!((&*fault.kind, fault.permanent), ("not-found", true));
    assert_eq!(report.why_not_ready().unwrap(), "it is parked: the program \"fake\" was not found");
    assert!(report.is_broken());
    let logs = world.stats.logs().join("\n");
    for said in ["ready (session 1)", "the server process exited with code 3", "parked: the program"] {
        assert!(logs.contains(said), "{said}: {logs}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_does_not_hold_its_connection_open_and_ends_with_it() {
    let World { connection, stats, server, .. } = World::ready().await;
    drop(connection);
    sleep(secs(60)).await;
    assert_eq!(server.alive(), 0);
    assert!(stats.logs().last().unwrap().ends_with(" closed"), "{:?}", stats.logs());
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_counted_while_they_wait() {
    let stats = Arc::new(Stats::default());
    let waiting = (stats.queued(), stats.queued());
    assert_eq!(stats.in_queue(), 2);
    drop(waiting);
    assert_eq!(stats.in_queue(), 0);
}
