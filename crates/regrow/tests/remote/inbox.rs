//! What a server sends by itself, and clients that do not read it, or fail over it.

use regrow::core::Fault;
use regrow::{Connection, Era, ErrorKind, IncomingMessages, Status};
use regrow_testkit::client::{PanickingInbox, call_and_panic};
use regrow_testkit::remote::Remote;
use regrow_testkit::script::{Act, answer};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

fn message(n: usize) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "n": n } })
}

/// A server that sends so many messages on the exchange of each call before its answer.
fn flooding(messages: usize) -> Remote {
    Remote::legacy().on("tools/call", move |call| {
        if call["params"]["arguments"]["stays"] == true {
            return None;
        }
        let mut acts: Vec<Act> = (0..messages).map(|n| Act::Say(message(n))).collect();
        acts.push(Act::Say(answer(&call["id"], json!({ "got": call["params"]["arguments"]["say"] }))));
        Some(acts)
    })
}

async fn flooded(messages: usize) -> (Remote, Connection, IncomingMessages) {
    let server = flooding(messages);
    let connection = ready(&server).await;
    let incoming = connection.incoming().unwrap();
    (server, connection, incoming)
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_server_are_answered_on_the_session_that_asked() {
    let server = Remote::legacy().on("tools/call", |call| {
        let ask = json!({ "jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {} });
        let wait = Act::Wait(secs(1));
        Some(vec![Act::Say(ask), wait, Act::Say(answer(&call["id"], json!({ "got": 1 })))])
    });
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    let call = begin(&connection, json!({}));
    let question = incoming.next().await.unwrap();
    assert!(connection.respond(&question, &json!({ "text": "hello" })));
    call.await.unwrap().unwrap();
    server.say(json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" }));
    let roots = incoming.next().await.unwrap();
    assert!(connection.refuse(&roots, -32601, "no roots"));
    settle().await;
    let told = server.heard();
    let answers: Vec<_> = told.iter().filter(|heard| heard.message.get("method").is_none()).collect();
    assert_eq!(answers[0].message, answer(&json!("q1"), json!({ "text": "hello" })));
    assert_eq!(answers[1].message["error"]["code"], -32601);
    assert!(answers.iter().all(|heard| heard.start == 1));

    server.forget();
    work(&connection, json!({})).await.unwrap();
    assert!(!connection.respond(&question, &json!({})), "a later session must not get it");
}

#[tokio::test(start_paused = true)]
async fn a_ping_of_the_server_is_answered_on_its_own_exchange_or_stream() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    server.say(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    settle().await;
    let pong = server.heard().last().unwrap().message.clone();
    assert_eq!(pong, answer(&json!(1), json!({})));
    drop(connection);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_person_takes_does_not_count() {
    let server = Remote::legacy().on("tools/call", |_| {
        let ask = json!({ "jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {} });
        Some(vec![Act::Say(ask), Act::Stay])
    });
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    let call = begin(&connection, json!({}));
    let question = incoming.next().await.unwrap();
    sleep(secs(1000)).await;
    assert!(!call.is_finished());
    connection.respond(&question, &json!({ "action": "accept" }));
    settle().await;
    let id = server.heard_of("tools/call")[0].message["id"].clone();
    server.order(&id, Act::Say(answer(&id, json!({ "got": 1 }))));
    assert_eq!(said(&call.await.unwrap().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn while_the_client_does_not_read_neither_deadlines_nor_probes_blame_the_server() {
    let (server, connection, mut incoming) = flooded(5000).await;
    let call = begin(&connection, json!({ "say": 1 }));
    sleep(secs(3000)).await;
    assert!(!call.is_finished());
    assert_eq!(connection.status().borrow().sessions, 1);
    assert_eq!((server.count("ping"), server.world().checks.len()), (0, 0));
    for n in 0..5000 {
        let frame = incoming.next().await.unwrap().frame;
        let params: Value = serde_json::from_slice(frame.params().unwrap()).unwrap();
        assert_eq!(params["n"], n, "nothing was lost, and nothing overtook");
    }
    assert_eq!(said(&call.await.unwrap().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_holds_up_reading_alone() {
    let (server, connection, mut incoming) = flooded(2000).await;
    let flood = begin(&connection, json!({}));
    sleep(secs(1)).await;
    // Calls still leave, and can be given up.
    let given_up = timeout(secs(1), work(&connection, json!({ "stays": true }))).await;
    assert!(given_up.is_err());
    assert!(connection.notify("notifications/roots/list_changed", None));
    settle().await;
    assert_eq!(server.count("notifications/cancelled"), 1);
    assert_eq!(server.count("notifications/roots/list_changed"), 1);
    for _ in 0..2000 {
        incoming.next().await.unwrap();
    }
    flood.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn however_many_exchanges_wait_for_a_client_all_go_on_when_it_reads() {
    for calls in [10, 1500] {
        let (_server, connection, mut incoming) = flooded(1).await;
        let calls: Vec<_> = (0..calls).map(|n| begin(&connection, json!({ "say": n }))).collect();
        sleep(secs(10)).await;
        let reading = tokio::spawn(async move {
            let mut read = 0;
            while incoming.next().await.is_some() {
                read += 1;
            }
            read
        });
        let before = Instant::now();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(said(&call.await.unwrap().unwrap()), n);
        }
        assert!(before.elapsed() <= secs(1), "{:?}", before.elapsed());
        let late = work(&connection, json!({ "stays": true })).await.unwrap_err();
        assert_eq!(late.kind, ErrorKind::Timeout, "deadlines go on");
        connection.close().await;
        reading.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn deadlines_go_on_when_the_server_is_lost_behind_a_client_that_does_not_read() {
    let (server, connection, incoming) = flooded(5000).await;
    let flood = begin(&connection, json!({}));
    sleep(secs(10)).await;
    server.kill();
    let error = flood.await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted);
    until(&connection, |status| !status.is_ready()).await;
    server.world().refuses = Some(regrow_testkit::script::deferred(secs(50)));
    server.revive();
    let before = Instant::now();
    let params = Some(json!({ "name": "work" }));
    let error = connection.request_within("tools/call", params, Some(secs(20))).await.unwrap_err();
    assert!(before.elapsed() <= secs(20), "{:?}", before.elapsed());
    assert!(error.fault.is_some(), "{error:?}");
    drop(incoming);
}

#[tokio::test(start_paused = true)]
async fn a_close_behind_a_client_that_does_not_read_is_bounded() {
    let (_server, connection, _incoming) = flooded(5000).await;
    let calls: Vec<_> = (0..10).map(|_| begin(&connection, json!({}))).collect();
    sleep(secs(10)).await;
    let before = Instant::now();
    connection.close().await;
    assert!(before.elapsed() <= secs(1), "{:?}", before.elapsed());
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    settle().await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_panics_ends_sessions_and_no_connection() {
    for place in ["take", "has_room", "lost", "over"] {
        let server = Remote::legacy();
        let bomb = PanickingInbox::new(place, false);
        let connection = to(&server).bridge_to(bomb.clone()).build();
        start(&connection).await;
        bomb.arm(true);
        server.say(message(1));
        let _ = work(&connection, json!({})).await;
        sleep(secs(1)).await;
        if place == "take" {
            let fault = connection.status().borrow().last_fault.clone().unwrap();
            assert!(fault.to_string().contains("internal error in Regrow"), "{fault}");
        }
        bomb.arm(place == "over");
        until(&connection, Status::is_ready).await;
        work(&connection, json!({})).await.unwrap();
        connection.close().await;
        settle().await;
        assert_eq!((tasks(), server.world().live), (0, 0), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_at_its_answer_ends_one_session() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    call_and_panic(&connection, json!({}));
    until(&connection, |status| status.sessions == 2).await;
    let fault = connection.status().borrow().last_fault.clone().unwrap();
    assert!(fault.to_string().contains("internal error in Regrow"), "{fault}");
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_when_it_is_failed_harms_nobody() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let fails = [
        json!({ "status": 502 }),
        json!({ "cut": true }),
        json!({ "forgets": true }),
        json!({ "stays": true, "ms": 400_000 }),
    ];
    for fails in fails {
        call_and_panic(&connection, fails);
        settle().await;
        work(&connection, json!({})).await.unwrap();
    }
    sleep(secs(301)).await;
    call_and_panic(&connection, json!({ "stays": true }));
    settle().await;
    server.kill();
    server.revive();
    work(&connection, json!({})).await.unwrap();
    connection.close().await;
    settle().await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_ends_one_session() {
    let server = Remote::legacy().on("tools/call", |call| {
        assert!(call["params"]["arguments"]["panics"] != true, "a transport that fails");
        None
    });
    let connection = to(&server).era(Era::Legacy).build();
    start(&connection).await;
    let error = work(&connection, json!({ "panics": true })).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted);
    assert!(matches!(error.fault.as_deref(), Some(Fault::Broken { .. })), "{error:?}");
    work(&connection, json!({})).await.unwrap();
    assert_eq!(connection.status().borrow().sessions, 2);
}
