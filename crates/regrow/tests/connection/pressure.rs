//! A client that does not read stops its server and nobody else, and nobody is blamed.

use regrow::core::{Epoch, Fault, Policy, Requester};
use regrow::{Connection, ErrorKind};
use regrow_testkit::process::Stubborn;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// A server that sends more than anybody takes, and answers a call only after that.
fn flooding() -> Plan {
    let message =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "text": "x".repeat(100) } });
    Plan::default().on("tools/call", move |call| {
        let mut acts = vec![Act::Say(message.clone()); 5000];
        acts.push(Act::Say(answer(&call["id"], json!({ "got": 1 }))));
        acts
    })
}

async fn flooded(plan: Plan) -> (Server, Connection, regrow::IncomingMessages) {
    let server = Server::new(move |start| if start == 1 { plan.clone() } else { Plan::default() });
    let connection = to(&server).policy(Policy { idle_probe: Some(secs(60)), ..policy() }).build();
    start(&connection).await;
    let incoming = connection.incoming().unwrap();
    (server, connection, incoming)
}

#[tokio::test(start_paused = true)]
async fn what_a_program_never_receives_is_counted_and_holds_nothing_up() {
    let server = Server::always(flooding());
    let connection = to(&server).build();
    begin(&connection, json!({})).await.unwrap().unwrap();
    connection.close().await;
    let undelivered = connection.status().borrow().anomalies.undelivered;
    assert!((3900..5000).contains(&undelivered), "{undelivered} of 5000; a bounded queue took the rest");
}

#[tokio::test(start_paused = true)]
async fn while_the_client_does_not_read_neither_deadlines_nor_probes_blame_the_server() {
    let (server, connection, mut incoming) = flooded(flooding()).await;
    let call = begin(&connection, json!({}));
    sleep(secs(3000)).await;
    assert!(!call.is_finished());
    assert_eq!(connection.status().borrow().sessions, 1);
    assert!(connection.status().borrow().is_ready());
    assert_eq!(server.heard_of("ping").len(), 0);
    let mut seen = 0;
    while seen < 5000 {
        incoming.next().await.unwrap();
        seen += 1;
    }
    assert_eq!(said(&call.await.unwrap().unwrap()), 1, "nothing was lost, and nothing overtook");
}

/// Takes all that is there.
async fn catch_up(incoming: &mut regrow::IncomingMessages) {
    while timeout(millis(1), incoming.next()).await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn a_death_behind_a_client_that_does_not_read_is_noticed() {
    let (server, connection, mut incoming) = flooded(flooding()).await;
    let call = begin(&connection, json!({}));
    sleep(secs(10)).await;
    server.die(Fault::Killed { signal: 9 });
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted);
    catch_up(&mut incoming).await;
    until(&connection, |status| status.sessions == 2).await;
    let before = Instant::now();
    let late = work(&connection, json!({ "silent": true })).await.unwrap_err();
    assert_eq!((late.kind, before.elapsed()), (ErrorKind::Timeout, secs(300)), "deadlines go on");
}

#[tokio::test(start_paused = true)]
async fn a_close_behind_a_client_that_does_not_read_is_bounded() {
    let (_server, connection, _incoming) = flooded(flooding()).await;
    let call = begin(&connection, json!({}));
    sleep(secs(10)).await;
    let before = Instant::now();
    connection.close().await;
    assert!(before.elapsed() <= secs(8), "{:?}", before.elapsed());
    assert!(call.await.unwrap().is_err());
    settle().await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn messages_that_nobody_ever_asked_for_block_nothing() {
    let server = Server::always(flooding());
    let connection = ready(&server).await;
    for _ in 0..3 {
        assert_eq!(said(&work(&connection, json!({})).await.unwrap()), 1);
    }
    // Nor do those of a receiver that was dropped.
    drop(connection.incoming().unwrap());
    assert_eq!(said(&work(&connection, json!({})).await.unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn deadlines_go_on_after_a_session_that_had_to_be_abandoned_while_the_client_did_not_read() {
    let server = Server::new(|start| match start {
        1 => Plan { stubborn: Stubborn::Immortal, ..flooding() },
        _ => Plan { start_delay: secs(5), ..Plan::default() },
    });
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    drop(begin(&connection, json!({})));
    sleep(secs(10)).await;
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.epoch == Epoch(2)).await;
    catch_up(&mut incoming).await;
    until(&connection, |status| status.sessions == 2).await;
    let before = Instant::now();
    let late = work(&connection, json!({ "silent": true })).await.unwrap_err();
    assert_eq!((late.kind, before.elapsed()), (ErrorKind::Timeout, secs(300)));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_session_is_not_heard_any_more() {
    let talkative = Plan {
        stubborn: Stubborn::Immortal,
        by_itself: vec![
            Act::Wait(secs(100)),
            Act::Say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} })),
        ],
        ..Plan::default()
    };
    let server = Server::new(move |start| if start == 1 { talkative.clone() } else { Plan::default() });
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.sessions == 2).await;
    assert!(timeout(secs(200), incoming.next()).await.is_err());
    connection.close().await;
    settle().await;
    assert_eq!(tasks(), 1, "only the process that cannot be ended");
}
