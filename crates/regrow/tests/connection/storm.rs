//! Storms of faults, each from a seed: every call ends once and in time, nothing runs twice, nothing is left.

use std::sync::Arc;

use regrow::core::{Delivery, Fault, Manner, Orderer, Policy};
use regrow::{Answer, CallError, Connection, Era, ErrorKind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::chance::Chance;
use crate::process::Stubborn;
use crate::server::{Act, Plan, Server, Speaks, answer};
use crate::world::*;

const SEEDS: u64 = 300;

fn death(chance: &mut Chance) -> Fault {
    let signal = Fault::Killed { signal: 9 };
    chance.pick(&[signal, Fault::Exited { code: 0 }, Fault::Exited { code: 1 }])
}

/// How the n-th start misbehaves.
fn plan(seed: u64, start: usize) -> Plan {
    let chance = &mut Chance(seed.wrapping_mul(1009).wrapping_add(start as u64));
    let stubborn = [Stubborn::No, Stubborn::No, Stubborn::IgnoresEnd, Stubborn::IgnoresTerm];
    // What a server speaks does not change from start to start.
    let speaks = [
        Speaks::Legacy,
        Speaks::Modern,
        Speaks::Both,
        Speaks::LegacyDiesOfDiscover,
        Speaks::LegacySilentOnDiscover,
    ];
    let mut plan = Plan {
        speaks: Chance(seed).pick(&speaks),
        stubborn: chance.pick(&stubborn),
        tells_unread: Chance(seed).one_in(2),
        pipe: chance.pick(&[256, 4096, 65536]),
        tools: if chance.one_in(4) { vec!["add", "more"] } else { vec!["add"] },
        ..Plan::default()
    };
    match chance.below(16) {
        0 => plan.cannot_start = Some(Fault::SpawnFailed { program: "x".into(), reason: "busy".into() }),
        1 => plan.spawn_delay = chance.length(),
        2 => plan.start_delay = chance.length() * 5,
        3 => plan = plan.on("initialize", |_| vec![]),
        4 => plan = plan.on("ping", |_| vec![]),
        5 => plan = plan.on("tools/list", |_| vec![Act::Write("oops\n".into())]),
        6 => plan.by_itself = vec![Act::Wait(chance.length()), Act::CloseOutput],
        7 => plan.by_itself = vec![Act::Wait(chance.length()), Act::StopReading],
        8 => {
            plan.by_itself =
                vec![Act::Write("half a li".into()), Act::Wait(chance.length()), Act::Die(death(chance))]
        }
        9..12 => plan = plan.dies_after(chance.length(), death(chance)),
        _ => {}
    }
    if chance.one_in(3) {
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        plan.by_itself.extend([Act::Wait(chance.length()), Act::Say(notice)]);
    }
    plan
}

/// A call that misbehaves, too.
fn arguments(chance: &mut Chance, key: &str) -> Value {
    let mut arguments = json!({ "effect": key, "say": key, "ms": chance.length().as_millis() as u64 });
    match chance.below(12) {
        0 => arguments["dies"] = true.into(),
        1 => arguments["silent"] = true.into(),
        2 => arguments["hangs"] = true.into(),
        3 => arguments["text"] = "x".repeat(10_000).into(),
        _ => {}
    }
    arguments
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
    let server = Server::new(move |start| plan(seed, start));
    let policy = Policy { connect_timeout: secs(30), drain_timeout: secs(5), ..Policy::default() };
    let connection = to(&server)
        .policy(policy)
        .seed(seed)
        .era(chance.pick(&[Era::Auto, Era::Auto, Era::Legacy]))
        .safe_tools(|tool| tool == "safe")
        .build();
    let mut incoming = connection.incoming().unwrap();
    tokio::spawn(async move { while incoming.next().await.is_some() {} });
    let mut calls = vec![];
    for n in 0..(10 + chance.below(40)) {
        sleep(chance.length()).await;
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
            assert!(
                began.elapsed() <= deadline + millis(2),
                "{key} took {:?} of {deadline:?}",
                began.elapsed()
            );
            (key, end)
        }));
        match chance.below(20) {
            0 => connection.reconnect(Orderer::Person),
            1 => connection.reconnect(Orderer::Program),
            2 => drop(connection.request("tools/list", None).await),
            3 => {
                let _ = connection.request("resources/subscribe", Some(json!({ "uri": "a://1" }))).await;
            }
            _ => {}
        }
    }
    end(chance, &connection).await;
    for call in calls {
        let (key, end) = timeout(secs(1), call).await.expect("a call that never ended").unwrap();
        let effects = server.effects(&key);
        match end {
            Some(end) => judge(&key, &end, effects),
            None => assert!(effects <= 3, "{key} was given up"),
        }
    }
    settle().await;
    assert_eq!(connection.status().borrow().pending, 0);
    assert!(server.most_alive() <= 1, "P1: {} processes at once", server.most_alive());
    drop(connection);
    settle().await;
    assert_eq!((tasks(), server.alive()), (0, 0), "something is left");
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
    let farewell = timeout(secs(20), closed).await.expect("a close that never ended");
    assert!(!farewell.abandoned);
}

/// One seed: `STORM_SEED=17 cargo test -p regrow --test connection storm`. More of them: `STORM_SEEDS=10000`.
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
            "seed {seed}; again: STORM_SEED={seed} cargo test -p regrow --test connection storm"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_in_flight_when_the_server_dies_end_once_each() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        match message["params"]["arguments"]["n"].as_u64() {
            Some(999) => vec![Act::Die(Fault::Killed { signal: 9 })],
            Some(n) if n % 3 == 0 => vec![Act::Say(answer(&message["id"], json!({ "got": n })))],
            _ => vec![],
        }
    }));
    let connection = Arc::new(ready(&server).await);
    let calls: Vec<_> = (0..1000).map(|n| begin(&connection, json!({ "n": n }))).collect();
    let mut answered = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => assert_eq!(error.kind, ErrorKind::Interrupted),
        }
    }
    assert_eq!(answered, 333);
    until(&connection, |status| status.sessions == 2).await;
    assert_eq!(server.starts().len(), 2);
}
