//! What lives reach. All together must reach everything, or they prove nothing about it.

use std::collections::BTreeSet;

use crate::history::{End, Event, Heard, History};

/// What all lives together must have reached.
pub const WANTED: [&str; 27] = [
    "a process",
    "a network",
    "a relay",
    "several clients",
    "answered",
    "an error",
    "not run",
    "may have run",
    "run again",
    "given up",
    "left",
    "asked",
    "replied",
    "subscribed",
    "unsubscribed",
    "listened",
    "list seen",
    "clock jump",
    "calm",
    "parked",
    "backoff",
    "retired",
    "planned",
    "doubted",
    "slept",
    "restored",
    "patient",
];

pub fn reached(history: &History) -> BTreeSet<&'static str> {
    let mut reached = BTreeSet::from([if history.piped { "a process" } else { "a network" }]);
    if history.relayed {
        reached.insert("a relay");
    }
    if history.runs.values().any(|runs| *runs > 1) {
        reached.insert("run again");
    }
    if history.heard.iter().any(|(_, start, heard)| *start > 1 && matches!(heard, Heard::Subscribe(_))) {
        reached.insert("restored");
    }
    reached.extend(history.events.iter().filter_map(|(_, event)| of(event)));
    reached
}

fn of(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Begins(key, _) if key.client != 'a' => "several clients",
        Event::Ends(_, End::Answered(Some(_))) => "answered",
        Event::Ends(_, End::Answered(None)) => "an error",
        Event::Ends(_, End::NotRun(_)) => "not run",
        Event::Ends(_, End::Unknown(_)) => "may have run",
        Event::NoSession(_, 2..) => "patient",
        Event::GivesUp(_) => "given up",
        Event::Leaves(_) => "left",
        Event::Asked(_) => "asked",
        Event::Replied(_) => "replied",
        Event::Subscribed(_) => "subscribed",
        Event::Unsubscribes(_) => "unsubscribed",
        Event::Listens => "listened",
        Event::Lists(_) => "list seen",
        Event::Jumps(_) => "clock jump",
        Event::Calm => "calm",
        Event::Notice(notice) => {
            let says = |words: &str| notice.text.contains(words);
            match () {
                () if says("parked") => "parked",
                () if says("next attempt") => "backoff",
                () if says("not counted") => "retired",
                () if says("ending the session as requested") => "planned",
                () if says("probing the server") && !says("slept") => "doubted",
                () if says("slept") => "slept",
                () => return None,
            }
        }
        _ => return None,
    })
}
