//! Servers of the first version: messages go to an address that a stream names, and answers come on that stream.

use std::time::Duration;

use serde_json::json;

use crate::client::{PATIENCE, Setup};
use crate::evidence::slack;
use crate::site::{Era, Peer, Site};

fn connect(site: &Site) -> Peer {
    let setup = Setup::remote(&format!("http://{}/sse", site.address()), &site.journal);
    Peer::greet(setup.options(&["--call-timeout", "10s"]), Era::Legacy)
}

#[test]
fn calls_and_notifications_come_on_the_one_stream() {
    let site = Site::new(Era::Legacy, "");
    let mut peer = connect(&site);
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    let ids: Vec<u64> =
        (0..10).map(|_| peer.begin_call("count", json!({ "key": "a", "delay_ms": 5 }))).collect();
    for id in ids {
        peer.result(id);
    }
    peer.call("change", json!({}));
    peer.client.wait_for("notifications/tools/list_changed");
    assert_eq!((site.journal.runs("count"), site.journal.requests("initialize")), (11, 1));
    peer.leave();
}

#[test]
fn a_death_in_a_call_is_told_at_once_and_the_next_life_is_found() {
    let mut site = Site::new(Era::Legacy, "");
    let mut peer = connect(&site);
    let id = peer.begin_call("slow", json!({ "ms": 60_000, "key": "a" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
    let killed = site.kill();
    let (_, told) = peer.client.failure(id);
    assert!(killed.elapsed() < Duration::from_secs(3) + slack(), "{:?}", killed.elapsed());
    assert_eq!(told["delivery"], "unknown", "{told}");
    site.start();
    assert_eq!(peer.call_back("count", json!({})), "1");
    assert_eq!(site.journal.runs("slow"), 1);
    peer.leave();
}

#[test]
fn a_forgotten_session_costs_one_handshake() {
    let site = Site::new(Era::Legacy, "");
    let mut peer = connect(&site);
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    site.control("forget=1");
    assert_eq!(peer.call("count", json!({ "key": "a" })), "2");
    assert_eq!((site.journal.runs("count"), site.journal.requests("initialize")), (2, 2));
    peer.assert_nothing_charged();
    peer.leave();
}
