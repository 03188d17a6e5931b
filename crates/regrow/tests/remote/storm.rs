//! Storms of faults on the way to a server, each from a seed: every call ends once and in time, nothing runs twice, nothing is left.

use regrow::core::{Delivery, Fault, Manner, Orderer, Policy};
use regrow::{Answer, CallError, Connection, Era};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::chance::Chance;
use crate::remote::{Act, Path, Remote, Speaks, deferred, status};
use crate::world::*;

const SEEDS: u64 = 300;

/// What becomes of an exchange in bad weather. A server answers so only before it has run the call.
fn mishap(chance: &mut Chance) -> Vec<Act> {
    match chance.below(12) {
        0 => vec![Act::Fail(status(502))],
        1 => vec![Act::Fail(status(404))],
        2 => vec![Act::Fail(deferred(chance.length()))],
        3 => vec![Act::Fail(deferred(secs(3600)))],
        4 => vec![Act::Fail(Fault::AnswerCut)],
        5 => vec![],
        6 => vec![Act::Stay],
        7 => vec![Act::Wait(chance.length()), Act::Fail(Fault::Stalled { after: secs(1) })],
        8 => vec![Act::Forget, Act::Fail(Fault::SessionExpired { ran: false })],
        9 => vec![Act::Die],
        10 => vec![Act::Fail(Fault::Unauthorized { code: 401 })],
        _ => vec![Act::Fail(Fault::Broken { reason: "reset".into() })],
    }
}

fn server(seed: u64) -> Remote {
    let chance = &mut Chance(seed.wrapping_mul(31));
    let speaks = [Speaks::Legacy, Speaks::Modern, Speaks::LegacyAndStatus(400), Speaks::LegacySilent];
    let mut server = Remote::new(chance.pick(&speaks));
    {
        let mut world = server.world();
        world.latency = chance.pick(&[0, 0, 2, 20, 300]) * millis(1);
        world.farewell = chance.pick(&[0, 0, 10, 5000]) * millis(1);
        world.has_stream = !chance.one_in(3);
    }
    let ours = ["initialize", "server/discover", "notifications/initialized", "ping", "subscriptions/listen"];
    for method in ours {
        let chance = std::sync::Mutex::new(Chance(chance.next()));
        let rarely = 4 + seed % 13;
        server = server.on(method, move |_| {
            let chance = &mut *chance.lock().unwrap();
            chance.one_in(rarely).then(|| mishap(chance))
        });
    }
    server
}

/// A call that misbehaves, too.
fn arguments(chance: &mut Chance, key: &str) -> Value {
    let mut arguments = json!({ "effect": key, "say": key, "ms": chance.length().as_millis() as u64 });
    match chance.below(16) {
        0 => arguments["dies"] = true.into(),
        1 => arguments["stays"] = true.into(),
        2 => arguments["cut"] = true.into(),
        3 => arguments["status"] = 502.into(),
        4 => arguments["forgets"] = true.into(),
        5 => arguments["elsewhere"] = true.into(),
        _ => {}
    }
    arguments
}

/// Something happens to the server or to the way to it.
fn gust(chance: &mut Chance, server: &Remote, connection: &Connection) {
    match chance.below(24) {
        0 => server.kill(),
        1 => server.set_path(Path::Partitioned),
        2 => server.forget(),
        3 => server.cut(),
        4 => connection.reconnect(Orderer::Person),
        5 => connection.reconnect(Orderer::Program),
        6 => server.world().refuses = Some(Fault::Unauthorized { code: 401 }),
        7 => server.world().refuses = Some(status(503)),
        8 => server.world().latency = chance.length() / 10,
        9 => drop(connection.notify("notifications/roots/list_changed", None)),
        10 => server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })),
        11 => server.say(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create" })),
        12..18 => {
            server.revive();
            server.mend();
        }
        _ => {}
    }
}

