//! Servers over HTTP: they go and come back, forget sessions, refuse, and stall.

use serde_json::json;

use super::{
    AT_ONCE, AWAY, CLOSED, DEADLINE, LATER, PATIENCE, PLENTY, PROXY_DEADLINE, SOON, latest, ten_calls, waits,
    well,
};
use crate::proxy::Fault;
use crate::suite::driver::Task;
use crate::suite::stage::judge::{LATE, LOST};
use crate::suite::stage::{Stage, Step, short};
use crate::suite::verdict::{Group, Verdict};

/// More requests than that, to a server that refuses all, are a loop.
const MOST_REFUSED: usize = 30;

/// Ends the server and starts it again at the same place; it knows no session.
pub(super) fn restart(stage: &mut Stage<'_>) -> Step {
    kill(stage);
    start(stage)
}

fn kill(stage: &mut Stage<'_>) {
    if let Some(site) = &mut stage.site {
        site.kill();
    }
}

fn start(stage: &mut Stage<'_>) -> Step {
    let Some(site) = &mut stage.site else { return Ok(()) };
    site.start().map_err(|error| stage.failed(&error))
}

fn network(stage: &mut Stage<'_>, fault: Fault) {
    if let Some(site) = &stage.site {
        site.network.set(fault);
    }
}

pub(crate) fn down_at_start(stage: &mut Stage<'_>) -> Step {
    let connect = Task::Connect { timeout: SOON };
    let ticket = stage.begin(connect.clone());
    let limit = if stage.is_proxy() { PROXY_DEADLINE } else { SOON + AT_ONCE };
    let answer = stage.ends(ticket, limit, "connecting to a server that is down ends");
    let words = [LOST, LATE, &["connect", "sending", "fetch"]].concat();
    stage.tells_of_refusal(answer, "the error says that nobody listens", &words);
    start(stage)?;
    let mut last = "no answer".to_owned();
    let connected = stage.wait(SOON + AT_ONCE, |stage| {
        let ticket = stage.begin(connect.clone());
        let answer = stage.answer(ticket, AT_ONCE);
        last = answer.as_ref().map_or("no answer".to_owned(), |answer| short(&answer.text));
        answer.is_some_and(|answer| answer.ok)
    });
    let verdict = Verdict::of(connected, || format!("it could not connect any more: {last}"));
    stage.find(Group::Recovers, "it connects once the server is there", verdict);
    if connected {
        stage.recovers(SOON);
    }
    Ok(())
}

