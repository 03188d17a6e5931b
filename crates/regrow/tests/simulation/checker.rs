//! Holds a history against the promises of DESIGN.md, section 8, and says what is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regrow::core::Policy;
use regrow_testkit::world::{millis, secs};

use crate::history::{End, Event, Heard, History};
use crate::key::Key;

/// After the machine has slept, what has arrived is read for so long before deadlines count.
const ROUND: Duration = millis(100);

/// What is broken, each as a sentence that begins with the promise.
pub fn check(history: &History) -> Vec<String> {
    let mut broken = vec![];
    let calls = calls(history);
    for (key, call) in &calls {
        ends_once_and_in_time(*key, call, history, &mut broken);
        runs_at_most_once(*key, call, history, &mut broken);
        is_answered_as_itself(*key, call, history, &mut broken);
    }
    calls_wait_for_a_server_that_was_healthy(&calls, history, &mut broken);
    one_process_at_a_time(history, &mut broken);
    every_charge_is_told(history, &mut broken);
    closes_and_leaves_nothing(history, &mut broken);
    attempts_have_a_floor(history, &mut broken);
    what_was_said_before_comes_before(history, &mut broken);
    answers_reach_the_questions(history, &mut broken);
    subscriptions_are_restored_once(history, &mut broken);
    streams_are_opened_once(history, &mut broken);
    it_grows_back(history, &mut broken);
    broken
}

/// What a client saw of a call.
#[derive(Default)]
struct Call {
    begun: Duration,
    within: Duration,
    ends: Vec<(Duration, End)>,
    /// Its client gave it up. One that only left still waits for it.
    given_up: Option<Duration>,
}

fn calls(history: &History) -> BTreeMap<Key, Call> {
    let mut calls: BTreeMap<Key, Call> = BTreeMap::new();
    for (at, event) in &history.events {
        match event {
            Event::Begins(key, within) => {
                calls.insert(*key, Call { begun: *at, within: *within, ..Call::default() });
            }
            Event::Ends(key, end) => calls.entry(*key).or_default().ends.push((*at, end.clone())),
            Event::GivesUp(key) => {
                calls.entry(*key).or_default().given_up.get_or_insert(*at);
            }
            _ => {}
        }
    }
    calls
}

/// P2: a call ends exactly once, by its deadline. The clock stands while a person is asked, and nobody can hear it while the
/// machine sleeps.
fn ends_once_and_in_time(key: Key, call: &Call, history: &History, broken: &mut Vec<String>) {
    match (&call.ends[..], call.given_up) {
        ([], None) => broken.push(format!("P2: {key} never ended")),
        ([], Some(_)) => {}
        ([(at, _)], _) => {
            let by = call.begun + call.within + stood_still(history, call.begun, *at) + millis(2);
            if *at > by {
                broken.push(format!("P2: {key} ended at {at:?}, and not by {by:?}"));
            }
        }
        (ends, _) => broken.push(format!("P2: {key} ended {} times", ends.len())),
    }
}

/// For how much of this time no deadline could pass.
fn stood_still(history: &History, from: Duration, to: Duration) -> Duration {
    let mut stood = Duration::ZERO;
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    let mut since = from;
    for (at, event) in history.events.iter().take_while(|(at, _)| *at <= to) {
        if let Event::Jumps(length) = event {
            let awake = *at + *length;
            if awake >= from {
                stood += *length;
            }
            if awake + ROUND >= from {
                stood += ROUND;
            }
        }
        let was_asked = !asked.is_empty();
        match event {
            Event::Asked(nonce) => drop(asked.insert(nonce)),
            Event::Replied(nonce) => drop(asked.remove(nonce.as_str())),
            _ => continue,
        }
        if was_asked && *at > since {
            stood += *at - since;
        }
        since = (*at).max(from);
    }
    if asked.is_empty() { stood } else { stood + (to - since) }
}

/// P3: a call runs at most once unless that is safe, then three times at most; and what is said not to have run has not.
fn runs_at_most_once(key: Key, call: &Call, history: &History, broken: &mut Vec<String>) {
    let runs = history.runs.get(&key).copied().unwrap_or(0);
    if runs > if key.safe { 3 } else { 1 } {
        broken.push(format!("P3: {key} ran {runs} times"));
    }
    let sends = history.heard.iter().filter(|(_, _, heard)| *heard == Heard::Call(key)).count();
    if sends > 3 {
        broken.push(format!("P3: {key} was sent {sends} times"));
    }
    for (_, end) in &call.ends {
        match end {
            End::NotRun(kind) if runs > 0 => {
                broken.push(format!("P3: {key} is said not to have run ({kind}), and ran"));
            }
            End::Answered(Some(of)) if *of == key && runs == 0 => {
                broken.push(format!("P3: {key} was answered, and never ran"));
            }
            _ => {}
        }
    }
}

