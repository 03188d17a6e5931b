//! Helpers that hide from `regrow wrap`, whichever way it has to find them: none outlives its server, or us.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::client::{Client, PATIENCE, Setup};
use crate::evidence::{assert_gone, children_of, command_line, is_running, kill, wait_until, zombies_of};
use crate::runaway::{Mechanism, Runaway, SERVER, guard_knows, wait_until_guard_knows, with_guard};

fn connected(mechanism: Mechanism) -> (Client, Runaway) {
    connected_to(SERVER, mechanism)
}

fn connected_to(server: &str, mechanism: Mechanism) -> (Client, Runaway) {
    let mut client = Setup::plan("")
        .command(&["sh", "-c", server, "{server}"])
        .options(&["--log-level", "debug"])
        .variable("REGROW_CGROUP", mechanism.variable())
        .connect();
    client.wait_for_log(0, mechanism.log_line());
    client.call("echo", json!({ "text": "hello" }));
    let runaway = runaway(&client);
    (client, runaway)
}

/// That of the server that runs now.
fn runaway(client: &Client) -> Runaway {
    Runaway::of(client.journal.dir(), client.server_pid())
}

#[test]
fn security_16_a_helper_that_hides_ends_with_its_server_and_not_before() {
    for mechanism in Mechanism::all() {
        let (mut client, first) = connected(mechanism);
        client.replace_server();
        client.call("echo", json!({ "text": "again" }));
        first.assert_ends("after a crash of its server");
        let second = runaway(&client);
        client.restart();
        client.call("echo", json!({ "text": "and again" }));
        second.assert_ends("after a restart of its server");
        let third = runaway(&client);
        client.leave_cleanly();
        third.assert_ends("with us");
    }
}

#[test]
fn security_16_a_helper_that_hides_ends_when_we_are_told_to_end() {
    for mechanism in Mechanism::all() {
        let (mut client, runaway) = connected(mechanism);
        kill(client.pid(), Signal::TERM);
        assert_eq!(client.wait_for_exit().0, Some(0));
        runaway.assert_ends("after SIGTERM");
    }
}

#[test]
fn security_16_a_helper_that_hides_ends_when_we_are_killed() {
    for mechanism in with_guard() {
        let (mut client, runaway) = connected(mechanism);
        let guards = guards(&client);
        if mechanism == Mechanism::Subreaper {
            wait_until_guard_knows(guards[0], runaway.0);
        }
        kill(client.pid(), Signal::KILL);
        client.wait_for_exit();
        runaway.assert_ends("after SIGKILL");
        assert_gone(&guards, PATIENCE);
    }
}

fn guards(client: &Client) -> Vec<u32> {
    let is_guard = |pid: &u32| command_line(*pid).trim().ends_with(" guard");
    children_of(client.pid()).into_iter().filter(is_guard).collect()
}

#[test]
fn security_16_a_guard_that_is_held_up_kills_all_the_same() {
    if !with_guard().contains(&Mechanism::Cgroup) {
        return;
    }
    let deaf = SERVER.replace("echo $$", "trap \"\" TERM; echo $$");
    let (mut client, runaway) = connected_to(&deaf, Mechanism::Cgroup);
    let guards = guards(&client);
    kill(client.pid(), Signal::KILL);
    client.wait_for_exit();
    // It looks at cgroups only now, and asks before it kills. If we come too late, it was not held up.
    wait_until("the guard knows the helper", PATIENCE, || {
        guard_knows(guards[0], runaway.0) || !is_running(runaway.0)
    });
    kill(guards[0], Signal::STOP);
    std::thread::sleep(Duration::from_millis(4500)); // Longer than it tries.
    kill(guards[0], Signal::CONT);
    runaway.assert_ends("after SIGKILL");
    assert_gone(&guards, PATIENCE);
}

/// Orphans that become our children and end must be reaped by us, and nobody's exit status must be lost over it.
#[test]
fn orphans_that_end_while_their_server_runs_leave_no_zombies() {
    let (mut client, runaway) = connected(Mechanism::Subreaper);
    wait_until("it is our child", PATIENCE, || children_of(client.pid()).contains(&runaway.0));
    kill(runaway.0, Signal::KILL);
    wait_until("it is reaped", PATIENCE, || !children_of(client.pid()).contains(&runaway.0));
    assert!(zombies_of(client.pid()).is_empty());
    client.kill_server();
    client.wait_for_log(0, "the server process was killed by SIGKILL");
    client.wait_for_session(2);
    client.leave_cleanly();
}

/// A host's shell may start something and then become us. That is no server's helper, and stays.
#[test]
fn children_that_we_had_before_we_began_are_left_alone() {
    let mut client = Setup::plan("")
        .after("sleep 300 & echo bystander $! >&2")
        .options(&["--log-level", "debug"])
        .variable("REGROW_CGROUP", "off")
        .connect();
    client.wait_for_log(0, "this process has children that are none of its servers");
    let log = client.log();
    let bystander = log.iter().find_map(|line| line.strip_prefix("bystander ")).unwrap();
    let bystander = Bystander(bystander.parse().unwrap());
    client.replace_server();
    kill(client.pid(), Signal::TERM);
    assert_eq!(client.wait_for_exit().0, Some(0));
    assert!(crate::evidence::is_running(bystander.0));
}

/// Ended with the test.
struct Bystander(u32);

impl Drop for Bystander {
    fn drop(&mut self) {
        kill(self.0, Signal::KILL);
    }
}
