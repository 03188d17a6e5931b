//! The shortest story: a call, a restart, a call.

use serde_json::json;

use crate::site::{ERAS, Era, Peer, Site};

#[test]
fn a_call_a_restart_a_call() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        site.restart();
        assert_eq!(peer.call_back("count", json!({ "key": "a" })), "2");
        assert_eq!((site.journal.runs("count"), site.journal.starts()), (2, 2));
        peer.leave();
        if era == Era::Legacy {
            assert_eq!(site.journal.deletes().last(), site.journal.sessions().last());
        }
    }
}

#[test]
fn a_client_of_one_era_and_a_server_of_the_other() {
    for (client, server) in [(Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy)] {
        let mut site = Site::new(server, "");
        let mut peer = Peer::greet(site.setup(), client);
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1", "{client:?} before {server:?}");
        site.restart();
        assert_eq!(peer.call_back("count", json!({ "key": "a" })), "2");
        assert_eq!(site.journal.runs("count"), 2);
        peer.leave();
    }
}
