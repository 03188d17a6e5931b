//! Helpers that hide from a gateway with several servers: each ends when every server that may have started it has ended.

use rustix::process::Signal;
use serde_json::json;

use crate::client::PATIENCE;
use crate::evidence::{assert_gone, children_of, command_line, is_running, kill, wait_until};
use crate::house::{Entry, House, Place, REGROW, chaos};
use crate::runaway::{Mechanism, Runaway, SERVER, wait_until_guard_knows, with_guard};

fn with_runaway() -> Entry {
    let server = chaos("").member("command", "sh").member("args", json!(["-c", SERVER, REGROW]));
    server.option("era", "legacy")
}

fn start(place: Place, mechanism: Mechanism) -> (Place, House) {
    let place = place.options(&["--log-level", "debug"]).variable("REGROW_CGROUP", mechanism.variable());
    let house = place.start();
    house.wait_for_log(mechanism.log_line());
    (place, house)
}

fn runaway(place: &Place, server: &str) -> Runaway {
    Runaway::of(place.journal(server).dir(), place.pid(server))
}

fn kill_server(place: &Place, house: &House, server: &str) {
    let pid = place.pid(server);
    kill(pid, Signal::KILL);
    wait_until("the next one runs", PATIENCE, || place.pid(server) != pid);
    house.wait_for_tools(server);
}

#[test]
fn security_16_a_helper_that_hides_from_a_gateway_ends_with_its_server() {
    for mechanism in Mechanism::all() {
        let (place, house) = start(Place::new([("one", with_runaway())]), mechanism);
        house.wait_for_tools("one");
        let first = runaway(&place, "one");
        kill_server(&place, &house, "one");
        first.assert_ends("after a crash of its server");
        let second = runaway(&place, "one");
        house.end();
        second.assert_ends("with the gateway");
    }
}

#[test]
fn security_16_a_helper_that_hides_among_several_servers_is_never_guessed_at() {
    for mechanism in Mechanism::all() {
        let (place, house) = start(Place::new([("one", with_runaway())]), mechanism);
        house.wait_for_tools("one");
        let of_one = runaway(&place, "one");
        // A second server, which starts when the first has its helper. What that one starts may be of either.
        place.configure([("one", with_runaway()), ("two", with_runaway())]);
        house.signal(Signal::HUP);
        house.wait_for_tools("two");
        let of_two = runaway(&place, "two");
        kill_server(&place, &house, "two");
        if mechanism == Mechanism::Cgroup {
            of_two.assert_ends("after a crash of its server");
        } else {
            house.wait_for_log(&format!("pid={}", of_two.0));
            assert!(is_running(of_two.0), "it may be of a server that runs");
        }
        assert!(is_running(of_one.0), "its server runs");
        kill_server(&place, &house, "one");
        of_one.assert_ends("after a crash of its server");
        of_two.assert_ends("when every server that may have started it has ended");
        let last = ["one", "two"].map(|server| runaway(&place, server));
        house.end();
        last.iter().for_each(|runaway| runaway.assert_ends("with the gateway"));
    }
}

#[test]
fn security_16_helpers_that_hide_end_when_their_gateway_is_killed() {
    for mechanism in with_guard() {
        let servers = [("one", with_runaway()), ("two", with_runaway())];
        let (place, mut house) = start(Place::new(servers), mechanism);
        let runaways = ["one", "two"].map(|server| {
            house.wait_for_tools(server);
            runaway(&place, server)
        });
        let mut guards = children_of(house.pid());
        guards.retain(|pid| command_line(*pid).trim().ends_with(" guard"));
        if mechanism == Mechanism::Subreaper {
            runaways.iter().for_each(|runaway| wait_until_guard_knows(guards[0], runaway.0));
        }
        house.signal(Signal::KILL);
        house.wait_for_exit();
        runaways.iter().for_each(|runaway| runaway.assert_ends("after SIGKILL"));
        assert_gone(&guards, PATIENCE);
    }
}

#[test]
fn no_cgroup_of_a_server_is_left() {
    if !Mechanism::all().contains(&Mechanism::Cgroup) {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let (place, mut house) = start(Place::new([("one", with_runaway())]), Mechanism::Cgroup);
        house.wait_for_tools("one");
        let line = house.wait_for_log(Mechanism::Cgroup.log_line());
        let below = line.rsplit_once("below ").unwrap().1.to_owned();
        let name = std::fs::read_to_string(format!("/proc/{}/cgroup", place.pid("one"))).unwrap();
        let name = name.trim().rsplit('/').next().unwrap().to_owned();
        assert!(name.starts_with("regrow-"), "{name}");
        let folder = std::path::Path::new(&below).join(name);
        assert!(folder.is_dir(), "{folder:?}");
        house.signal(signal);
        house.wait_for_exit();
        wait_until("its group is removed", PATIENCE, || !folder.exists());
    }
}