/// P7: the answer is for that call. P14: and never for a call of another client.
fn is_answered_as_itself(key: Key, call: &Call, _: &History, broken: &mut Vec<String>) {
    for (_, end) in &call.ends {
        match end {
            End::Answered(Some(of)) if of.client != key.client => {
                broken.push(format!("P14: {key} got the answer to {of}"));
            }
            End::Answered(Some(of)) if *of != key => broken.push(format!("P7: {key} got the answer to {of}")),
            _ => {}
        }
    }
}

/// Patience: while a server that was healthy within the last minute cannot be reached, calls wait, unless it was parked before.
fn calls_wait_for_a_server_that_was_healthy(
    calls: &BTreeMap<Key, Call>,
    history: &History,
    broken: &mut Vec<String>,
) {
    let policy = Policy::default();
    let (patience, recent) = (policy.patience.unwrap_or_default(), policy.healthy_within);
    // When the last session that was ready ended, and when the connection parked after that.
    let (mut serves, mut ended, mut parked) = (false, None, None);
    let (mut slept, mut last_parked) = (None, None);
    for (at, event) in &history.events {
        match event {
            Event::Notice(notice) if notice.ready => (serves, parked) = (true, None),
            Event::Notice(notice) if notice.ends && serves => (serves, ended) = (false, Some(*at)),
            Event::Notice(notice) if notice.parks => {
                (parked, last_parked) = (parked.or(Some(*at)), Some(*at));
            }
            Event::Jumps(length) => slept = Some(*at + *length),
            Event::NoSession(key, attempts) => {
                let Some(call) = calls.get(key) else { continue };
                let healthy = ended.is_some_and(|ended| *at - ended <= recent);
                // Of a call that is made in the moment of parking, we may hear only after the next session is ready.
                let fails_fast =
                    parked.is_some_and(|parked| parked <= call.begun) || last_parked == Some(call.begun);
                // Its next turn on this session comes after a pause, and would come too late.
                let is_late = call.begun + call.within <= *at + 9 * policy.resend_pause;
                let waited = *at - call.begun;
                let slept = slept.is_some_and(|slept| slept >= call.begun);
                if healthy && !fails_fast && !is_late && !slept && waited < patience {
                    broken.push(format!("patience: {key} failed after {waited:?} and {attempts} attempts"));
                }
            }
            _ => {}
        }
    }
}

/// P1: at most one process or link at any instant, but for those that were said to be abandoned.
fn one_process_at_a_time(history: &History, broken: &mut Vec<String>) {
    let most = history.left.most_processes;
    let is_abandoned = |event: &Event| matches!(event, Event::Notice(notice) if notice.abandons);
    let abandoned = history.events.iter().filter(|(_, event)| is_abandoned(event)).count();
    if most > 1 + abandoned {
        broken.push(format!("P1: {most} processes at once"));
    }
    for what in &history.left.after_end {
        broken.push(format!("P1: {what}, after that was ended"));
    }
}

/// P4: the budget has lost exactly what was told as a fault.
fn every_charge_is_told(history: &History, broken: &mut Vec<String>) {
    let budget = Policy::default().budget;
    let faults: Vec<Duration> =
        history.events.iter().filter(|(_, event)| is_fault(event)).map(|(at, _)| *at).collect();
    let told: Vec<(Duration, u32)> = history
        .events
        .iter()
        .filter_map(|(at, event)| match event {
            Event::Budget(left) => Some((*at, *left)),
            _ => None,
        })
        .collect();
    for (n, (at, left)) in told.iter().enumerate() {
        if told.get(n + 1).is_some_and(|(next, _)| next == at) {
            continue; // The last word of an instant counts.
        }
        let spent = faults.iter().filter(|fault| **fault <= *at && *at - **fault < budget.window).count();
        let expected = budget.charges.saturating_sub(u32::try_from(spent).unwrap_or(u32::MAX));
        if *left != expected {
            return broken.push(format!("P4: {left} of the budget left at {at:?}, after {spent} faults"));
        }
    }
}

fn is_fault(event: &Event) -> bool {
    matches!(event, Event::Notice(notice) if notice.fault)
}

/// P6: closed means that nothing is left, and is reached in bounded time.
fn closes_and_leaves_nothing(history: &History, broken: &mut Vec<String>) {
    let when = |wanted: &Event| history.events.iter().find(|(_, event)| event == wanted).map(|(at, _)| *at);
    match (when(&Event::Closes), when(&Event::Closed)) {
        // The longest ladder, a drain, and a call that may finish before the last handle is dropped.
        (Some(from), Some(to)) if to - from <= secs(20) + stood_still(history, from, to) + secs(65) => {}
        (from, to) => broken.push(format!("P6: closed from {from:?} to {to:?}")),
    }
    let left = &history.left;
    if (left.tasks, left.processes, left.pending) != (0, 0, 0) {
        let (tasks, processes, pending) = (left.tasks, left.processes, left.pending);
        broken.push(format!("P6: {tasks} tasks, {processes} processes and {pending} calls are left"));
    }
    for panic in &left.panics {
        broken.push(format!("P6: a panic: {panic}"));
    }
}

