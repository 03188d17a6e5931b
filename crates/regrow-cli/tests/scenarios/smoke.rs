//! The shortest story: a call, a death, a call.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::client::Setup;
use crate::evidence::{kill, slack};

#[test]
fn a_call_a_death_a_call() {
    let mut client = Setup::plan("").connect();
    assert_eq!(client.call("echo", json!({ "text": "one" })), "one");
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "killed by SIGKILL");
    assert_eq!(client.call("echo", json!({ "text": "two" })), "two");
    assert_eq!(client.journal.starts(), 2);
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2) + slack(), "{took:?}");
    client.marked.assert_none_left(Duration::from_secs(5));
}