pub(crate) fn killed_idle(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    well(stage);
    kill(stage);
    stage.notices();
    start(stage)?;
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn killed_in_call(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    let ticket = stage.call("slow", json!({ "ms": 150_000, "key": "lost" }), PLENTY);
    stage.wait(PATIENCE, |stage| stage.journal.runs("slow") == 1);
    kill(stage);
    let answer = stage.ends(ticket, AT_ONCE, "a call whose server is killed ends at once");
    stage.tells_of_loss(answer.as_ref());
    start(stage)?;
    stage.recovers(SOON);
    stage.ran_once("slow", "lost");
    Ok(())
}

pub(crate) fn away(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    well(stage);
    kill(stage);
    std::thread::sleep(CLOSED);
    let ticket = stage.call("count", json!({ "key": "patient" }), SOON);
    std::thread::sleep(AWAY);
    start(stage)?;
    waits(stage, ticket);
    stage.ran_once("count", "patient");
    Ok(())
}

pub(crate) fn restarted(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    well(stage);
    restart(stage)?;
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn forgotten_404(stage: &mut Stage<'_>) -> Step {
    forgotten(stage, "no-get expiry=404 forget=1")
}

pub(crate) fn forgotten_400(stage: &mut Stage<'_>) -> Step {
    forgotten(stage, "no-get expiry=400 forget=1")
}

fn forgotten(stage: &mut Stage<'_>, plan: &str) -> Step {
    stage.connect()?;
    well(stage);
    stage.control(plan)?;
    let ticket = stage.call("count", json!({ "key": "forgotten" }), SOON);
    stage.succeeds(Group::Recovers, ticket, SOON, "a call on a forgotten session succeeds on a new one");
    stage.ran_once("count", "forgotten");
    stage.recovers(SOON);
    Ok(())
}

pub(crate) fn busy(stage: &mut Stage<'_>) -> Step {
    struck(
        stage,
        "status=429 retry-after=1 on=tools/call times=1",
        &["429", "too many", "busy", "rate", "later"],
    )
}

pub(crate) fn bad_gateway(stage: &mut Stage<'_>) -> Step {
    struck(stage, "status=502 on=tools/call times=1", &["502", "gateway"])
}

/// One call is refused; no other notices.
fn struck(stage: &mut Stage<'_>, plan: &str, words: &[&str]) -> Step {
    stage.connect()?;
    well(stage);
    let greetings = stage.journal.requests("initialize");
    stage.control(plan)?;
    let ticket = stage.call("count", json!({ "key": "refused" }), SOON);
    let answer = stage.ends(ticket, SOON, "a call that is refused once ends");
    stage.tells(answer.as_ref(), "the error says how it was refused", words);
    stage.ran_once("count", "refused");
    if stage.recovers(SOON) {
        let again = stage.journal.requests("initialize") > greetings;
        let verdict = Verdict::of(!again, || "the session was given up".to_owned());
        stage.find(Group::Recovers, "one refusal costs no session", verdict);
    }
    Ok(())
}

pub(crate) fn cut_stream(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.control("cut on=tools/call times=1")?;
    let ticket = stage.call("count", json!({ "key": "cut" }), SOON);
    let answer = stage.ends(ticket, AT_ONCE, "a call whose answer is cut off ends at once");
    stage.tells_of_loss(answer.as_ref());
    stage.recovers(SOON);
    stage.ran_once("count", "cut");
    Ok(())
}

pub(crate) fn blackhole(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    well(stage);
    network(stage, Fault::Blackhole);
    let ticket = stage.call("count", json!({ "key": "lost" }), DEADLINE);
    let answer = stage.ends(ticket, latest(stage), "a call into a dead network ends at its deadline");
    stage.tells(answer.as_ref(), "the error says that there was no answer", &[LATE, LOST].concat());
    network(stage, Fault::None);
    stage.recovers(LATER);
    stage.ran_once("count", "lost");
    Ok(())
}

pub(crate) fn unauthorized(stage: &mut Stage<'_>) -> Step {
    let ticket = stage.begin(Task::Connect { timeout: SOON });
    let answer = stage.ends(ticket, LATER, "connecting without credentials ends");
    stage.tells_of_refusal(
        answer,
        "the error says that credentials are missing",
        &["401", "auth", "credential", "token"],
    );
    let asked = stage.journal.refused(401).len();
    let verdict = Verdict::of(asked <= MOST_REFUSED, || format!("it asked {asked} times"));
    stage.find(Group::Recovers, "a server that refuses all is not asked again and again", verdict);
    Ok(())
}

pub(crate) fn web_page(stage: &mut Stage<'_>) -> Step {
    let ticket = stage.begin(Task::Connect { timeout: SOON });
    let answer = stage.ends(ticket, LATER, "connecting to a web page ends");
    let words = ["html", "content type", "content-type", "not json", "web page", "parse", "json"];
    stage.tells_of_refusal(answer, "the error says what was found there", &words);
    Ok(())
}

pub(crate) fn slow_drip(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.control("drip-body=500ms on=tools/call times=1")?;
    let ticket = stage.call("count", json!({ "key": "drip" }), DEADLINE);
    stage.ends(ticket, latest(stage), "a call whose answer drips ends at its deadline");
    stage.recovers(SOON);
    stage.ran_once("count", "drip");
    Ok(())
}

pub(crate) fn forgets_often(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.control("forget-after=2")?;
    ten_calls(stage, "no call fails because a session is forgotten between calls");
    Ok(())
}
