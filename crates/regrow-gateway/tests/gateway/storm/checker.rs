//! Holds a history against the promises of DESIGN.md, section 8, and says what is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::history::{End, Event, History, Key, called};
use super::{CALL_TIMEOUT, WAITS};

/// After the machine has slept, what has arrived is read for so long before deadlines count.
const ROUND: Duration = Duration::from_millis(100);

/// What is broken, each as a sentence that begins with the promise.
pub fn check(history: &History) -> Vec<String> {
    let mut broken = vec![];
    let calls = calls(history);
    for (key, call) in &calls {
        ends_once_and_in_time(*key, call, history, &mut broken);
        runs_at_most_once(*key, call, history, &mut broken);
        is_answered_as_itself(*key, call, &mut broken);
    }
    runs_where_it_should(history, &calls, &mut broken);
    nobody_hears_of_others(history, &mut broken);
    what_was_said_before_comes_before(history, &calls, &mut broken);
    leaves_nothing(history, &mut broken);
    it_grows_back(history, &mut broken);
    broken
}

/// What a client saw of a call.
#[derive(Default)]
struct Call {
    begun: Duration,
    ends: Vec<(Duration, End)>,
    /// Its client cancelled it, or left.
    given_up: bool,
}

fn calls(history: &History) -> BTreeMap<Key, Call> {
    let mut calls: BTreeMap<Key, Call> = BTreeMap::new();
    let mut is_closed = false;
    for (at, event) in &history.events {
        match event {
            Event::Begins(key) => calls.entry(*key).or_default().begun = *at,
            Event::Ends(key, end) => calls.entry(*key).or_default().ends.push((*at, end.clone())),
            Event::Cancels(key) => calls.entry(*key).or_default().given_up = true,
            Event::Closed => is_closed = true,
            Event::Leaves(client) if !is_closed => {
                let theirs = calls.iter_mut().filter(|(key, _)| key.client == *client);
                theirs.for_each(|(_, call)| call.given_up = true);
            }
            _ => {}
        }
    }
    calls
}

/// P2: a call ends exactly once, by its deadline, unless nobody waits for it any more.
fn ends_once_and_in_time(key: Key, call: &Call, history: &History, broken: &mut Vec<String>) {
    match &call.ends[..] {
        [] => broken.push(format!("P2: {key} never ended")),
        [(_, End::Dropped)] if call.given_up => {}
        [(at, end)] => {
            let by = call.begun + CALL_TIMEOUT + WAITS + stood_still(history, call.begun, *at);
            if *at > by || *end == End::Dropped {
                broken.push(format!("P2: {key} ended at {at:?} ({end:?}), and not by {by:?}"));
            }
        }
        ends => broken.push(format!("P2: {key} ended {} times", ends.len())),
    }
}

/// For how much of this time no deadline could pass: the machine slept, or somebody was asked.
fn stood_still(history: &History, from: Duration, to: Duration) -> Duration {
    let mut stood = Duration::ZERO;
    let mut asked = BTreeSet::new();
    let mut since = from;
    for (at, event) in history.events.iter().take_while(|(at, _)| *at <= to) {
        let was_asked = !asked.is_empty();
        match event {
            Event::Jumps(length) if *at + *length >= from => stood += *length + ROUND,
            Event::Asked(client, text) => drop(asked.insert((*client, text))),
            Event::Replied(client, text) => drop(asked.remove(&(*client, text))),
            Event::Leaves(client) => asked.retain(|(of, _)| of != client),
            _ => continue,
        }
        if was_asked && *at > since {
            stood += *at - since;
        }
        since = since.max(*at);
    }
    if asked.is_empty() { stood } else { stood + (to - since.min(to)) }
}

