//! What things are called among several servers, and how a request finds the server that it is for.

use std::time::Duration;

use regrow_gateway::Clients::{Many, One};
use regrow_gateway::admit::{Principal, ServerScope};
use serde_json::json;
use tokio::time::Instant;

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

#[tokio::test(start_paused = true)]
async fn with_several_servers_a_name_begins_with_its_server_s_and_with_one_it_is_bare() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = House::new(clients, &[&a, &b]);
        let guest = Guest::legacy(&house.gateway).await;
        let tools = guest.tools().await;
        assert_eq!(tools.len(), 18);
        assert!(["a__echo", "b__echo"].iter().all(|name| tools.iter().any(|tool| tool == name)), "{tools:?}");
        assert_eq!(guest.call("a__echo", "x").await, "a: x");
        assert_eq!(guest.call("b__echo", "x").await, "b: x");
        assert_eq!((a.ran("echo").len(), b.ran("echo").len()), (1, 1));

        let single = House::new(clients, &[&a]);
        let guest = Guest::legacy(&single.gateway).await;
        assert!(guest.tools().await.contains(&"echo".to_owned()));
        assert_eq!(guest.call("echo", "y").await, "a: y");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_one_server_among_several_sees_that_server_as_it_is() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::enter(&house.gateway, &ServerScope::One("b".into()), Principal::default(), false);
    let welcome = guest.greet().await;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "b");
    assert_eq!(guest.tools().await.len(), 9);
    assert_eq!(guest.call("echo", "x").await, "b: x");
    assert_eq!(guest.call("a__echo", "x").await, "b: x", "it may have what it does not list");
    assert_eq!(a.ran("echo").len() + a.ran("a__echo").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn names_that_clash_are_told_apart_the_same_in_any_order_and_each_finds_its_server() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("a__b"));
    a.world().lists.insert("tools/list", vec!["b__c".into()]);
    b.world().lists.insert("tools/list", vec!["c".into()]);
    let mut seen = vec![];
    for order in [[&a, &b], [&b, &a]] {
        let house = House::new(Many, &order);
        let guest = Guest::legacy(&house.gateway).await;
        let mut tools = guest.tools().await;
        tools.sort();
        assert_eq!(tools.len(), 2, "{tools:?}");
        let mut said = vec![guest.call(&tools[0], "x").await, guest.call(&tools[1], "x").await];
        seen.push((tools.clone(), said.clone()));
        said.sort();
        assert_eq!(said, ["a: x", "a__b: x"]);
        assert!(guest.call("a__b__c", "x").await.contains("Unknown tool"), "nobody has the plain name");
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(start_paused = true)]
async fn pages_of_servers_are_drained_and_pages_are_offered_to_clients() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    for fake in [&a, &b] {
        fake.world().lists.insert("tools/list", (0..900).map(|n| format!("tool{n:04}")).collect());
    }
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::modern(&house.gateway);
    let (mut names_seen, first) = guest.list("tools/list").await;
    assert_eq!(a.count("tools/list"), 9, "a hundred at a time");
    assert_eq!(names_seen.len(), 1000);
    let cursor = &first["result"]["nextCursor"];
    let second = guest.ask("tools/list", json!({ "cursor": cursor })).await;
    assert!(second["result"]["nextCursor"].is_null());
    names_seen.extend(names(&second));
    names_seen.sort();
    names_seen.dedup();
    assert_eq!(names_seen.len(), 1800);
    let wrong = guest.ask("tools/list", json!({ "cursor": "nonsense" })).await;
    assert_eq!(wrong["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn prompts_and_what_completes_them_find_their_server_under_its_own_names() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    for guest in [Guest::legacy(&house.gateway).await, Guest::modern(&house.gateway)] {
        assert_eq!(guest.list("prompts/list").await.0, ["a__greet", "b__greet"]);
        let got = guest.ask("prompts/get", json!({ "name": "b__greet" })).await;
        assert_eq!(got["result"]["description"], "b: greet");
        for (reference, said) in [
            (json!({ "type": "ref/prompt", "name": "b__greet" }), "b: greet"),
            (json!({ "type": "ref/prompt", "name": "a__greet" }), "a: greet"),
            (json!({ "type": "ref/resource", "uri": "a://file/{path}" }), "a: a://file/{path}"),
        ] {
            let params = json!({ "ref": reference, "argument": { "name": "x", "value": "y" } });
            let got = guest.ask("completion/complete", params).await;
            assert_eq!(got["result"]["completion"]["values"][0], said);
        }
        let params = json!({ "ref": { "type": "ref/prompt", "name": "c__greet" } });
        assert_eq!(guest.ask("completion/complete", params).await["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn security_25_resources_are_read_where_they_are_listed_or_claimed_and_nowhere_else() {
    let (a, b, c) = (Fake::legacy("a"), Fake::modern("b"), Fake::legacy("c"));
    let house = House::new(Many, &[&a, &b, &c]);
    let guest = Guest::legacy(&house.gateway).await;
    assert_eq!(guest.list("resources/list").await.0, ["a://listed", "b://listed", "c://listed"]);
    assert_eq!(guest.list("resources/templates/list").await.0.len(), 3);
    let read = |uri: &str| guest.ask("resources/read", json!({ "uri": uri }));
    assert_eq!(read("b://listed").await["result"]["contents"][0]["text"], "b: b://listed");
    assert_eq!((a.count("resources/read"), c.count("resources/read")), (0, 0));
    assert_eq!(read("c://file/x").await["result"]["contents"][0]["text"], "c: c://file/x");
    assert_eq!(
        (a.count("resources/read"), b.count("resources/read")),
        (0, 1),
        "its template says whose it is"
    );
    assert_eq!(read("c://elsewhere").await["error"]["code"], -32002);
    assert_eq!(
        read("regrow://c/c%3A%2F%2Felsewhere").await["result"]["contents"][0]["text"],
        "c: c://elsewhere"
    );
    assert_eq!(
        read("c://elsewhere").await["result"]["contents"][0]["text"],
        "c: c://elsewhere",
        "it has returned it"
    );
    assert_eq!((a.count("resources/read"), b.count("resources/read")), (0, 1));
    assert_eq!(read("d://nowhere").await["error"]["code"], -32002);
}

#[tokio::test(start_paused = true)]
async fn a_uri_that_two_servers_list_has_a_name_for_each() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    b.world().lists.insert("resources/list", vec!["a://listed".into()]);
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    let listed = guest.list("resources/list").await.0;
    assert_eq!(listed, ["regrow://a/a%3A%2F%2Flisted", "regrow://b/a%3A%2F%2Flisted"]);
    guest.ask("resources/read", json!({ "uri": listed[1] })).await;
    assert_eq!(a.count("resources/read"), 0);
    assert_eq!(b.heard_of("resources/read")[0]["params"]["uri"], "a://listed");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_asked_for_where_it_runs() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(One, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    for name in ["a", "b"] {
        let params = json!({ "name": format!("{name}__task"), "arguments": {}, "task": { "ttl": 1 } });
        let begun = guest.ask("tools/call", params).await;
        let task = &begun["result"]["task"]["taskId"];
        assert_eq!(*task, format!("{name}-task"));
        let got = guest.ask("tasks/get", json!({ "taskId": task })).await;
        assert_eq!(got["result"]["at"], *name);
    }
    assert_eq!(guest.ask("tasks/get", json!({ "taskId": "c-task" })).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_server_that_has_not_listed_yet_waits_for_it_and_takes_no_longer_than_a_call_may() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
        b.world().start_takes = Duration::from_secs(3);
        let house = House::with(clients, &[&a, &b], |options| {
            options.call_timeout = Some(Duration::from_secs(10));
        });
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.call("b__echo", "early").await, "b: early");
        assert!(guest.call("b__nothing", "x").await.contains("nothing"), "its server says so");
        let start = Instant::now();
        let hangs = guest.begin(7, "b__hang", json!({})).end().await;
        assert_eq!((&hangs["failed"], start.elapsed().as_secs()), (&json!("Timeout"), 10));
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_offers_is_refused_by_name_and_reaches_no_server() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    b.world().is_broken = true;
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    assert!(guest.call("c__echo", "x").await.contains("Unknown tool: c__echo"));
    let start = Instant::now();
    let refused = guest.ask("tools/call", json!({ "name": "b__echo" })).await;
    assert_eq!((&refused["failed"], &refused["delivery"]), (&json!("Unavailable"), &json!("NotSent")));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(guest.ask("no/such", json!({})).await["error"]["code"], -32601);
    assert_eq!(a.count("tools/call") + a.count("no/such"), 0);
}

#[tokio::test(start_paused = true)]
async fn security_21_a_task_is_only_for_the_client_that_began_it() {
    let a = Fake::legacy("a");
    let house = House::new(Many, &[&a]);
    let (owner, other) = (Guest::legacy(&house.gateway).await, Guest::legacy(&house.gateway).await);
    let begun =
        owner.ask("tools/call", json!({ "name": "task", "arguments": {}, "task": { "ttl": 1 } })).await;
    let task = json!({ "taskId": begun["result"]["task"]["taskId"] });
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(other.ask(method, task.clone()).await["error"]["code"], -32602, "{method}");
        assert_eq!(a.count(method), 0, "{method}: the server is not asked");
    }
    assert_eq!(owner.ask("tasks/get", task).await["result"]["at"], "a");
    assert_eq!(
        owner.ask("tasks/list", json!({})).await["refused"],
        true,
        "it would show those of all clients"
    );
}