/// What a caller saw, and what it must not have.
fn judge(key: &str, end: &Result<Answer, CallError>, effects: u32) {
    match end {
        Ok(answer) => assert!(answer.value().is_none_or(|v| v["got"] == key), "{key} got another's answer"),
        Err(error) if error.delivery == Delivery::NotSent => {
            assert_eq!(effects, 0, "{key} ran although {error}");
        }
        Err(_) => {}
    }
    let most = if key.starts_with("safe") { 3 } else { 1 };
    assert!(effects <= most, "{key} ran {effects} times");
}

async fn storm(seed: u64) {
    let chance = &mut Chance(seed);
    let server = server(seed);
    let policy = Policy { connect_timeout: secs(30), drain_timeout: secs(5), ..Policy::default() };
    let connection =
        to(&server).policy(policy).seed(seed).era(Era::Auto).safe_tools(|tool| tool == "safe").build();
    let mut incoming = connection.incoming().unwrap();
    let (answering, slow_reader) = (connection.clone(), chance.one_in(4));
    let reader = tokio::spawn(async move {
        let mut acknowledged = 0;
        while let Some(question) = incoming.next().await {
            if question.frame.method() == Some("notifications/subscriptions/acknowledged") {
                acknowledged += 1;
            }
            if slow_reader {
                sleep(millis(300)).await;
            }
            answering.respond(&question, &json!({}));
        }
        assert!(acknowledged <= 1, "a stream was acknowledged {acknowledged} times");
    });
    let listening = connection.clone();
    let stream = tokio::spawn(async move { listening.request("subscriptions/listen", None).await });
    let mut calls = vec![];
    for n in 0..(10 + chance.below(40)) {
        sleep(chance.length()).await;
        gust(chance, &server, &connection);
        let tool = chance.pick(&["safe", "pay", "pay"]);
        let key = format!("{tool} {n}");
        let params = json!({ "name": tool, "arguments": arguments(chance, &key) });
        let deadline = secs(1) + chance.length() * 3;
        let gives_up = chance.one_in(8).then(|| chance.length());
        let caller = connection.clone();
        calls.push(tokio::spawn(async move {
            let began = Instant::now();
            let call = caller.request_within("tools/call", Some(params), Some(deadline));
            let end = timeout(gives_up.unwrap_or(secs(1000)), call).await.ok();
            // A question to a person stops the clock; here it is answered within the moment that a slow reader takes.
            let late = if slow_reader { secs(20) } else { millis(2) };
            assert!(began.elapsed() <= deadline + late, "{key} took {:?} of {deadline:?}", began.elapsed());
            (key, end)
        }));
    }
    end(chance, &connection).await;
    for call in calls {
        let (key, end) = timeout(secs(1), call).await.expect("a call that never ended").unwrap();
        let effects = server.effects(&key);
        match end {
            Some(end) => judge(&key, &end, effects),
            None => assert!(effects <= if key.starts_with("safe") { 3 } else { 1 }, "{key} was given up"),
        }
    }
    timeout(secs(1), stream).await.expect("a stream that never ended").unwrap().ok();
    settle().await;
    assert_eq!(connection.status().borrow().pending, 0);
    drop(connection);
    reader.await.unwrap();
    sleep(secs(60)).await; // Until those who answer elsewhere have.
    assert_eq!(tasks(), 0, "something is left");
    let world = server.world();
    assert_eq!((world.live, world.most_live), (0, 1), "P1");
    assert_eq!(world.after_end, Vec::<String>::new());
}

async fn end(chance: &mut Chance, connection: &Connection) {
    let closed = async {
        match chance.below(4) {
            0 => connection.drain().await,
            1 => connection.close_in(Manner::Told).await,
            2 => connection.close_in(Manner::ClientLeft).await,
            _ => connection.close().await,
        }
    };
    timeout(secs(20), closed).await.expect("a close that never ended");
}

/// One seed: `STORM_SEED=17 cargo test -p regrow --test remote storm`. More of them: `STORM_SEEDS=10000`.
#[test]
fn in_a_storm_of_faults_every_call_ends_in_time_and_nothing_runs_twice() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORM_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let weather = std::panic::catch_unwind(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            runtime.unwrap().block_on(storm(seed));
        });
        assert!(
            weather.is_ok(),
            "seed {seed}; again: STORM_SEED={seed} cargo test -p regrow --test remote storm"
        );
    }
}
