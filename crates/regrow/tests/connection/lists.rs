//! After a restart the lists are compared, and the client hears of a change only where there is one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::Fault;
use regrow::{Connection, IncomingMessages};
use regrow_testkit::script::{Act, Plan, answer, refusal};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::timeout;

const CHANGED: &str = "notifications/tools/list_changed";

fn changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": CHANGED })
}

/// What comes in within this time.
async fn heard(incoming: &mut IncomingMessages, within: Duration) -> Vec<String> {
    let mut methods = vec![];
    let _ = timeout(within, async {
        while let Some(message) = incoming.next().await {
            methods.push(message.frame.method().unwrap_or_default().to_owned());
        }
    })
    .await;
    methods
}

/// A client that has listed the tools of the first start, and meets the second.
async fn after_restart(first: Plan, second: Plan) -> (Server, Connection, IncomingMessages) {
    let server = Server::new(move |start| if start == 1 { first.clone() } else { second.clone() });
    let connection = ready(&server).await;
    let incoming = connection.incoming().unwrap();
    connection.request("tools/list", None).await.unwrap();
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    (server, connection, incoming)
}

#[tokio::test(start_paused = true)]
async fn other_tools_are_told_once_and_the_same_tools_not_at_all() {
    let two = Plan { tools: vec!["add", "sub"], ..Plan::default() };
    let turned = Plan { tools: vec!["sub", "add"], ..Plan::default() };
    let one = Plan { tools: vec!["add"], ..Plan::default() };
    let cases = [(&two, &one, 1), (&one, &two, 1), (&two, &turned, 0), (&one, &one, 0)];
    for (first, second, notices) in cases {
        let (_, connection, mut incoming) = after_restart(first.clone(), second.clone()).await;
        assert_eq!(heard(&mut incoming, secs(10)).await, vec![CHANGED; notices]);
        settle().await;
        assert_eq!(connection.status().borrow().pending, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_who_listed_nothing_is_told_of_lists() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    settle().await;
    assert_eq!(server.heard_of("tools/list").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cries_change_at_every_start_is_checked() {
    let cries = Plan::default().on("notifications/initialized", |_| vec![Act::Say(changed())]);
    let (server, _connection, mut incoming) = after_restart(cries.clone(), cries.clone()).await;
    let told = heard(&mut incoming, secs(10)).await;
    assert_eq!(told, [CHANGED], "that of the first start, which nobody could check");
    server.say(changed());
    assert_eq!(heard(&mut incoming, secs(10)).await, [CHANGED], "later it is handed on");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_cried_while_the_session_is_still_restored_is_checked_too() {
    let cries = Plan::default().on("notifications/initialized", |_| vec![Act::Say(changed())]);
    let slow =
        cries.on("logging/setLevel", |m| vec![Act::Wait(secs(1)), Act::Say(answer(&m["id"], json!({})))]);
    let server = Server::always(slow);
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    connection.request("tools/list", None).await.unwrap();
    connection.request("logging/setLevel", Some(json!({ "level": "debug" }))).await.unwrap();
    assert_eq!(
        heard(&mut incoming, secs(1)).await,
        [CHANGED],
        "that of the first start, which nobody could check"
    );
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    assert!(heard(&mut incoming, secs(10)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cries_change_again_and_again_is_looked_at_as_rarely_as_ever() {
    let cries = Plan::default().on("notifications/initialized", |_| {
        (0..5).flat_map(|_| [Act::Say(changed()), Act::Wait(millis(20))]).collect()
    });
    let (server, _connection, mut incoming) = after_restart(Plan::default(), cries).await;
    assert_eq!(heard(&mut incoming, secs(10)).await, [""; 0]);
    assert!(server.heard_of("tools/list").len() <= 1 + 1 + 2, "the client's, ours, and two more");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_while_it_is_looked_at_has_changed_nothing() {
    let cries = Plan::default().on("notifications/initialized", |_| vec![Act::Say(changed())]);
    let mute = cries.clone().on("tools/list", |_| vec![]);
    let server = Server::new(move |start| match start {
        1 => Plan::default(),
        2 => mute.clone(),
        _ => cries.clone(),
    });
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    connection.request("tools/list", None).await.unwrap();
    for session in [2, 3, 4] {
        server.die(Fault::Killed { signal: 9 });
        until(&connection, |status| status.sessions == session).await;
        // Some die while they are asked, some after that.
        tokio::time::sleep(millis(100 * session)).await;
    }
    assert_eq!(heard(&mut incoming, secs(10)).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_listed_now_is_not_called_a_change() {
    let refuses = Plan::default().on("tools/list", |m| vec![Act::Say(refusal(&m["id"], -32603, "later"))]);
    let (server, _connection, mut incoming) = after_restart(Plan::default(), refuses).await;
    assert!(heard(&mut incoming, secs(10)).await.is_empty());
    server.say(changed());
    assert_eq!(heard(&mut incoming, secs(10)).await, [CHANGED]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_compared_one_by_one() {
    let paged = |last: &'static str| {
        Plan::default().on("tools/list", move |message| {
            let result = match message["params"]["cursor"].as_str() {
                None => json!({ "tools": [{ "name": "a" }], "nextCursor": "2" }),
                Some(_) => json!({ "tools": [{ "name": last }] }),
            };
            vec![Act::Say(answer(&message["id"], result))]
        })
    };
    for (second, notices) in [("b", 0), ("c", 1)] {
        let server = Server::new(move |start| paged(if start == 1 { "b" } else { second }));
        let connection = ready(&server).await;
        let mut incoming = connection.incoming().unwrap();
        connection.request("tools/list", None).await.unwrap();
        connection.request("tools/list", Some(json!({ "cursor": "2" }))).await.unwrap();
        server.die(Fault::Killed { signal: 9 });
        until(&connection, |status| status.sessions == 2).await;
        assert_eq!(heard(&mut incoming, secs(10)).await, vec![CHANGED; notices]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_is_handed_on_as_it_came() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    connection.request("tools/list", None).await.unwrap();
    for _ in 0..100 {
        server.say(changed());
    }
    assert_eq!(heard(&mut incoming, secs(1)).await.len(), 100);
    assert_eq!(server.heard_of("tools/list").len(), 1, "the client lists, not we");
}

#[tokio::test(start_paused = true)]
async fn a_change_after_the_list_was_read_is_not_lost_among_the_comparisons() {
    // The prompts take their time, and the tools change meanwhile.
    let tools = Arc::new(Mutex::new("old"));
    let offered = tools.clone();
    let server = Server::new(move |start| {
        let (offered, wait) = (offered.clone(), if start == 1 { secs(0) } else { secs(5) });
        Plan::default()
            .on("tools/list", move |message| {
                let tools = json!({ "tools": [{ "name": *offered.lock().unwrap() }] });
                vec![Act::Say(answer(&message["id"], tools))]
            })
            .on("prompts/list", move |message| {
                vec![Act::Wait(wait), Act::Say(answer(&message["id"], json!({ "prompts": [] })))]
            })
    });
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    connection.request("tools/list", None).await.unwrap();
    connection.request("prompts/list", None).await.unwrap();
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    tokio::time::sleep(secs(2)).await;
    *tools.lock().unwrap() = "new";
    server.say(changed());
    assert_eq!(heard(&mut incoming, secs(10)).await, [CHANGED]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_keeps_nothing_back_for_ever_and_kills_nobody() {
    let silent = Plan::default().on("tools/list", |_| vec![]);
    let (server, connection, mut incoming) = after_restart(Plan::default(), silent).await;
    server.say(changed());
    assert_eq!(heard(&mut incoming, secs(61)).await, [CHANGED]);
    assert_eq!(connection.status().borrow().sessions, 2);
    work(&connection, json!({})).await.unwrap();
}
