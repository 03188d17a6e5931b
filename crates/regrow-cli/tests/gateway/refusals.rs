//! Scenario 44 behind `serve`: a server refuses the calls of one client as if it had forgotten the session that all share.

use serde_json::json;

use crate::client::{PATIENCE, is_failure, text};
use crate::guest::{Era, Guest};
use crate::house::{Place, remote};
use crate::site::{self, Site};

#[test]
fn scenario_44_calls_of_other_clients_survive_that_one_tool_is_refused() {
    let site = Site::new(site::Era::Legacy, "");
    let place = Place::new([("one", remote(&site.url()).option("era", "legacy"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut first, mut second] = [0; 2].map(|_| Guest::of(&house, Era::Legacy));
    assert_eq!(first.call("count", json!({ "key": "a" })), "1");
    let mut slow = second.begin_call("slow", json!({ "ms": 3000, "key": "b" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
    site.control("status=404 on=tools/call#echo");
    for _ in 0..8 {
        let (said, fault) = first.failing_call("echo", json!({ "text": "x" }));
        assert_eq!(
            (&fault["httpStatus"], &fault["delivery"]),
            (&json!(404), &json!("unknown")),
            "{said}: {fault}"
        );
    }
    let answer = slow.answer();
    assert!(!is_failure(&answer), "{answer}");
    assert_eq!((text(&answer), site.journal.runs("slow")), ("slow".to_owned(), 1));
    assert_eq!(second.call("count", json!({ "key": "a" })), "2");
    assert_eq!((site.journal.refused(404).len(), site.journal.requests("initialize")), (9, 2));
    assert_eq!(house.server("one")["state"], "ready", "{}", house.server("one"));
    house.end();
}
