//! SECURITY 20 and 25: members that readers take for others, items that strict readers refuse, and a template for everything.

use serde_json::json;

use crate::client::{PATIENCE, text};
use crate::guest::{Era, Guest};
use crate::house::{Place, chaos};

#[test]
fn security_20_no_member_that_resembles_another_reaches_a_server() {
    let place = Place::new([("one", chaos("refuse-discover ignore-case"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut victim, attacker] = [Era::Legacy; 2].map(|era| Guest::of(&house, era));
    let mut waiting = victim.begin_call("slow", json!({ "ms": 1500 }));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("slow") == 1));
    let echo = r#""name":"echo","arguments":{"text":"mine"}"#;
    for (params, more) in [
        (echo, r#","ID":1"#),
        (echo, r#","METHOD":"tools/list""#),
        (echo, r#","id":3"#),
        (echo, r#","Params":{"name":"count"}"#),
        (echo, ",\"\u{ff49}d\":1"),
        (echo, ",\"i\u{200b}d\":1"),
        (echo, r#","id\u0000":1"#),
        (r#""name":"echo","NAME":"count","arguments":{}"#, ""),
        (r#""name":"echo","name":"count","arguments":{}"#, ""),
        (r#""name":"echo","_meta":{"progressToken":1,"progresstoken":2}"#, ""),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{params}}}{more}}}"#);
        let said = attacker.post_text(&body);
        assert!(said.contains("-32600"), "{body}: {said}");
    }
    for (method, params) in [
        ("resources/read", r#""uri":"chaos://life","URI":"chaos://other""#),
        ("resources/read", r#""uri":"chaos://life","ur\u00ad\u0069":"chaos://other""#),
        ("completion/complete", r#""ref":{"type":"ref/prompt","name":"x"},"Ref":{},"argument":{}"#),
        ("tasks/get", r#""taskId":"1","taskid":"2""#),
        ("tools/list", r#""cursor":"1","cur\u017For":"2""#),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{{params}}}}}"#);
        let said = attacker.post_text(&body);
        assert!(said.contains("-32600"), "{body}: {said}");
    }
    let journal = place.journal("one");
    assert_eq!((journal.runs("echo"), journal.runs("count")), (0, 0), "{:?}", journal.lines());
    assert_eq!(journal.requests("resources/read"), 0);
    assert_eq!(text(&waiting.answer()), "slow");

    // What resembles nothing is left out and counted.
    let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{echo}}},"x":1}}"#);
    assert!(attacker.post_text(&body).contains("mine"));
    house.wait_where("one", "counted", |server| server["oddities"]["droppedMembers"] == 1);
}

#[test]
fn security_25_a_tool_that_a_strict_reader_refuses_is_left_out_and_the_rest_is_served() {
    let place = Place::new([("odd", chaos("refuse-discover odd-tools")), ("good", chaos("refuse-discover"))]);
    let house = place.start();
    for server in ["odd", "good"] {
        house.wait_for_tools(server);
    }
    let mut guest = Guest::of(&house, Era::Legacy);
    let tools = guest.tools();
    let refused = ["deep", "surrogate", "infinite", "nnn"];
    assert!(tools.iter().all(|tool| !refused.iter().any(|name| tool.contains(name))), "{tools:?}");
    assert_eq!(guest.call("odd__echo", json!({ "text": "odd" })), "odd");
    assert_eq!(guest.call("good__echo", json!({ "text": "good" })), "good");
    let told = house.server("odd")["catalog"]["tools"]["leftOut"].clone();
    let told = told.as_str().expect("it is told in the status");
    assert!(told.starts_with("left out 4: ") && refused.iter().all(|name| told.contains(name)), "{told}");
    house.wait_for_log("tools/list: left out 4: ");
    assert!(house.server("good")["catalog"]["tools"]["leftOut"].is_null());
}

#[test]
fn security_25_a_template_for_everything_takes_nothing_from_others() {
    let (greedy, good) =
        (|| ("greedy", chaos("refuse-discover catch-all")), || ("good", chaos("refuse-discover")));
    for servers in [[greedy(), good()], [good(), greedy()]] {
        let place = Place::new(servers);
        let house = place.start();
        for server in ["greedy", "good"] {
            house.wait_for_tools(server);
        }
        let mut guest = Guest::of(&house, Era::Legacy);
        let mut read = |uri: &str| guest.request("resources/read", json!({ "uri": uri }));
        assert_eq!(read("chaos://life")["result"]["contents"][0]["text"], "1", "the one that lists it");
        assert_eq!(read("chaos://other")["error"]["code"], -32002, "nobody has it");
        let caught = read("regrow://greedy/chaos%3A%2F%2Fother");
        assert_eq!(caught["result"]["contents"][0]["text"], "caught", "named, it is asked");
        assert_eq!(place.journal("greedy").requests("resources/read"), 1);
    }
}
