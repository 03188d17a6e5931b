//! What comes over a pipe that should not, and servers that are well.

use serde_json::json;

use super::{AT_ONCE, PLENTY, SOON};
use crate::suite::driver::Task;
use crate::suite::stage::judge::LOST;
use crate::suite::stage::{Stage, Step, short};
use crate::suite::verdict::{Group, Verdict};

pub(crate) fn healthy(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.begin(Task::List);
    stage.succeeds(Group::Answers, ticket, PLENTY, "a server that is well lists its tools");
    let ticket = stage.call("count", json!({ "key": "well" }), PLENTY);
    stage.succeeds(Group::Answers, ticket, PLENTY, "a call to a server that is well succeeds");
    stage.ran_once("count", "well");
    Ok(())
}

pub(crate) fn missing_program(stage: &mut Stage<'_>) -> Step {
    let ticket = stage.begin(Task::Connect { timeout: SOON });
    let answer = stage.ends(ticket, SOON + AT_ONCE, "connecting to a missing program ends");
    stage.tells_of_refusal(answer, "the error names the program", &["no-such-program"]);
    Ok(())
}

pub(crate) fn closed_stdout(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.call("closeout", json!({}), PLENTY);
    let answer = stage.ends(ticket, AT_ONCE, "a call whose server closes its output ends at once");
    stage.tells(answer.as_ref(), "the error says what became of the server", LOST);
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn half_line(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.call("half", json!({}), PLENTY);
    let answer = stage.ends(ticket, AT_ONCE, "a call that gets half an answer ends at once");
    if answer.as_ref().is_some_and(|answer| answer.ok) {
        let verdict = Verdict::Fail("half an answer was taken for one".into());
        stage.find(Group::TellsTheTruth, "half an answer is none", verdict);
    }
    stage.tells(answer.as_ref(), "the error says what became of the server", LOST);
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn odd_messages(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    for (tool, promise) in [
        ("garbage", "an answer after bytes that are no message is delivered"),
        ("dup", "an answer that comes twice is delivered"),
        ("stray", "an answer after answers to nobody is delivered"),
    ] {
        let over_http = stage.site.is_some();
        if over_http && tool == "garbage" {
            continue; // Over HTTP that is a body that cannot be read: no answer follows.
        }
        let ticket = stage.call(tool, json!({}), PLENTY);
        let verdict = match stage.outcome(ticket, SOON) {
            Ok(answer) => {
                Verdict::of(answer.ok && answer.text == tool, || format!("it got: {}", short(&answer.text)))
            }
            Err(seen) => Verdict::Fail(seen),
        };
        stage.find(Group::Answers, promise, verdict);
    }
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn stderr_flood(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.call("stderr", json!({ "bytes": 20_000_000 }), PLENTY);
    stage.succeeds(Group::Answers, ticket, PLENTY, "a flood on standard error blocks nothing");
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn tool_errors(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let mut seen = None;
    for tool in ["fail", "error"].into_iter().cycle().take(10) {
        let ticket = stage.call(tool, json!({}), PLENTY);
        match stage.outcome(ticket, SOON) {
            Ok(answer) if !answer.ok && answer.text.contains("as planned") => {}
            Ok(answer) => seen = Some(format!("{tool} gave: {}", short(&answer.text))),
            Err(none) => seen = Some(format!("{tool} had {none}")),
        }
        if seen.is_some() {
            break;
        }
    }
    let verdict = seen.map_or(Verdict::Pass, Verdict::Fail);
    stage.find(Group::TellsTheTruth, "what a tool says of its failure is handed on", verdict);
    let sessions = stage.journal.requests("initialize");
    stage.recovers(SOON);
    let again = stage.new_lives() > 0 || stage.journal.requests("initialize") > sessions;
    let verdict = Verdict::of(!again, || "the connection was replaced".to_owned());
    stage.find(Group::Recovers, "a tool's failure costs no connection", verdict);
    Ok(())
}
