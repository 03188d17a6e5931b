//! A refresh while processes end.

#[cfg(target_os = "linux")]
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use regrow_chaos::issuer::Issuer;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::client::PATIENCE;
use crate::evidence::{kill, wait_until};
use crate::sign_in::{issuer, sign_in};
use crate::site::{Era, Peer, Site};

fn refreshes(issuer: &Issuer) -> usize {
    issuer.grants().iter().filter(|grant| *grant == "refresh_token").count()
}

/// A user who has signed in, and a server that accepts that.
pub(crate) fn signed_in() -> (TempDir, Issuer, Site) {
    signed_in_at(issuer())
}

/// The same at this authorization server.
pub(crate) fn signed_in_at(issuer: Issuer) -> (TempDir, Issuer, Site) {
    let folder = TempDir::new().unwrap();
    let site = Site::new(Era::Legacy, "need-token=access-token-1");
    let login = ["login", &site.url(), "--no-browser", "--issuer", &issuer.origin];
    assert!(sign_in(folder.path(), &login).status.success());
    (folder, issuer, site)
}

pub(crate) fn greet(site: &Site, state: &Path) -> Peer {
    Peer::greet(site.setup().variable("XDG_STATE_HOME", state.to_str().unwrap()), Era::Legacy)
}

pub(crate) fn ask_call(peer: &mut Peer) -> u64 {
    peer.client.ask("tools/call", json!({ "name": "count", "arguments": { "key": "a" } }))
}

#[test]
fn a_refresh_in_flight_is_stored_before_wrap_ends() {
    let (folder, issuer, site) = signed_in();
    let mut peer = greet(&site, folder.path());
    let held = issuer.hold_tokens();
    site.control("need-token=access-token-2");
    ask_call(&mut peer);
    wait_until("it refreshes", PATIENCE, || refreshes(&issuer) == 1);
    kill(peer.client.pid(), Signal::TERM);
    peer.client.wait_for_log(0, "closed");
    drop(held);
    peer.client.wait_for_exit();
    let mut next = greet(&site, folder.path());
    assert_eq!(next.call("count", json!({ "key": "a" })), "1");
    assert_eq!(refreshes(&issuer), 1, "the token was not lost");
}

/// Which process holds the lock of the only account.
#[cfg(target_os = "linux")]
fn holder(state: &Path) -> u32 {
    let accounts = std::fs::read_dir(state.join("regrow/accounts")).unwrap();
    let mut paths = accounts.map(|entry| entry.unwrap().path());
    let lock = paths.find(|path| path.extension().is_some_and(|kind| kind == "lock")).unwrap();
    let inode = format!(":{}", std::fs::metadata(lock).unwrap().ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let mut held = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fields = held.find(|fields| fields[1] == "FLOCK" && fields[5].ends_with(&inode));
    fields.expect("somebody holds the lock")[4].parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn twenty_processes_refresh_once_for_each_expiry_though_some_are_killed() {
    let (folder, issuer, site) = signed_in();
    let mut peers: Vec<Peer> = (0..20).map(|_| greet(&site, folder.path())).collect();
    for round in 1..=3 {
        let held = issuer.hold_tokens();
        site.control(&format!("need-token=access-token-{}", round + 1));
        let mut ids: Vec<u64> = peers.iter_mut().map(ask_call).collect();
        wait_until("one refreshes", PATIENCE, || refreshes(&issuer) == round);
        // What the one that refreshes has been sent would be lost with it.
        let spared = holder(folder.path());
        for _ in 0..3 {
            let victim = peers.iter().position(|peer| peer.client.pid() != spared).unwrap();
            kill(peers[victim].client.pid(), Signal::KILL);
            peers.remove(victim);
            ids.remove(victim);
        }
        drop(held);
        for (peer, id) in peers.iter_mut().zip(ids) {
            let answer = peer.client.answer_within(id, PATIENCE);
            assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
        }
        assert_eq!(refreshes(&issuer), round, "one for all");
    }
    for peer in peers {
        assert!(!peer.log().contains("sign-in"), "{}", peer.log());
    }
}
