//! What storms reach. All together must reach everything, or they prove nothing about it.

use std::collections::BTreeSet;

use super::history::{End, Event, History};

/// What all storms together must have reached.
pub const WANTED: [&str; 38] = [
    "answered",
    "asked",
    "refused",
    "not run",
    "may have run",
    "run again",
    "cancelled",
    "left",
    "Overloaded",
    "Timeout",
    "Unavailable",
    "Interrupted",
    "sampling/createMessage",
    "notifications/progress",
    "notifications/message",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
    "clock jump",
    "calm",
    "another configuration",
    "reconnect",
    "drain",
    "park",
    "wake",
    "reset-budget",
    "dies",
    "says nothing",
    "starts more slowly",
    "has other tools",
    "cannot be started",
    "closes its output",
    "writes rubbish",
    "is refused",
    "cannot be heard",
    "is cut off",
    "forgets all sessions",
    "refuses everything",
    "is far away",
];

pub fn reached(history: &History) -> BTreeSet<&'static str> {
    let mut words: BTreeSet<String> = history.events.iter().filter_map(|(_, event)| of(event)).collect();
    if history.runs.values().any(|runs| *runs > 1) {
        words.insert("run again".into());
    }
    WANTED.into_iter().filter(|wanted| words.iter().any(|word| word.contains(wanted))).collect()
}

fn of(event: &Event) -> Option<String> {
    Some(match event {
        Event::Ends(_, End::Answered(_)) => "answered".into(),
        Event::Ends(_, End::Asked) => "asked".into(),
        Event::Ends(_, End::Refused(_)) => "refused".into(),
        Event::Ends(_, End::NotRun(kind)) => format!("not run: {kind}"),
        Event::Ends(_, End::Unknown(kind)) => format!("may have run: {kind}"),
        Event::Ends(_, End::Dropped) => return None,
        Event::Cancels(_) => "cancelled".into(),
        Event::Leaves(_) => "left".into(),
        Event::Hears(_, method, _) => method.clone(),
        Event::Jumps(_) => "clock jump".into(),
        Event::Calm => "calm".into(),
        Event::Weather(what) => what.clone(),
        _ => return None,
    })
}
