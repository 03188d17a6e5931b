//! What happens in each scenario, told step by step.

pub(super) mod deaths;
pub(super) mod endings;
pub(super) mod hangs;
pub(super) mod pipes;
pub(super) mod remote;

use std::time::Duration;

use serde_json::json;

use super::driver::Ticket;
use super::stage::{Stage, short};
use super::verdict::{Group, Verdict};

/// A healthy server is away for this long while a call waits: a restart, a new version.
const AWAY: Duration = Duration::from_secs(2);
const WAITS: &str = "a call made while a healthy server is away for 2 s waits for it";
/// How long a program has to see that a connection was closed.
const CLOSED: Duration = Duration::from_millis(500);

/// A call that was made while the server was away succeeds, unless it left on a connection that was closed under it.
fn waits(stage: &mut Stage<'_>, ticket: Ticket) {
    let verdict = match stage.outcome(ticket, SOON) {
        Ok(answer) if answer.ok => Verdict::Pass,
        Ok(answer) if answer.text.contains("may have run") => {
            Verdict::NotApplicable("the call had left when the server was killed".into())
        }
        Ok(answer) => Verdict::Fail(format!("it failed: {}", short(&answer.text))),
        Err(seen) => Verdict::Fail(seen),
    };
    stage.find(Group::Recovers, WAITS, verdict);
}

/// A call after which the connection is known to be good.
fn well(stage: &mut Stage<'_>) {
    let ticket = stage.call("echo", json!({ "text": "well" }), PLENTY);
    stage.succeeds(Group::Answers, ticket, PLENTY, "a call to a server that is well succeeds");
}

/// By when a call that misses its deadline has ended. A proxy has its own, which we do not know.
fn latest(stage: &Stage<'_>) -> Duration {
    if stage.is_proxy() { PROXY_DEADLINE } else { DEADLINE + AT_ONCE }
}

/// Ten calls, one after the other: none may fail or run twice.
fn ten_calls(stage: &mut Stage<'_>, promise: &'static str) {
    let mut failed = None;
    for number in 0..10 {
        let ticket = stage.call("count", json!({ "key": format!("k{number}") }), SOON);
        let answer = stage.outcome(ticket, SOON);
        if !answer.as_ref().is_ok_and(|answer| answer.ok) {
            let said = answer.map_or_else(|seen| seen, |answer| short(&answer.text));
            failed = Some(format!("call {} of 10 failed: {said}", number + 1));
            break;
        }
    }
    stage.find(Group::Recovers, promise, failed.map_or(Verdict::Pass, Verdict::Fail));
    let most = (0..10).map(|number| stage.journal.runs_with("count", &format!("k{number}"))).max();
    let verdict = Verdict::of(most <= Some(1), || "a call ran more than once".to_owned());
    stage.find(Group::NeverTwice, "each of those calls runs at most once", verdict);
}

/// The deadline of a call that misses it.
const DEADLINE: Duration = Duration::from_secs(3);
/// So long may a proxy take to notice it.
const PROXY_DEADLINE: Duration = Duration::from_secs(20);
/// A call whose server was lost ends in this time.
const AT_ONCE: Duration = Duration::from_secs(5);
/// After a plain death, calls succeed again in this time.
const SOON: Duration = Duration::from_secs(10);
/// The same after a server that hung, which has to be detected first.
const LATER: Duration = Duration::from_secs(30);
/// Evidence that must come at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The deadline of a call that is not meant to miss it.
const PLENTY: Duration = Duration::from_secs(30);