/// P10: epochs rise, and attempts have a floor between them, but for the one after the first wrong guess of the era.
fn attempts_have_a_floor(history: &History, broken: &mut Vec<String>) {
    let (mut last, mut wrong_guesses, mut is_second_half) = (None, 0, false);
    for (at, event) in &history.events {
        let Event::Notice(notice) = event else { continue };
        if notice.text.contains("the other protocol era") {
            wrong_guesses += 1;
            is_second_half = wrong_guesses == 1;
        }
        let Some(epoch) = notice.begins else { continue };
        if let Some((before, then)) = last.replace((epoch, *at)) {
            if epoch <= before {
                broken.push(format!("P10: session {epoch} after session {before}"));
            }
            if *at - then < Policy::default().attempt_floor && !is_second_half {
                broken.push(format!("P10: session {epoch} begins {:?} after the one before", *at - then));
            }
        }
        is_second_half = false;
    }
}

/// Order: whatever the server wrote before a response reaches the client before it. P14: and only that client.
fn what_was_said_before_comes_before(history: &History, broken: &mut Vec<String>) {
    let mut ended: BTreeMap<Key, Duration> = BTreeMap::new();
    for (at, event) in &history.events {
        match event {
            Event::Ends(key, End::Answered(_)) => drop(ended.insert(*key, *at)),
            Event::Hears(client, key) if *client != key.client => {
                broken.push(format!("P14: {client} heard what belongs to {key}"));
            }
            // Where each call has a task of its own, what happens at the same instant has no order.
            Event::Hears(_, key)
                if ended.get(key).is_some_and(|end| end < at || history.relayed) && history.piped =>
            {
                broken.push(format!("order: something of {key} came after its answer"));
            }
            _ => {}
        }
    }
}

/// P7, the other way: the answer to a question reaches the process that asked it, once, and is for that question.
fn answers_reach_the_questions(history: &History, broken: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (_, start, heard) in &history.heard {
        let Heard::Answer(id, nonce) = heard else { continue };
        if nonce.is_empty() {
            continue; // A refusal, or a pong.
        }
        let asker = if history.piped { *start } else { 0 };
        if *nonce != format!("q:{asker}:{id}") {
            broken.push(format!("P7: server {start} heard the answer to {nonce} for its question {id}"));
        }
        if !seen.insert((*start, id)) {
            broken.push(format!("P7: server {start} heard twice about its question {id}"));
        }
    }
}

/// P15: what a client has subscribed to is told to each later session once, before any call.
fn subscriptions_are_restored_once(history: &History, broken: &mut Vec<String>) {
    let at = |wanted: &Event| history.events.iter().find(|(_, event)| event == wanted).map(|(at, _)| *at);
    for (subscribed, event) in &history.events {
        let Event::Subscribed(uri) = event else { continue };
        let until = at(&Event::Unsubscribes(uri.clone())).unwrap_or(Duration::MAX);
        for (n, started) in history.starts.iter().enumerate() {
            let heard: Vec<_> = history.heard.iter().filter(|(_, start, _)| *start == n + 1).collect();
            let is_it = |heard: &Heard| *heard == Heard::Subscribe(uri.clone());
            let told = heard.iter().filter(|(at, _, heard)| *at < until && is_it(heard)).count();
            if started <= subscribed || *started >= until || !history.piped {
                continue;
            }
            let called =
                heard.iter().position(|(at, _, heard)| *at < until && matches!(heard, Heard::Call(_)));
            let before = called.map(|called| heard[..called].iter().any(|(_, _, heard)| is_it(heard)));
            if told > 1 || before == Some(false) {
                let start = n + 1;
                broken.push(format!(
                    "P15: server {start} was told of {uri} {told} times before its first call"
                ));
            }
        }
    }
}

/// P15: a client hears once that its stream is open, however often it is opened again.
fn streams_are_opened_once(history: &History, broken: &mut Vec<String>) {
    let count = |wanted: &Event| history.events.iter().filter(|(_, event)| event == wanted).count();
    let (listens, told) = (count(&Event::Listens), count(&Event::Acknowledged));
    if !history.relayed && told > listens {
        broken.push(format!("P15: {listens} streams were acknowledged {told} times"));
    }
}

/// When the storm is over, calls succeed again, and clients know what the server offers.
fn it_grows_back(history: &History, broken: &mut Vec<String>) {
    let calm = history.events.iter().position(|(_, event)| *event == Event::Calm);
    let Some(calm) = calm else { return };
    let answered = |event: &Event| matches!(event, Event::Ends(_, End::Answered(Some(_))));
    let down = history.events[calm..].iter().all(|(_, event)| !answered(event));
    if down {
        broken.push("recovery: no call succeeded although the storm was over".into());
    }
    let seen = history.events.iter().rev().find_map(|(_, event)| match event {
        Event::Lists(tools) => Some(tools),
        _ => None,
    });
    if let (Some(seen), Some(offers)) = (seen, &history.offers)
        && seen != offers
    {
        broken.push(format!("lists: a client has seen {seen:?}, the server offers {offers:?}"));
    }
}
