//! Two hundred deaths of one connection's server: nothing is left, nothing ran twice, no call went without an answer.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/evidence.rs"]
mod evidence;

use std::time::{Duration, Instant};

use regrow::core::{BackoffPolicy, BudgetPolicy, Delivery, Policy};
use regrow::transport::stdio::Stdio;
use regrow::{Connection, ErrorKind};
use regrow_chaos::journal::Journal;
use rustix::process::Signal;
use serde_json::{Value, json};

use evidence::{kill, open_files, slack, zombies_of};

const KILLS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

/// Without pauses, which would make this take minutes, and without a budget.
fn hasty() -> Policy {
    let millisecond = Duration::from_millis(1);
    Policy {
        attempt_floor: millisecond,
        demand_floor: millisecond,
        backoff: BackoffPolicy { first: millisecond, cap: millisecond, ..Policy::default().backoff },
        budget: BudgetPolicy { charges: 1_000_000, window: Duration::from_secs(1) },
        ..Policy::default()
    }
}

#[tokio::test]
async fn two_hundred_kills_leave_nothing_and_run_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    let server = Stdio::new("chaos", env!("CARGO_BIN_EXE_regrow"))
        .args(["chaos-server"])
        .variable("CHAOS_DIR", folder.path())
        .variable("CHAOS_LIFE", "120s");
    let connection = Connection::builder("chaos", server).policy(hasty()).build();
    assert_eq!(count(&connection, "first").await.unwrap(), "1");
    let files = open_files(std::process::id());

    let mut noticed = vec![];
    for n in 0..KILLS {
        let key = format!("key-{n}");
        if n % 2 == 0 {
            noticed.push(die_idle(&connection, &journal).await);
        } else {
            die_busy(&connection, &journal, &key).await;
        }
        let after = format!("after-{n}");
        assert_eq!(count(&connection, &after).await.unwrap(), "1", "after kill {n}");
        assert_eq!(journal.runs_with("count", &after), 1);
    }
    noticed.sort();
    let worst = noticed[noticed.len() - 1];
    assert!(worst < Duration::from_secs(1) + slack(), "a death was noticed only after {worst:?}");

    assert_eq!(journal.starts(), KILLS + 1, "one start for each death");
    assert_eq!(zombies_of(std::process::id()), [0; 0]);
    let began = Instant::now();
    while let left = open_files(std::process::id())
        && left > files + 2
    {
        assert!(began.elapsed() < PATIENCE, "open files grew from {files} to {left}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    connection.close().await;
    assert_eq!(connection.status().borrow().pending, 0);
    assert!(journal.wait(PATIENCE, |journal| journal.alive().is_empty()), "{:?}", journal.alive());
    assert_eq!(zombies_of(std::process::id()), [0; 0]);
}

/// Killed while nothing runs. How long until that was known?
async fn die_idle(connection: &Connection, journal: &Journal) -> Duration {
    let mut status = connection.status();
    let epoch = status.borrow().epoch;
    let killed = Instant::now();
    kill(*journal.pids().last().unwrap(), Signal::KILL);
    let moved = status.wait_for(|status| status.epoch != epoch || !status.is_ready());
    tokio::time::timeout(PATIENCE, moved).await.unwrap().unwrap();
    killed.elapsed()
}

/// Killed during a call that has had its effect.
async fn die_busy(connection: &Connection, journal: &Journal, key: &str) {
    let arguments = json!({ "key": key, "delay_ms": 60_000 });
    let calling = tokio::spawn({
        let connection = connection.clone();
        async move { call(&connection, "count", arguments).await }
    });
    let began = Instant::now();
    while journal.runs_with("count", key) == 0 {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kill(*journal.pids().last().unwrap(), Signal::KILL);
    let error = tokio::time::timeout(PATIENCE, calling).await.unwrap().unwrap().unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown), "{error}");
    assert_eq!(journal.runs_with("count", key), 1);
}

async fn count(connection: &Connection, key: &str) -> Result<String, regrow::CallError> {
    let answer = call(connection, "count", json!({ "key": key })).await?;
    Ok(answer["content"][0]["text"].as_str().unwrap().to_owned())
}

async fn call(connection: &Connection, tool: &str, arguments: Value) -> Result<Value, regrow::CallError> {
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = connection.request("tools/call", Some(params)).await?;
    Ok(answer.value().unwrap())
}
