//! SECURITY 19: tools of the same or of confusable names stay apart, whatever order the servers are in.

use serde_json::json;

use crate::guest::{ERAS, Era, Guest};
use crate::house::{Entry, Place, chaos};

#[test]
fn security_19_no_tool_shadows_another_and_order_does_not_matter() {
    let servers: [(&str, Entry); 5] = [
        ("a", chaos("tools=count extra-tool=b__count")),
        ("a__b", chaos("tools=count")),
        ("A", chaos("tools=count")),
        ("\u{430}", chaos("tools=count")), // It looks like the first.
        ("c d", chaos("tools=count")),
    ];
    let place = Place::new(servers.clone());
    let house = place.start();
    let mut guest = Guest::of(&house, Era::Legacy);
    let mut tools = guest.tools();
    tools.sort();
    assert_eq!(tools.len(), 6, "{tools:?}");
    let distinct: std::collections::BTreeSet<_> = tools.iter().collect();
    assert_eq!(distinct.len(), 6, "{tools:?}");
    assert!(tools.iter().all(|tool| tool.is_ascii()), "none looks like another: {tools:?}");
    // Each name runs one tool of one server, and all are reached.
    for tool in &tools {
        guest.call(tool, json!({ "key": tool, "text": "on" }));
    }
    let runs = |server: &str, tool: &str| place.journal(server).runs(tool);
    let others = ["a__b", "A", "\u{430}", "c d"].map(|server| runs(server, "count"));
    assert_eq!((runs("a", "count"), runs("a", "b__count"), others), (1, 1, [1; 4]));
    let (said, _) = guest.failing_call("a__b__count", json!({}));
    assert!(said.contains("a__b__count"), "what might mean two things means nothing: {said}");
    house.end();

    let mut reversed = servers;
    reversed.reverse();
    place.configure(reversed);
    let house = place.start();
    for era in ERAS {
        let mut again = Guest::of(&house, era).tools();
        again.sort();
        assert_eq!(again, tools);
    }
}

#[test]
fn a_page_of_one_server_has_its_own_names_and_no_others() {
    let place = Place::new([("one", chaos("tools=echo")), ("two", chaos("tools=pid"))]);
    let house = place.start();
    let mut guest = Guest::new(&house, Era::Legacy).at("/servers/two/mcp");
    guest.greet();
    assert_eq!(guest.tools(), ["pid"]);
    guest.call("pid", json!({}));
    for tool in ["one__echo", "echo"] {
        guest.failing_call(tool, json!({}));
    }
    assert_eq!(place.journal("one").runs("echo"), 0);
}
