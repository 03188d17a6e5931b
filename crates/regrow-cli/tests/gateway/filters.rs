//! SECURITY 28: tools that the configuration keeps from clients are neither listed nor callable, whatever the server does.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::evidence::kill;
use crate::guest::{ERAS, Era, Guest};
use crate::house::{House, Place, chaos, done};

fn refused(guest: &mut Guest, tool: &str) -> Value {
    let answer = guest.request("tools/call", json!({ "name": tool, "arguments": {} }));
    assert_eq!(answer["error"]["message"], format!("Unknown tool: {tool}"), "{answer}");
    answer["error"]["code"].clone()
}

fn offered(house: &House, server: &str, count: u64) {
    house.wait_where(server, "filtered", |server| server["tools"]["offered"] == count);
}

#[test]
fn security_28_filtered_tools_are_neither_listed_nor_callable() {
    let filter = json!({
        "allow": ["echo", "count", "pid", "late*"],
        "deny": ["pid", "late-*", "typo_*"],
        "rename": { "count": "how_often" },
        "prefix": "x_",
    });
    let plan = "tools=echo|count|pid|set extra-tool=late-one@2- change-tool=pid@2-";
    let old = chaos(&format!("{plan} refuse-discover")).option("tools", filter);
    let new = chaos("tools=echo|count|change modern-only").option("readOnly", true);
    // Held tools must not come back by another way.
    let place = Place::new([("old", old), ("new", new)]).options(&["--pin", "hold"]);
    let house = place.start();
    offered(&house, "old", 2);
    offered(&house, "new", 1);
    let line = house.wait_for_log("no tool of the server fits");
    assert!(line.contains("deny \"typo_*\"") && line.contains("allow \"late*\""), "{line}");

    let look = |life: u32| {
        for era in ERAS {
            let mut guest = Guest::of(&house, era);
            let mut tools = guest.tools();
            tools.sort();
            assert_eq!(tools, ["new__echo", "x_echo", "x_how_often"], "life {life}");
            assert_eq!(guest.call("x_echo", json!({ "text": "hi" })), "hi");
            guest.call("x_how_often", json!({ "key": "k" }));
            let unknown = refused(&mut guest, "x_nothing");
            let hidden =
                ["x_pid", "old__pid", "pid", "x_set", "x_count", "x_late-one", "new__count", "new__change"];
            for tool in hidden {
                assert_eq!(refused(&mut guest, tool), unknown, "{tool}");
            }
        }
    };
    look(1);
    kill(place.pid("old"), Signal::KILL);
    house.wait_where("old", "changed", |server| {
        server["unapproved"].as_array().is_some_and(|all| !all.is_empty())
    });
    house.wait_for_tools("old");
    look(2);
    let runs = |server: &str, tool: &str| place.journal(server).runs(tool);
    assert_eq!((runs("old", "count"), runs("old", "pid"), runs("new", "count")), (4, 0, 0));

    let mut only = Guest::new(&house, Era::Legacy).at("/servers/new/mcp");
    only.greet();
    assert_eq!(only.tools(), ["echo"]);
    refused(&mut only, "count");
    let status = house.server("old")["tools"].clone();
    assert_eq!((&status["prefix"], &status["rename"]["count"]), (&json!("x_"), &json!("how_often")));
    let (_, table, _) = done(&mut place.command(&["status"]));
    assert!(
        table.contains("1 of 3 offered: read-only") && table.contains("deny [pid, late-*, typo_*]"),
        "{table}"
    );
    house.end();
}
