//! Servers that are slow, or silent.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{AT_ONCE, DEADLINE, LATER, PATIENCE, PLENTY, latest};
use crate::processes::signal;
use crate::suite::driver::Task;
use crate::suite::process::is_stopped;
use crate::suite::stage::judge::LATE;
use crate::suite::stage::{Stage, Step, short};
use crate::suite::verdict::{Group, Verdict};

/// A call that takes this long, for a caller that waits a second. Frameworks may have one deadline for all calls, which is 5 s.
const SLOW: Duration = Duration::from_secs(20);
const IMPATIENT: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(8);

pub(crate) fn no_handshake(stage: &mut Stage<'_>) -> Step {
    let ticket = stage.begin(Task::Connect { timeout: Duration::from_secs(5) });
    let answer = stage.ends(ticket, LATER, "connecting to a server that never answers ends");
    stage.tells_of_refusal(answer, "the error says that there was no answer", LATE);
    Ok(())
}

pub(crate) fn hung(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let pid = stage.server();
    signal(pid, Signal::STOP);
    stage.wait(PATIENCE, |_| is_stopped(pid));
    let ticket = stage.call("count", json!({ "key": "hung" }), DEADLINE);
    let answer = stage.ends(ticket, latest(stage), "a call to a hung server ends at its deadline");
    stage.tells(answer.as_ref(), "the error says that there was no answer", LATE);
    stage.recovers(LATER);
    stage.ran_once("count", "hung");
    Ok(())
}

pub(crate) fn slow_tool(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket =
        stage.call("slow", json!({ "ms": stage.scaled(SLOW).as_millis() as u64, "key": "slow" }), IMPATIENT);
    stage.wait(PATIENCE, |stage| stage.journal.runs("slow") > 0);
    let promise = "a call ends at its deadline, though its tool is slow";
    let limit = if stage.is_proxy() { IMPATIENT } else { LATEST };
    let verdict = match stage.outcome(ticket, limit) {
        Ok(answer) => Verdict::of(!answer.ok, || "it succeeded after its deadline".to_owned()),
        Err(_) if stage.is_proxy() && stage.driver.process.program.exit().is_none() => {
            stage.driver.give_up(ticket);
            Verdict::NotApplicable("the deadline is the caller's own".to_owned())
        }
        Err(seen) => Verdict::Fail(seen),
    };
    stage.find(Group::Answers, promise, verdict);
    let cancelled = stage.wait(Duration::from_secs(2), |stage| {
        !stage.journal.cancelled().is_empty() || !stage.journal.gone().is_empty()
    });
    let verdict = Verdict::of(cancelled, || "the server was not told, and worked on".to_owned());
    stage.find(Group::LeavesNothing, "a call that was given up is cancelled at the server", verdict);
    let ticket = stage.call("echo", json!({ "text": "well" }), AT_ONCE);
    let verdict = match stage.outcome(ticket, AT_ONCE) {
        Ok(answer) if answer.ok => {
            Verdict::of(stage.new_lives() == 0, || "the server was replaced".to_owned())
        }
        Ok(answer) => Verdict::Fail(format!("the next call failed: {}", short(&answer.text))),
        Err(seen) => Verdict::Fail(format!("the next call had {seen}")),
    };
    stage.find(Group::Recovers, "the connection stays as it is, and serves other calls", verdict);
    stage.ran_once("slow", "slow");
    Ok(())
}

pub(crate) fn slow_start(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.call("count", json!({ "key": "late" }), PLENTY);
    stage.succeeds(Group::Answers, ticket, PLENTY, "a server that starts slowly is waited for");
    stage.ran_once("count", "late");
    Ok(())
}
