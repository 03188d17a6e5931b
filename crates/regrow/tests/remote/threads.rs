//! The same on several threads, in real time: what only happens when things happen at once.

use std::time::Duration;

use regrow::core::Requester;
use regrow_testkit::remote::Remote;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{sleep, timeout};

/// Nothing here takes so long when it works.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_cuts_expiries_reconnects_and_closes_at_once_leave_no_call_behind() {
    for round in 0..60u64 {
        let server = if round % 3 == 0 { Remote::modern() } else { Remote::legacy() };
        let connection = to(&server).era(regrow::Era::Auto).build();
        start(&connection).await;
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                let connection = connection.clone();
                tokio::spawn(async move {
                    for n in 0..50 {
                        let key = format!("{caller}/{n}");
                        let call = work(&connection, json!({ "effect": key, "say": key }));
                        // Some give up, at any moment.
                        let end = timeout(Duration::from_micros(1 + (n * 37 + round * 11) % 900), call).await;
                        if let Ok(Ok(answer)) = end {
                            assert_eq!(said(&answer), key);
                        }
                    }
                })
            })
            .collect();
        sleep(Duration::from_micros(round * 53 % 3000)).await;
        match round % 5 {
            0 => server.cut(),
            1 => connection.reconnect(Requester::Person),
            2 => server.forget(),
            3 => {
                server.kill();
                server.revive();
            }
            _ => {}
        }
        sleep(Duration::from_micros(round * 31 % 2000)).await;
        let closed = timeout(PATIENCE, connection.close()).await;
        assert!(closed.is_ok(), "round {round}: it never closed");
        for caller in callers {
            timeout(PATIENCE, caller).await.expect("a call that never ended").unwrap();
        }
        let status = connection.status().borrow().clone();
        assert_eq!((status.pending, status.is_closed()), (0, true), "round {round}");
        assert!(server.all_effects().values().all(|&count| count == 1), "round {round}");
        let world = server.world();
        assert_eq!((world.live, world.most_live), (0, 1), "round {round}");
        assert_eq!(world.after_end, Vec::<String>::new(), "round {round}");
    }
}
