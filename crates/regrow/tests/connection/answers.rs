//! Responses in a form that no specification knows: delivered or failed at once, never left to the deadline.

use std::time::Duration;

use regrow::ErrorKind;
use regrow::core::Delivery;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::{begin, ready, said, secs, settle, work};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// Answers each call with this line, in which `ID` stands for the call's id.
fn writes(line: &'static str) -> Server {
    Server::always(Plan::default().on("tools/call", move |message| {
        vec![Act::Write(line.replace("ID", &message["id"].to_string()) + "\n")]
    }))
}

#[tokio::test(start_paused = true)]
async fn an_id_in_another_form_is_still_the_id() {
    for line in [
        r#"{"jsonrpc":"2.0","id":ID.0,"result":{"got":1}}"#,
        r#"{"jsonrpc":"2.0","id":IDe0,"result":{"got":1}}"#,
        r#"{"jsonrpc":"2.0","id":"ID","result":{"got":1}}"#,
        r#"[{"jsonrpc":"2.0","id":ID.0,"result":{"got":1}}]"#,
    ] {
        let connection = ready(&writes(line)).await;
        let answered = timeout(secs(1), work(&connection, json!({}))).await;
        assert_eq!(said(&answered.expect(line).unwrap()), 1, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_nobody_can_read_for_certain_fails_its_call_at_once() {
    for line in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID.0,"result":{},"id":"ID"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":ID}]"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"cut"#,
    ] {
        let connection = ready(&writes(line)).await;
        let failed = timeout(secs(1), work(&connection, json!({}))).await;
        let error = failed.expect(line).unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Malformed, Delivery::Answered), "{line}");
        connection.close().await;
        assert_eq!(connection.status().borrow().anomalies.garbage, 1, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_to_one_of_two_calls_fails_both_and_either_may_have_run() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        let id = message["id"].as_u64().unwrap();
        match message["params"]["arguments"]["say"] == "both" {
            true => vec![Act::Write(format!("{{\"id\":{},\"id\":{id},\"result\":{{}}}}\n", id - 1))],
            false => vec![],
        }
    }));
    let connection = ready(&server).await;
    let began = Instant::now();
    let first = begin(&connection, json!({}));
    settle().await;
    let second = work(&connection, json!({ "say": "both" })).await.unwrap_err();
    let first = first.await.unwrap().unwrap_err();
    assert!(began.elapsed() < secs(1));
    for error in [first, second] {
        assert_eq!((error.kind, error.delivery), (ErrorKind::Malformed, Delivery::Unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn several_messages_on_one_line_are_read_one_by_one() {
    let tail = |text: &'static str| {
        Server::always(Plan::default().on("tools/call", move |message| {
            let id = message["id"].as_u64().unwrap();
            if message["params"]["arguments"]["say"] != "both" {
                return vec![];
            }
            let (first, second) =
                (answer(&json!(id - 1), json!({ "got": 1 })), answer(&json!(id), json!({ "got": 2 })));
            vec![Act::Write(format!("{first}{text}{second}\n"))]
        }))
    };
    for between in ["", " ", "\t", r#"{"level":"info"}"#, "[]", "1 "] {
        let connection = ready(&tail(between)).await;
        let first = begin(&connection, json!({}));
        settle().await;
        let second = timeout(secs(1), work(&connection, json!({ "say": "both" }))).await;
        assert_eq!(said(&second.expect("in time").unwrap()), 2, "{between:?}");
        assert_eq!(said(&first.await.unwrap().unwrap()), 1, "{between:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_counts_whatever_follows_it_on_its_line() {
    let connection = ready(&writes(r#"{"jsonrpc":"2.0","id":ID,"result":{"got":1}} done in 3 ms"#)).await;
    let answered = timeout(Duration::from_secs(1), work(&connection, json!({}))).await;
    assert_eq!(said(&answered.expect("in time").unwrap()), 1);
    connection.close().await;
    assert_eq!(connection.status().borrow().anomalies.garbage, 1);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_request_of_the_server_is_refused_and_does_not_answer_a_call_of_the_same_id() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        let id = &message["id"];
        let request = format!("{{\"id\":{id},\"method\":\"ping\",\"method\":\"ping\"}}\n");
        vec![Act::Write(request), Act::Say(answer(id, json!({ "got": 1 })))]
    }));
    let connection = ready(&server).await;
    assert_eq!(said(&work(&connection, json!({})).await.unwrap()), 1);
    settle().await;
    let heard = server.heard().into_iter().map(|heard| heard.message);
    let refusals: Vec<Value> = heard.filter(|message| message["error"]["code"] == -32600).collect();
    assert_eq!(refusals.len(), 1);
}
