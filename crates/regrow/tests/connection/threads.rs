//! The same on several threads, in real time: what only happens when things happen at once.

use std::time::Duration;

use regrow::core::{Fault, Requester};
use regrow_testkit::script::Plan;
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{sleep, timeout};

/// Nothing here takes so long when it works.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_deaths_reconnects_and_closes_at_once_leave_no_call_behind() {
    for round in 0..200u64 {
        let server = Server::always(Plan { tells_unread: round % 2 == 0, ..Plan::default() });
        let connection = ready(&server).await;
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                let connection = connection.clone();
                tokio::spawn(async move {
                    for n in 0..50 {
                        let key = format!("{caller}/{n}");
                        let call = work(&connection, json!({ "effect": key, "say": key }));
                        // Some give up, at any moment.
                        let _ = timeout(Duration::from_micros(1 + (n * 37 + round * 11) % 900), call).await;
                    }
                })
            })
            .collect();
        sleep(Duration::from_micros(round * 53 % 3000)).await;
        match round % 4 {
            0 => server.die(Fault::Killed { signal: 9 }),
            1 => connection.reconnect(Requester::Person),
            _ => {}
        }
        sleep(Duration::from_micros(round * 31 % 2000)).await;
        let closed = timeout(PATIENCE, connection.close()).await;
        assert!(closed.is_ok(), "round {round}: it never closed");
        for caller in callers {
            timeout(PATIENCE, caller).await.expect("a call that never ended").unwrap();
        }
        assert!(server.all_effects().values().all(|&count| count == 1), "round {round}");
        let status = connection.status().borrow().clone();
        assert_eq!((status.pending, status.is_closed()), (0, true), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_in_the_moment_of_the_close_ends() {
    for _ in 0..500 {
        let connection = to(&Server::always(Plan::default())).build();
        let calls: Vec<_> = (0..4).map(|_| begin(&connection, json!({}))).collect();
        tokio::task::yield_now().await;
        timeout(PATIENCE, connection.close()).await.expect("it never closed");
        for call in calls {
            let _ = timeout(PATIENCE, call).await.expect("a call that never ended").unwrap();
        }
    }
}