/// P3: a call runs at most once unless that is safe, then three times at most; and what is said not to have run has not.
fn runs_at_most_once(key: Key, call: &Call, history: &History, broken: &mut Vec<String>) {
    let runs = history.runs.get(&(key.server.to_owned(), key.to_string())).copied().unwrap_or(0);
    if runs > if key.tool == "safe" { 3 } else { 1 } {
        broken.push(format!("P3: {key} ran {runs} times"));
    }
    for (_, end) in &call.ends {
        match end {
            End::NotRun(_) | End::Refused(_) if runs > 0 => {
                broken.push(format!("P3: {key} is said not to have run ({end:?}), and ran"));
            }
            End::Answered(_) | End::Asked if runs == 0 => {
                broken.push(format!("P3: {key} was answered, and never ran"));
            }
            _ => {}
        }
    }
}

/// P3: and at the server that it was for.
fn runs_where_it_should(history: &History, calls: &BTreeMap<Key, Call>, broken: &mut Vec<String>) {
    let known: BTreeSet<_> = calls.keys().map(|key| (key.server.to_owned(), key.to_string())).collect();
    for (server, call) in history.runs.keys() {
        if !known.contains(&(server.clone(), call.clone())) {
            broken.push(format!("P3: {call} came to {server}"));
        }
    }
}

/// P7: the answer is for that call. P14: and never for a call of another client.
fn is_answered_as_itself(key: Key, call: &Call, broken: &mut Vec<String>) {
    for (_, end) in &call.ends {
        let End::Answered(text) = end else { continue };
        let is_it = *text == format!("{}: {key}", key.server);
        let is_unheard = text.starts_with(&format!("{}: no answer", key.server));
        if !is_it && !is_unheard {
            let promise = if text.contains(&called(key.client)) { "P7" } else { "P14" };
            broken.push(format!("{promise}: {key} was answered {text:?}"));
        }
    }
}

/// P14: what a client is told is its own, or is nobody's.
fn nobody_hears_of_others(history: &History, broken: &mut Vec<String>) {
    for (_, event) in &history.events {
        let Event::Hears(client, method, all) = event else { continue };
        let is_nobody_s = method.ends_with("/list_changed")
            || method == "notifications/cancelled"
            || !all.contains("client"); // Such as the acknowledgement of a stream that no server honours.
        if !is_nobody_s && !all.contains(&called(*client)) {
            broken.push(format!("P14: {} heard {all}", called(*client)));
        }
    }
}

/// Order: what a server told of a call before it answered reaches the client before the answer.
fn what_was_said_before_comes_before(
    history: &History,
    calls: &BTreeMap<Key, Call>,
    broken: &mut Vec<String>,
) {
    for (heard, event) in &history.events {
        let Event::Hears(client, method, all) = event else { continue };
        if !["notifications/progress", "notifications/message"].contains(&&**method) {
            continue;
        }
        let late = calls.iter().find(|(key, call)| {
            let is_answer = |(at, end): &(Duration, End)| at < heard && matches!(end, End::Answered(_));
            key.client == *client && call.ends.iter().any(is_answer) && all.contains(&format!("\"{key}\""))
        });
        if let Some((key, _)) = late {
            broken.push(format!("order: something of {key} came after its answer"));
        }
    }
}

/// P6: nothing is left, and nothing has panicked anywhere. P1: and no link was used beside another, or after its end.
fn leaves_nothing(history: &History, broken: &mut Vec<String>) {
    let left = &history.left;
    if (left.clients, left.calls, left.sessions, left.processes, left.tasks) != (0, 0, 0, 0, 0) {
        broken.push(format!("P6: something is left: {left:?}"));
    }
    broken.extend(left.panics.iter().map(|panic| format!("P6: a panic: {panic}")));
    broken.extend(left.on_wires.iter().map(|what| format!("P1: {what}")));
}

/// When the storm is over, every server can be called again.
fn it_grows_back(history: &History, broken: &mut Vec<String>) {
    for (_, event) in &history.events {
        if let Event::StaysDown(server, state) = event {
            broken.push(format!("recovery: {server} cannot be called although the storm is over: {state}"));
        }
    }
}
