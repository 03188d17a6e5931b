//! A server at the end of a network that is refused, cut, slow, forgetful, partitioned or unauthorized; by a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use regrow::core::{Evidence, Fault};
use regrow_testkit::chance::Chance;
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::{Act, Speaks, answer, deferred, is_modern, no_session, refusal, status};
use regrow_testkit::world::{millis, secs};
use serde_json::{Value, json};

use crate::far::Calm;
use crate::far_process::{numbered, question};
use crate::history::{Event, Recorder};

/// What a call may ask of the server beside its work.
pub const MISHAPS: [&str; 12] = [
    "dies",
    "stays",
    "cut",
    "status",
    "forgets",
    "elsewhere",
    "asks",
    "error",
    "before",
    "twice",
    "garbage",
    "refused",
];

const KILLED: Fault = Fault::Killed { signal: 9 };

pub fn server(seed: u64, calm: &Calm) -> Remote {
    let chance = &mut Chance(seed.wrapping_mul(31));
    let speaks = [Speaks::Legacy, Speaks::Modern, Speaks::LegacyAndStatus(400), Speaks::LegacySilent];
    let mut server = Remote::new(chance.pick(&speaks));
    {
        let mut world = server.world();
        world.latency = chance.pick(&[0, 0, 2, 20, 300]) * millis(1);
        world.farewell = chance.pick(&[0, 0, 10, 5000]) * millis(1);
        world.has_stream = !chance.one_in(3);
    }
    let ours = ["initialize", "server/discover", "notifications/initialized", "ping", "subscriptions/listen"];
    for method in ours {
        let (chance, calm) = (std::sync::Mutex::new(Chance(chance.number())), calm.clone());
        let rarely = 4 + seed % 13;
        server = server.on(method, move |_| {
            let chance = &mut *chance.lock().expect("nobody panics while throwing dice");
            (!calm.load(Ordering::Relaxed) && chance.one_in(rarely)).then(|| mishap(chance))
        });
    }
    let (asked, before) = (AtomicU64::new(0), std::sync::Mutex::new(Chance(chance.number())));
    server.on("tools/call", move |message| {
        let before = &mut *before.lock().expect("nobody panics while throwing dice");
        Some(work(&asked, before, message))
    })
}

/// What becomes of an exchange in bad weather. A server answers so only before it has run the call.
fn mishap(chance: &mut Chance) -> Vec<Act> {
    match chance.below(13) {
        0 => vec![Act::Fail(status(502))],
        1 => vec![Act::Fail(status(404))],
        2 => vec![Act::Fail(deferred(chance.length()))],
        3 => vec![Act::Fail(deferred(secs(3600)))],
        4 => vec![Act::Fail(Fault::AnswerCut)],
        5 => vec![],
        6 => vec![Act::Stay],
        7 => vec![Act::Wait(chance.length()), Act::Fail(Fault::Stalled { after: secs(1) })],
        8 => vec![Act::Forget, Act::Fail(no_session(Evidence::Words))],
        12 => vec![Act::Fail(no_session(Evidence::Status))],
        9 => vec![Act::Die(KILLED)],
        10 => vec![Act::Fail(Fault::Unauthorized { code: 401 })],
        _ => vec![Act::Fail(Fault::Broken { reason: "reset".into() })],
    }
}

/// What a call does is in its arguments: its `key`, `ms` before the answer, and a `mishap`.
fn work(asked: &AtomicU64, before: &mut Chance, message: &Value) -> Vec<Act> {
    let arguments = &message["params"]["arguments"];
    let key = arguments["key"].as_str().unwrap_or_default();
    let mishap_of_call = arguments["mishap"].as_str().unwrap_or_default();
    let id = &message["id"];
    if mishap_of_call == "before" {
        return mishap(before);
    }
    if mishap_of_call == "refused" {
        return vec![Act::Fail(no_session(Evidence::Status))]; // Whatever the session.
    }
    let mut acts = vec![Act::Effect(key.to_owned())];
    for n in 1..=arguments["says"].as_u64().unwrap_or(0) {
        acts.push(Act::Say(numbered(key, n)));
    }
    if mishap_of_call == "asks" && !is_modern(message) {
        let n = asked.fetch_add(1, Ordering::Relaxed) + 1;
        acts.push(Act::Say(question(n, &format!("q:0:{n}"))));
    }
    if mishap_of_call == "elsewhere" {
        acts.push(Act::Elsewhere);
    }
    if let Some(ms) = arguments["ms"].as_u64().filter(|ms| *ms > 0) {
        acts.push(Act::Wait(Duration::from_millis(ms)));
    }
    let done = answer(id, json!({ "content": [], "got": key, "resultType": "complete" }));
    match mishap_of_call {
        "dies" => acts.push(Act::Die(KILLED)),
        "stays" => acts.push(Act::Stay),
        "cut" => acts.push(Act::Fail(Fault::AnswerCut)),
        "status" => acts.push(Act::Fail(status(502))),
        "forgets" => acts.extend([Act::Forget, Act::Fail(no_session(Evidence::Response))]),
        "elsewhere" => acts.push(Act::SayElsewhere(done)),
        "error" => acts.push(Act::Say(refusal(id, -32000, "no such luck"))),
        "twice" => acts.extend([Act::SayElsewhere(done.clone()), Act::Say(done)]),
        "garbage" => acts.extend([Act::Say(json!("rubbish")), Act::Say(done)]),
        _ => acts.push(Act::Say(done)),
    }
    acts
}

/// Something happens to the server, or to the way to it.
pub fn gust(server: &Remote, chance: &mut Chance, recorder: &Recorder) {
    let gust = chance.below(24);
    let latency = chance.length() / 10;
    let what = match gust {
        0 => "the server dies",
        1 => "packets vanish",
        2 => "the server forgets",
        3 => "every exchange breaks",
        4 => "credentials are refused",
        5 => "503",
        6 => "another latency",
        7 => "a list changed",
        8..14 => "all is well",
        _ => return,
    };
    recorder.note(Event::Weather(what.into()));
    match gust {
        0 => server.kill(),
        1 => server.set_path(Path::Partitioned),
        2 => server.forget(),
        3 => server.cut(),
        4 => server.world().refuses = Some(Fault::Unauthorized { code: 401 }),
        5 => server.world().refuses = Some(status(503)),
        6 => server.world().latency = latency,
        7 => server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })),
        _ => calm(server),
    }
}

/// The network is up, and the server takes our credentials.
pub fn calm(server: &Remote) {
    server.world().latency = Duration::ZERO;
    server.revive();
    server.mend();
}
