//! Servers that die: idle, in a call, before a call, again and again.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::{AT_ONCE, AWAY, PATIENCE, PLENTY, SOON, ten_calls, waits, well};
use crate::processes::{is_dead, signal};
use crate::suite::driver::{Outcome, Task};
use crate::suite::stage::{Stage, Step, short};
use crate::suite::verdict::{Group, Verdict};

/// How many calls run when the server dies.
const CALLS: usize = 20;
/// How long a crash loop is watched, and how many starts that is worth.
const LOOP: Duration = Duration::from_secs(8);
const MOST_STARTS: usize = 12;

fn kill_server(stage: &mut Stage<'_>) {
    let pid = stage.server();
    signal(pid, Signal::KILL);
    stage.wait(PATIENCE, |_| is_dead(pid));
}

pub(crate) fn killed_idle(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    well(stage);
    kill_server(stage);
    stage.notices();
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn exits_idle(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let pid = stage.server();
    stage.control("exit-after-calls=1")?;
    well(stage);
    stage.wait(PATIENCE, |_| is_dead(pid));
    stage.control("")?;
    stage.notices();
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn dies_in_call(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let arguments = json!({ "key": "lost", "when": "during", "how": "kill" });
    let ticket = stage.call("die", arguments, PLENTY);
    let answer = stage.ends(ticket, AT_ONCE, "a call whose server dies ends at once");
    stage.tells_of_loss(answer.as_ref());
    stage.recovers(SOON);
    stage.ran_once("die", "lost");
    Ok(())
}

pub(crate) fn dead_on_arrival(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    kill_server(stage);
    let ticket = stage.call("count", json!({ "key": "first" }), SOON);
    stage.succeeds(Group::Recovers, ticket, SOON, "the first call after a death succeeds");
    stage.ran_once("count", "first");
    Ok(())
}

pub(crate) fn away(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    well(stage);
    stage.control("exit-at-start=1")?;
    kill_server(stage);
    let ticket = stage.call("count", json!({ "key": "patient" }), SOON);
    std::thread::sleep(AWAY);
    stage.control("")?;
    waits(stage, ticket);
    stage.ran_once("count", "patient");
    Ok(())
}

pub(crate) fn crash_loop(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.control("crash-after-handshake")?;
    kill_server(stage);
    stage.watch(LOOP, |stage| stage.new_lives() > MOST_STARTS);
    let starts = stage.new_lives();
    let verdict = Verdict::of(starts <= MOST_STARTS, || {
        format!("it was started more than {MOST_STARTS} times in {} s", LOOP.as_secs())
    });
    stage.find(Group::Recovers, "a server that dies again and again is started ever more slowly", verdict);
    let ticket = stage.call("count", json!({ "key": "in-loop" }), SOON);
    stage.ends(ticket, SOON + AT_ONCE, "a call to a server that cannot stay up ends");
    stage.control("")?;
    stage.recovers(SOON + AT_ONCE);
    stage.ran_once("count", "in-loop");
    Ok(())
}

pub(crate) fn many_calls(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let keys: Vec<String> = (0..CALLS).map(|number| format!("k{number}")).collect();
    let tickets: Vec<_> =
        keys.iter().map(|key| stage.call("slow", json!({ "ms": 150_000, "key": key }), PLENTY)).collect();
    if !stage.wait(PATIENCE, |stage| stage.journal.runs("slow") == CALLS) {
        let running = stage.journal.runs("slow");
        let reason = format!("only {running} of {CALLS} calls ran side by side");
        stage.find(Group::Answers, "every call ends when its server dies", Verdict::NotApplicable(reason));
        return Ok(());
    }
    kill_server(stage);
    let deadline = Instant::now() + stage.scaled(SOON);
    let mut ended = 0;
    for ticket in tickets {
        let left = deadline.saturating_duration_since(Instant::now());
        ended += usize::from(matches!(stage.driver.outcome(ticket, left), Outcome::Answered(_)));
    }
    let verdict = Verdict::of(ended == CALLS, || format!("only {ended} of {CALLS} ended in time"));
    stage.find(Group::Answers, "every call ends when its server dies", verdict);
    if stage.recovers(SOON) {
        let lives = stage.new_lives();
        let verdict = Verdict::of(lives == 1, || format!("it was started {lives} times"));
        stage.find(Group::Recovers, "one death causes one new start", verdict);
    }
    let runs = stage.journal.runs("slow");
    let verdict = Verdict::of(runs == CALLS, || format!("{CALLS} calls ran {runs} times"));
    stage.find(Group::NeverTwice, "no call that was lost runs again", verdict);
    Ok(())
}

pub(crate) fn retires(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.control("exit-after-calls=2")?;
    ten_calls(stage, "no call fails because a server exits between calls");
    stage.control("")
}

pub(crate) fn changed_tools(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.begin(Task::List);
    stage.succeeds(Group::Answers, ticket, PLENTY, "a server that is well lists its tools");
    stage.control("extra-tool=novel")?;
    match stage.site.is_some() {
        true => super::remote::restart(stage)?,
        false => kill_server(stage),
    }
    let mut last = "no list".to_owned();
    let found = stage.wait(SOON, |stage| {
        let ticket = stage.begin(Task::List);
        let Some(answer) = stage.answer(ticket, AT_ONCE) else { return false };
        last = if answer.ok { "a list without the new tool".to_owned() } else { short(&answer.text) };
        answer.ok && answer.text.lines().any(|tool| tool.ends_with("novel"))
    });
    let verdict = Verdict::of(found, || format!("the last answer: {last}"));
    stage.find(Group::TellsTheTruth, "the tools are those of the server that now runs", verdict);
    Ok(())
}
