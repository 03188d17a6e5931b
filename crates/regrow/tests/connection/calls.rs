//! What becomes of calls: every one ends once, in time, with a truthful answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Delivery, Fault, Outlook, Policy, Replay, Requester, State};
use regrow::{Connection, ErrorKind, Status};
use regrow_testkit::process::Stubborn;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}

fn safe(server: &Server) -> Connection {
    to(server).safe_tools(|tool| tool == "work").build()
}

fn elicitation(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {} })
}

#[tokio::test(start_paused = true)]
async fn held_calls_leave_in_the_order_they_came_and_before_newer_ones() {
    let server = Server::always(Plan { start_delay: secs(2), ..Plan::default() });
    let connection = to(&server).build();
    let calls: Vec<_> = (0..20).map(|n| begin(&connection, json!({ "say": n }))).collect();
    until(&connection, |status| status.is_ready()).await;
    let newest = begin(&connection, json!({ "say": 20 }));
    for call in calls {
        call.await.unwrap().unwrap();
    }
    newest.await.unwrap().unwrap();
    let order: Vec<u64> = server
        .heard_of("tools/call")
        .iter()
        .map(|heard| heard.message["params"]["arguments"]["say"].as_u64().unwrap())
        .collect();
    assert_eq!(order, (0..=20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_callers_that_see_one_death_cause_one_reconnect() {
    let server = Server::always(Plan::default());
    let connection = safe(&server);
    start(&connection).await;
    let calls: Vec<_> = (0..100).map(|n| begin(&connection, json!({ "say": n, "ms": 1000 }))).collect();
    settle().await;
    server.die(killed());
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(server.starts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_fails_at_once_and_says_so() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let call = begin(&connection, json!({ "effect": "pay", "silent": true }));
    sleep(secs(2)).await;
    let before = Instant::now();
    server.die(killed());
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(before.elapsed(), millis(0));
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
    assert_eq!(error.fault.as_deref(), Some(&killed()));
    assert_eq!(error.outlook, Outlook::Restarting);
    assert_eq!(
        error.to_string(),
        "fake: the server process was killed by SIGKILL while this call was running (work). \
         It may have run; check before repeating it. The connection is already restarting."
    );
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.effects("pay"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_said_before_it_died_counts() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        let id = message["id"].clone();
        vec![Act::Say(answer(&id, json!({ "got": "last words" }))), Act::Die(Fault::Exited { code: 3 })]
    }));
    let connection = ready(&server).await;
    assert_eq!(said(&work(&connection, json!({})).await.unwrap()), "last words");
    settle().await;
    assert_eq!(connection.status().borrow().last_fault.as_deref(), Some(&Fault::Exited { code: 3 }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_dead_server_never_read_moves_and_nobody_notices() {
    let server = Server::new(|_| Plan { tells_unread: true, ..Plan::default() });
    let connection = ready(&server).await;
    // It takes this call and reads no more.
    let read = begin(&connection, json!({ "effect": "read", "hangs": true }));
    settle().await;
    let unread: Vec<_> = (0..5).map(|n| begin(&connection, json!({ "effect": n.to_string() }))).collect();
    settle().await;
    server.die(killed());
    assert_eq!(read.await.unwrap().unwrap_err().delivery, Delivery::Unknown);
    for call in unread {
        call.await.unwrap().unwrap();
    }
    for n in 0..5 {
        assert_eq!(server.effects(&n.to_string()), 1);
    }
    assert_eq!(server.effects("read"), 1);
}

#[tokio::test(start_paused = true)]
async fn no_pause_is_told_where_a_waiting_call_allows_of_none() {
    let server = Server::new(|start| match start {
        1 | 2 => Plan::default().dies_after(secs(2), killed()),
        _ => Plan::default(),
    });
    let connection = safe(&server);
    let life = Life::of(&connection);
    work(&connection, json!({ "ms": 5000 })).await.unwrap();
    life.check(
        "0.0s starting the server (session 1)
         0.0s ready (session 1)
         2.0s the server process was killed by SIGKILL, with 1 call in flight
         2.0s starting the server (session 2)
         2.0s ready (session 2); in-memory state of the old server process is lost
         4.0s the server process was killed by SIGKILL, with 1 call in flight
         4.0s starting the server (session 3)
         4.0s ready (session 3); in-memory state of the old server process is lost",
    );
}

/// A server that took one call, which has timed out, and reads no more. It is doubted, and soon ended.
async fn hung(plan: Plan) -> (Server, Connection) {
    let server = Server::new(move |_| Plan { tells_unread: true, ..plan.clone() });
    let policy = Policy { doubt_patience: Duration::ZERO, ..policy() };
    let connection = to(&server).policy(policy).build();
    start(&connection).await;
    let params = json!({ "name": "work", "arguments": { "effect": "hang", "hangs": true } });
    let hung = connection.request_within("tools/call", Some(params), Some(secs(2))).await;
    assert_eq!(hung.unwrap_err().kind, ErrorKind::Timeout);
    (server, connection)
}

#[tokio::test(start_paused = true)]
async fn calls_that_a_hung_server_never_read_move_when_it_is_ended() {
    let (server, connection) = hung(Plan::default()).await;
    let unread: Vec<_> = (0..5).map(|n| begin(&connection, json!({ "effect": n.to_string() }))).collect();
    for call in unread {
        call.await.unwrap().unwrap();
    }
    for n in 0..5 {
        assert_eq!(server.effects(&n.to_string()), 1);
    }
    assert_eq!((server.starts().len(), server.effects("hang"), server.most_alive()), (2, 1, 1));
    let fault = connection.status().borrow().last_fault.clone();
    assert!(matches!(fault.as_deref(), Some(Fault::Silent { .. })), "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_a_server_without_output_never_read_move_when_it_is_ended() {
    let server = Server::new(|_| Plan { tells_unread: true, ..Plan::default() });
    let connection = ready(&server).await;
    let read = begin(&connection, json!({ "hangs": true }));
    settle().await;
    let unread = begin(&connection, json!({ "effect": "unread" }));
    settle().await;
    server.act(Act::CloseOutput);
    assert_eq!(read.await.unwrap().unwrap_err().delivery, Delivery::Unknown);
    unread.await.unwrap().unwrap();
    assert_eq!((server.effects("unread"), server.starts().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn calls_on_a_hung_server_that_cannot_be_killed_end_as_unknown_within_200_ms() {
    let (server, connection) = hung(Plan { stubborn: Stubborn::Immortal, ..Plan::default() }).await;
    let call = begin(&connection, json!({ "effect": "unread" }));
    until(&connection, |status| matches!(status.state, State::Closing { .. })).await;
    let failed = Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.delivery, error.kind), (Delivery::Unknown, ErrorKind::Interrupted));
    assert!(failed.elapsed() <= millis(201), "{:?}", failed.elapsed());
    until(&connection, Status::is_ready).await;
    assert_eq!(server.effects("unread"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_hung_server_reads_while_it_is_ended_counts_and_nothing_more_is_written_to_it() {
    let plan = Plan { stubborn: Stubborn::IgnoresTerm, pipe: 2048, ..Plan::default() };
    let (server, connection) = hung(plan).await;
    let small = begin(&connection, json!({ "effect": "small" }));
    let silent = begin(&connection, json!({ "effect": "silent", "silent": true }));
    settle().await;
    // The first fills the pipe, the second finds no room.
    let large = begin(&connection, json!({ "effect": "large", "text": "x".repeat(8000) }));
    settle().await;
    let last = begin(&connection, json!({ "effect": "last" }));
    until(&connection, |status| matches!(status.state, State::Closing { .. })).await;
    server.act(Act::ReadOn);
    small.await.unwrap().unwrap();
    assert_eq!(silent.await.unwrap().unwrap_err().delivery, Delivery::Unknown);
    assert_eq!(large.await.unwrap().unwrap_err().delivery, Delivery::Unknown, "it read half of it");
    last.await.unwrap().unwrap();
    let effects = ["small", "silent", "large", "last"].map(|key| server.effects(key));
    assert_eq!(effects, [1, 1, 0, 1]);
    let heard = server.heard_of("tools/call");
    let keys: Vec<_> = heard.iter().map(|h| (h.start, &h.message["params"]["arguments"]["effect"])).collect();
    assert_eq!(keys, [(1, &json!("hang")), (1, &json!("small")), (1, &json!("silent")), (2, &json!("last"))]);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_tell_what_was_read_a_call_may_have_run() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let hung = begin(&connection, json!({ "hangs": true }));
    settle().await;
    let call = begin(&connection, json!({}));
    settle().await;
    server.die(killed());
    assert_eq!(hung.await.unwrap().unwrap_err().delivery, Delivery::Unknown);
    assert_eq!(call.await.unwrap().unwrap_err().delivery, Delivery::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_longer_fitted_into_a_full_pipe_moves() {
    let server = Server::new(|_| Plan { pipe: 2048, ..Plan::default() });
    let connection = ready(&server).await;
    let hung = begin(&connection, json!({ "hangs": true }));
    settle().await;
    // The first fills the pipe, the second finds no room.
    let first = begin(&connection, json!({ "effect": "first", "text": "x".repeat(8000) }));
    settle().await;
    let second = begin(&connection, json!({ "effect": "second" }));
    settle().await;
    server.die(killed());
    assert!(hung.await.unwrap().is_err());
    assert_eq!(first.await.unwrap().unwrap_err().delivery, Delivery::Unknown);
    second.await.unwrap().unwrap();
    assert_eq!((server.effects("first"), server.effects("second")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_when_the_death_is_known_but_not_told_is_not_given_to_the_dead() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let other = connection.clone();
    let mut incoming = connection.incoming().unwrap();
    // Wakes in the very moment in which the reader has read its last.
    let call = tokio::spawn(async move {
        incoming.next().await.unwrap();
        work(&other, json!({ "effect": "a" })).await
    });
    settle().await;
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }));
    server.act(Act::Die(killed()));
    call.await.unwrap().unwrap();
    assert_eq!(server.effects("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_safe_call_is_sent_again_and_its_caller_sees_only_the_answer() {
    let server = Server::new(|start| match start {
        1 => Plan::default()
            .on("tools/call", |_| vec![Act::Effect("a".into()), Act::Die(Fault::Exited { code: 1 })]),
        _ => Plan::default(),
    });
    let connection = safe(&server);
    assert_eq!(said(&work(&connection, json!({ "say": 1, "effect": "a" })).await.unwrap()), 1);
    assert_eq!(server.effects("a"), 2);
    let ids: Vec<Value> = server.heard_of("tools/call").iter().map(|h| h.message["id"].clone()).collect();
    assert_ne!(ids[0], ids[1], "under a new id");
}

#[tokio::test(start_paused = true)]
async fn a_safe_call_is_sent_three_times_at_most_under_one_deadline() {
    let server = Server::always(Plan::default());
    let connection = safe(&server);
    let error = work(&connection, json!({ "effect": "a", "dies": true })).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
    assert_eq!(server.effects("a"), 3);

    // Each send dies after 4 s, and the deadline is 10 s.
    let server = Server::always(Plan::default());
    let connection = safe(&server);
    let before = Instant::now();
    let params = json!({ "name": "work", "arguments": { "effect": "a", "ms": 4000, "dies": true } });
    let error = connection.request_within("tools/call", Some(params), Some(secs(10))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(before.elapsed(), secs(10));
    assert_eq!(server.effects("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn no_call_is_sent_again_where_the_operator_wants_none() {
    let server = Server::always(Plan::default().on("tools/list", |_| vec![Act::Die(killed())]));
    let never = regrow::core::Policy { replay: Replay::Never, ..policy() };
    let connection = to(&server).policy(never).build();
    assert!(connection.request("tools/list", None).await.is_err());
    assert_eq!(server.heard_of("tools/list").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_on_the_wire_and_leaves_it_ready() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let beside = begin(&connection, json!({ "ms": 400_000, "say": "beside" }));
    drop(beside);
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "a", "ms": 301_000 })).await.unwrap_err();
    assert_eq!(before.elapsed(), secs(300));
    assert_eq!((error.kind, error.delivery), (ErrorKind::Timeout, Delivery::Unknown));
    sleep(secs(20)).await;
    assert_eq!(state(&connection).name(), "ready");
    let cancelled = server.heard_of("notifications/cancelled");
    assert!(cancelled.iter().all(|heard| heard.at >= secs(300)));
    assert_eq!(cancelled[0].message["params"]["reason"], "timed out");
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left, status.pending), (1, 5, 0));
    assert_eq!(status.anomalies.stray, 1, "the late answer was dropped and counted");
    assert_eq!(server.effects("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_may_have_all_the_time_it_wants() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let params = json!({ "name": "work", "arguments": { "ms": 3 * 3_600_000, "say": 1 } });
    let answer = connection.request_within("tools/call", Some(params), None).await.unwrap();
    assert_eq!(said(&answer), 1);
}

#[tokio::test(start_paused = true)]
async fn a_person_has_an_hour_and_no_more() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let _incoming = connection.incoming().unwrap();
    let before = Instant::now();
    let call = begin(&connection, json!({ "silent": true }));
    settle().await;
    server.say(elicitation(7));
    assert_eq!(call.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(before.elapsed().as_secs(), 3600);
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_deadline_up_to_an_hour() {
    let server = Server::always(Plan::default().on("tools/call", move |call| {
        let token = &call["params"]["_meta"]["progressToken"];
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1 } });
        (0..100).flat_map(|_| [Act::Wait(secs(200)), Act::Say(progress.clone())]).collect()
    }));
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    let seen = tokio::spawn(async move {
        let mut seen = 0;
        while let Some(told) = incoming.next().await {
            assert_eq!(told.frame.progress_token(), Some(&br#""t""#[..]), "the caller's own");
            seen += 1;
        }
        seen
    });
    let before = Instant::now();
    let params = json!({ "name": "work", "_meta": { "progressToken": "t" } });
    let error = connection.request("tools/call", Some(params)).await.unwrap_err();
    assert_eq!((error.kind, before.elapsed().as_secs()), (ErrorKind::Timeout, 3600));
    sleep(secs(1000)).await;
    connection.close().await;
    assert_eq!(seen.await.unwrap(), 17, "progress after the timeout was not handed on");
}

#[tokio::test(start_paused = true)]
async fn too_many_calls_get_a_typed_error_at_once() {
    let server = Server::always(Plan::default());
    let policy = regrow::core::Policy { max_calls: 3, max_pending_bytes: 2000, ..policy() };
    let connection = to(&server).policy(policy).build();
    start(&connection).await;
    settle().await;
    let running: Vec<_> = (0..3).map(|_| begin(&connection, json!({ "ms": 1000 }))).collect();
    settle().await;
    let error = work(&connection, json!({ "effect": "a" })).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Overloaded, Delivery::NotSent));
    for call in running {
        call.await.unwrap().unwrap();
    }
    let large = begin(&connection, json!({ "ms": 1000, "text": "x".repeat(1900) }));
    settle().await;
    let error = work(&connection, json!({ "effect": "a", "text": "x".repeat(100) })).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Overloaded);
    large.await.unwrap().unwrap();
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.effects("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_cap_or_without_sense_is_told_to_its_caller_alone() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        let id = &message["id"];
        let text = match message["params"]["arguments"]["say"].as_str().unwrap() {
            "large" => format!("{{\"result\":\"{}\",\"id\":{id}}}\n", "x".repeat(5000)),
            "broken" => format!("{{\"id\":{id},\"result\":{{]}}\n"),
            "garbage" => format!("Listening on stdio!\n\n{}\n", answer(id, json!({}))),
            _ => format!("{}\n", answer(id, json!({}))),
        };
        vec![Act::Write(text)]
    }));
    let connection = to(&server).max_line(4096).build();
    let large = work(&connection, json!({ "say": "large" })).await.unwrap_err();
    assert!(matches!(large.kind, ErrorKind::TooLarge { bytes: 5001.. }), "{:?}", large.kind);
    assert_eq!(large.delivery, Delivery::Answered);
    let broken = work(&connection, json!({ "say": "broken" })).await.unwrap_err();
    assert_eq!((broken.kind, broken.delivery), (ErrorKind::Malformed, Delivery::Answered));
    work(&connection, json!({ "say": "garbage" })).await.unwrap();
    work(&connection, json!({ "say": "good" })).await.unwrap();
    connection.close().await;
    let status = connection.status().borrow().clone();
    assert_eq!((status.anomalies.too_long, status.anomalies.garbage), (1, 2));
    assert_eq!((status.sessions, status.budget_left), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_waits_for_are_dropped_and_counted() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        let id = &message["id"];
        let good = answer(id, json!({ "got": 1 }));
        let stray = [json!(99_999), json!("no"), json!(-1), Value::Null, json!(1.5)];
        let mut acts: Vec<Act> = stray
            .iter()
            .map(|id| Act::Say(json!({ "id": id, "error": { "code": 1, "message": "" } })))
            .collect();
        acts.extend([Act::Say(good), Act::Say(answer(id, json!({ "got": 2 })))]);
        acts
    }));
    let connection = ready(&server).await;
    assert_eq!(said(&work(&connection, json!({})).await.unwrap()), 1);
    settle().await;
    connection.close().await;
    assert_eq!(connection.status().borrow().anomalies.stray, 6);
}

#[tokio::test(start_paused = true)]
async fn tool_errors_and_json_rpc_errors_never_cost_anything() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        let id = &message["id"];
        vec![Act::Say(match id.as_u64().unwrap() % 2 {
            0 => answer(id, json!({ "isError": true, "content": [] })),
            _ => regrow_testkit::script::refusal(id, -32603, "session not found"),
        })]
    }));
    let connection = ready(&server).await;
    for _ in 0..200 {
        work(&connection, json!({})).await.unwrap();
    }
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn closed_output_and_closed_input_of_a_living_server_are_its_end() {
    let server = Server::new(|_| Plan { stubborn: Stubborn::IgnoresTerm, ..Plan::default() });
    let connection = ready(&server).await;
    let life = Life::of(&connection);
    server.act(Act::CloseOutput);
    until(&connection, |status| status.sessions == 2).await;
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.most_alive(), 1);
    life.check(
        "0.1s the server closed its output but is still running
         0.1s starting the server (session 2)
         0.1s ready (session 2); in-memory state of the old server process is lost",
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_retires_after_every_two_calls_costs_nothing() {
    let answered = Arc::new(Mutex::new(0));
    let server = Server::new(move |_| {
        *answered.lock().unwrap() = 0;
        let answered = answered.clone();
        Plan::default().on("tools/call", move |message| {
            let mut answered = answered.lock().unwrap();
            *answered += 1;
            let mut acts = vec![Act::Effect(message["params"]["arguments"]["say"].to_string())];
            acts.push(Act::Say(answer(&message["id"], json!({ "got": 1 }))));
            if *answered == 2 {
                acts.push(Act::Die(Fault::Exited { code: 0 }));
            }
            acts
        })
    });
    let connection = ready(&server).await;
    for n in 0..40 {
        work(&connection, json!({ "say": n })).await.unwrap();
        settle().await;
    }
    assert_eq!(server.all_effects().len(), 40);
    assert!(server.all_effects().values().all(|&count| count == 1));
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left), (20, 5));
}

#[tokio::test(start_paused = true)]
async fn a_missing_program_is_tried_once_and_named_and_a_call_tries_again() {
    let missing = Fault::NotFound { program: "/no/such".into() };
    let server = Server::new(move |start| match start {
        1 => Plan { cannot_start: Some(missing.clone()), ..Plan::default() },
        _ => Plan::default(),
    });
    let connection = to(&server).build();
    let error = work(&connection, json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("\"/no/such\" was not found"), "{error}");
    assert!(matches!(error.outlook, Outlook::NeedsMending(_)));
    let again = work(&connection, json!({})).await.unwrap_err();
    assert_eq!(again.fault, error.fault, "within ten seconds the same is told");
    sleep(secs(3600)).await;
    assert_eq!(server.starts().len(), 1);
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_number_that_came_back_as_text_is_still_an_answer() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        vec![Act::Say(answer(&json!(message["id"].to_string()), json!({ "got": 1 })))]
    }));
    let connection = ready(&server).await;
    let answered = timeout(secs(1), work(&connection, json!({}))).await;
    assert!(answered.is_ok(), "every client accepts that");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_the_handshake_fails_its_callers_at_the_limit_with_its_last_words() {
    let stderr = vec!["token=hunter22".to_owned(), "waiting for a licence".to_owned()];
    let server = Server::always(Plan { start_delay: secs(9999), stderr, ..Plan::default() });
    let mask = regrow::Mask::new(["hunter22".to_owned()]);
    let connection = to(&server).mask(mask).build();
    let before = Instant::now();
    let error = work(&connection, json!({})).await.unwrap_err();
    assert_eq!(before.elapsed(), secs(60));
    assert_eq!(error.fault.as_deref(), Some(&Fault::HandshakeTimeout { after: secs(60) }));
    assert_eq!(error.stderr, ["token=***", "waiting for a licence"]);
}

#[tokio::test(start_paused = true)]
async fn those_who_share_a_connection_are_not_told_what_its_server_says_on_stderr() {
    let stderr = vec!["Ann's account is locked".to_owned()];
    let server = Server::always(Plan { start_delay: secs(9999), stderr, ..Plan::default() });
    let connection = to(&server).stderr_in_errors(true).no_stderr_in_errors().build();
    let error = connection.request("tools/list", None).await.unwrap_err();
    assert_eq!(error.stderr, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_ends_by_its_deadline_and_names_no_fault_of_yesterday() {
    let server = Server::new(|start| match start {
        1 | 2 => Plan::default(),
        _ => Plan { start_delay: secs(3600), ..Plan::default() },
    });
    let connection = ready(&server).await;
    server.die(killed());
    settle().await;
    work(&connection, json!({})).await.unwrap();
    sleep(secs(3600)).await;
    connection.reconnect(Requester::Person);
    settle().await;
    let before = Instant::now();
    let params = json!({ "name": "work", "arguments": {} });
    let error = connection.request_within("tools/call", Some(params), Some(secs(5))).await.unwrap_err();
    assert_eq!(before.elapsed(), secs(5));
    assert_eq!((error.kind, error.delivery), (ErrorKind::Timeout, Delivery::NotSent));
    assert_eq!(error.fault, None, "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_person_needs_does_not_count() {
    for idle_probe in [Some(secs(60)), None] {
        let server = Server::always(Plan::default());
        let connection = to(&server).policy(regrow::core::Policy { idle_probe, ..policy() }).build();
        start(&connection).await;
        let mut incoming = connection.incoming().unwrap();
        let before = Instant::now();
        let call = begin(&connection, json!({ "silent": true }));
        sleep(secs(100)).await;
        server.say(elicitation(7));
        let asked = incoming.next().await.unwrap();
        // Something else makes the owner look at the clock meanwhile.
        drop(timeout(secs(1), work(&connection, json!({ "silent": true }))).await);
        sleep(secs(999)).await;
        assert!(!call.is_finished());
        connection.respond(&asked, &json!({}));
        assert_eq!(call.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
        assert_eq!(before.elapsed(), secs(1300), "300 s, and 1000 s of a person");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_the_question_of_a_dead_session_does_not_answer_this_one() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    server.say(elicitation(7));
    let old = incoming.next().await.unwrap();
    server.die(killed());
    settle().await;
    until(&connection, |status| status.sessions == 2).await;
    let call = begin(&connection, json!({ "silent": true }));
    settle().await;
    server.say(elicitation(7));
    incoming.next().await.unwrap();
    connection.respond(&old, &json!({}));
    sleep(secs(1000)).await;
    assert!(!call.is_finished(), "a person is still being asked");
}

/// A day at work before the result is there.
fn slow_task() -> Plan {
    Plan::default().on("tasks/result", |message| {
        vec![Act::Wait(secs(86_400)), Act::Say(answer(&message["id"], json!({ "got": "done" })))]
    })
}

#[tokio::test(start_paused = true)]
async fn scenario_54_waiting_for_the_result_of_a_task_has_no_deadline() {
    let server = Server::always(slow_task());
    let connection = ready(&server).await;
    let before = Instant::now();
    let result = connection.request("tasks/result", Some(json!({ "taskId": "t" }))).await.unwrap();
    assert_eq!((said(&result), before.elapsed().as_secs()), (json!("done"), 86_400));
    assert!(server.heard_of("notifications/cancelled").is_empty());
    assert_eq!(server.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_task_is_asked_for_again_after_a_death() {
    let server = Server::always(slow_task());
    let connection = ready(&server).await;
    let waiting = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.request("tasks/result", Some(json!({ "taskId": "t" }))).await })
    };
    sleep(secs(600)).await;
    server.die(killed());
    assert_eq!(said(&waiting.await.unwrap().unwrap()), "done");
    assert_eq!((server.heard_of("tasks/result").len(), server.starts().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_names_a_deadline_for_the_result_of_a_task_gets_it() {
    let server = Server::always(slow_task());
    let connection = ready(&server).await;
    let error = connection.request_within("tasks/result", None, Some(secs(10))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
}
