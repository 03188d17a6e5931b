//! A server on pipes that crashes, hangs, closes half of its pipes, answers twice, in another order, or rubbish; by a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::Fault;
use regrow_testkit::chance::Chance;
use regrow_testkit::process::Stubborn;
use regrow_testkit::script::{Act, Plan, Speaks, answer, is_modern, refusal};
use regrow_testkit::server::Server;
use serde_json::{Value, json};

use crate::far::Calm;
use crate::history::{Event, Recorder};

/// What the newest start offers.
pub type Tools = Arc<Mutex<Option<Vec<String>>>>;

/// What a call may ask of the server beside its work.
pub const MISHAPS: [&str; 12] = [
    "dies",
    "dies first",
    "half",
    "hangs",
    "silent",
    "twice",
    "garbage",
    "stray",
    "error",
    "asks",
    "deaf",
    "long",
];

/// What a server speaks does not change from start to start.
pub fn speaks(seed: u64) -> Speaks {
    use Speaks::*;
    Chance(seed).pick(&[Legacy, Legacy, Modern, Both, LegacyDiesOfDiscover, LegacySilentOnDiscover])
}

pub fn server(seed: u64, calm: &Calm, tools: &Tools) -> Server {
    let (calm, tools) = (calm.clone(), tools.clone());
    Server::new(move |start| {
        let plan = plan(seed, start, &calm);
        let names = plan.tools.iter().map(|&name| name.to_owned()).collect();
        let tells = !plan.acts(&json!({ "id": 1, "method": "tools/list" })).is_empty();
        *tools.lock().expect("nobody panics while writing") = tells.then_some(names);
        plan
    })
}

fn death(chance: &mut Chance) -> Fault {
    let signal = Fault::Killed { signal: 9 };
    chance.pick(&[signal, Fault::Exited { code: 0 }, Fault::Exited { code: 1 }])
}

/// How the n-th start behaves.
fn plan(seed: u64, start: usize, calm: &Calm) -> Plan {
    let chance = &mut Chance(seed.wrapping_mul(1009).wrapping_add(start as u64));
    let asked = AtomicU64::new(0);
    let plan = Plan {
        speaks: speaks(seed),
        tells_unread: Chance(seed).one_in(2),
        tools: if chance.one_in(3) { vec!["pay", "safe", "more"] } else { vec!["pay", "safe"] },
        ..Plan::default()
    }
    .on("tools/call", move |message| work(start, &asked, message));
    match calm.load(Ordering::Relaxed) {
        true => plan,
        false => misbehave(chance, plan, calm),
    }
}

fn misbehave(chance: &mut Chance, mut plan: Plan, calm: &Calm) -> Plan {
    let stubborn = [Stubborn::No, Stubborn::No, Stubborn::IgnoresEnd, Stubborn::IgnoresTerm];
    plan.stubborn = chance.pick(&stubborn);
    plan.pipe = chance.pick(&[256, 4096, 65536]);
    let silent = |plan: Plan, method| {
        let calm = calm.clone();
        let usual = plan.clone();
        plan.on(method, move |message| match calm.load(Ordering::Relaxed) {
            true => usual.acts(message),
            false => vec![],
        })
    };
    match chance.below(18) {
        0 => plan.cannot_start = Some(Fault::SpawnFailed { program: "x".into(), reason: "busy".into() }),
        1 => plan.spawn_delay = chance.length(),
        2 => plan.start_delay = chance.length() * 5,
        3 => plan = silent(plan, "initialize"),
        4 => plan = silent(plan, "ping"),
        5 => plan = plan.on("tools/list", |_| vec![]),
        6 => plan.by_itself = vec![Act::Wait(chance.length()), Act::CloseOutput],
        7 => plan.by_itself = vec![Act::Wait(chance.length()), Act::StopReading],
        8 => {
            let last = [Act::Write("half a li".into()), Act::Wait(chance.length()), Act::Die(death(chance))];
            plan.by_itself = last.to_vec();
        }
        9 => plan.by_itself = vec![Act::Write("not a message\n".into())],
        10..13 => plan = plan.dies_after(chance.length(), death(chance)),
        _ => {}
    }
    if chance.one_in(3) {
        plan.by_itself.extend([Act::Wait(chance.length()), Act::Say(list_changed())]);
    }
    plan
}

fn list_changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
}

/// What a call does is in its arguments: its `key`, `ms` before the answer, and a `mishap`.
fn work(start: usize, asked: &AtomicU64, message: &Value) -> Vec<Act> {
    let arguments = &message["params"]["arguments"];
    let key = arguments["key"].as_str().unwrap_or_default();
    let mishap = arguments["mishap"].as_str().unwrap_or_default();
    let id = &message["id"];
    let say = |text: Option<String>| {
        Act::Say(answer(id, json!({ "content": [], "got": key, "resultType": "complete", "text": text })))
    };
    if mishap == "dies first" {
        return vec![Act::Die(Fault::Killed { signal: 11 })];
    }
    let mut acts = vec![Act::Effect(key.to_owned())];
    for n in 1..=arguments["says"].as_u64().unwrap_or(0) {
        acts.push(Act::Say(numbered(key, n)));
    }
    if mishap == "asks" && !is_modern(message) {
        let n = asked.fetch_add(1, Ordering::Relaxed) + 1;
        acts.push(Act::Say(question(n, &format!("q:{start}:{n}"))));
    }
    if let Some(ms) = arguments["ms"].as_u64().filter(|ms| *ms > 0) {
        acts.push(Act::Wait(Duration::from_millis(ms)));
    }
    match mishap {
        "dies" => acts.push(Act::Die(Fault::Killed { signal: 9 })),
        "half" => acts.extend([
            Act::Write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"got\":\"{key}")),
            Act::Die(Fault::Exited { code: 1 }),
        ]),
        "hangs" => acts.push(Act::StopReading),
        "silent" => {}
        "twice" => acts.extend([say(None), say(None)]),
        "garbage" => acts.extend([Act::Write("{\"jsonrpc\": oh no\n\n[]\n\u{0}\n".into()), say(None)]),
        "stray" => {
            acts.extend([Act::Say(answer(&json!(999_999_999), json!({ "got": "z:1:pay" }))), say(None)])
        }
        "error" => acts.push(Act::Say(refusal(id, -32000, "no such luck"))),
        "deaf" => acts.extend([Act::CloseOutput, say(None)]),
        "long" => acts.push(say(Some("x".repeat(10_000)))),
        _ => acts.push(say(None)),
    }
    acts
}

/// A message that must reach the client before the answer to this call does.
pub fn numbered(key: &str, n: u64) -> Value {
    let params = json!({ "level": "info", "data": { "key": key, "n": n } });
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params })
}

/// A question to a person.
pub fn question(id: u64, nonce: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": { "nonce": nonce } })
}

/// Something may happen to the running process.
pub fn gust(server: &Server, chance: &mut Chance, recorder: &Recorder) {
    let gust = chance.below(30);
    let fault = death(chance);
    if !server.is_running() {
        return;
    }
    match gust {
        0 | 1 => {
            recorder.note(Event::Weather(fault.to_string()));
            server.die(fault);
        }
        2 => act(server, recorder, Act::CloseOutput),
        3 => act(server, recorder, Act::StopReading),
        4 => act(server, recorder, Act::ReadOn),
        5 => act(server, recorder, Act::Say(list_changed())),
        6 => act(server, recorder, Act::Write("\u{1b}[31mnoise\n".into())),
        _ => {}
    }
}

fn act(server: &Server, recorder: &Recorder, act: Act) {
    recorder.note(Event::Weather(format!("{act:?}")));
    server.act(act);
}
