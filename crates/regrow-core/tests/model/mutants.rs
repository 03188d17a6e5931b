//! Seeded bugs: each is one line of the real source, changed. The checker must find every one of them.
//!
//! No switch in the source helps with that: a copy of the crate is changed, built, and checked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::{env, fs, thread};

struct Mutant {
    bug: &'static str,
    file: &'static str,
    line: &'static str,
    becomes: &'static str,
    /// The scope that finds it.
    scope: &'static str,
    /// What must be found broken: this, or one of these.
    breaks: &'static str,
}

const fn mutant(
    bug: &'static str,
    file: &'static str,
    line: &'static str,
    becomes: &'static str,
    scope: &'static str,
    breaks: &'static str,
) -> Mutant {
    Mutant { bug, file, line, becomes, scope, breaks }
}

const MUTANTS: [Mutant; 58] = [
    mutant(
        "a call behind a handshake fails with the first attempt",
        "ledger/loss.rs",
        "let with_handshake = handshakes_wait && self.calls.values().any(greets);",
        "let with_handshake = false && self.calls.values().any(greets);",
        "relay",
        "P2",
    ),
    mutant(
        "no epoch check",
        "lifecycle.rs",
        "if event.epoch().is_some_and(|epoch| epoch != self.epoch) {",
        "if false {",
        "ends",
        "P10 P4",
    ),
    mutant(
        "a charge per event",
        "lifecycle/accounts.rs",
        "if charged && self.charged != Some(epoch) {",
        "if charged {",
        "orders",
        "P4",
    ),
    mutant(
        "a fault told per event",
        "lifecycle.rs",
        "(S::Closing { .. }, E::Lost(_, fault)) if !self.is_charged() => {",
        "(S::Closing { .. }, E::Lost(_, fault)) => {",
        "ends",
        "P4",
    ),
    mutant(
        "an unsafe call is replayed",
        "ledger/call.rs",
        "Nature::Effect => false,",
        "Nature::Effect => true,",
        "calls",
        "P3",
    ),
    mutant(
        "a safe call is replayed without a limit",
        "ledger/call.rs",
        "_ if self.written >= policy.max_sends => false, // Whatever became of them.",
        "",
        "exchange",
        "P3",
    ),
    mutant(
        "what may have run is said to be not sent",
        "ledger/call.rs",
        "Place::Waiting | Place::Paused(..) => delivery_after(self.sends),",
        "Place::Waiting | Place::Paused(..) => delivery_after(self.sends.saturating_sub(1)),",
        "calls",
        "P3",
    ),
    mutant(
        "a new epoch before the old one is gone",
        "lifecycle.rs",
        "if *then != Intent::Close => {\n                self.hurry()",
        "if *then != Intent::Close => {\n                self.gone(now)",
        "orders",
        "P1",
    ),
    mutant(
        "abandoned too soon",
        "lifecycle/ending.rs",
        "let deadline = now + ladder + self.policy.abandon_after;",
        "let deadline = now + ladder;",
        "ends",
        "P1",
    ),
    mutant(
        "benign noise is charged",
        "fault.rs",
        "(Class::Orderly, Proven) => (AtOnce, false),",
        "(Class::Orderly, Proven) => (Retry, true),",
        "one call",
        "P4",
    ),
    mutant(
        "mixed noise is not charged",
        "lifecycle/ending.rs",
        "if !verdict.charged {",
        "if true {",
        "ends",
        "P4",
    ),
    mutant(
        "the budget is reset when a session is ready",
        "lifecycle/attempts.rs",
        "self.probes = None;",
        "self.probes = None; self.accounts.forget();",
        "ends",
        "P4",
    ),
    mutant(
        "over budget it goes on trying",
        "lifecycle/attempts.rs",
        "if remedy != Remedy::AtOnce && deferral.is_none() && self.has_spent(now) =>",
        "if false =>",
        "ends",
        "P5",
    ),
    mutant(
        "a call hurries a parked connection",
        "lifecycle/attempts.rs",
        "*probe_at = Some(floor);",
        "*probe_at = Some(now);",
        "one call",
        "P5",
    ),
    mutant(
        "an answer reaches a call of another epoch",
        "ledger.rs",
        "if !matches!(call.place, Place::On(on, _) if on == epoch) {",
        "if false {",
        "calls",
        "P7",
    ),
    mutant(
        "a call is dropped without an end",
        "ledger/loss.rs",
        "over.push(Ended { delivery, refused, ..ended(id, call) });",
        "drop((call.reply, delivery, refused, id));",
        "calls",
        "P2",
    ),
    mutant(
        "a call that may move is forgotten",
        "ledger/loss.rs",
        "self.waiting.insert(call.arrival, id);\n            } else if",
        "} else if",
        "calls",
        "P8 P9",
    ),
    mutant(
        "no floor between attempts",
        "lifecycle/attempts.rs",
        "self.pause(now, start.max(floor), fault)",
        "self.pause(now, start, fault)",
        "orders",
        "P10",
    ),
    mutant(
        "every wrong guess of the era goes without the floor",
        "lifecycle/first.rs",
        "!self.has_failed && *fault == Fault::WrongEra",
        "*fault == Fault::WrongEra",
        "ends",
        "P10",
    ),
    mutant(
        "a waiting call is kept when closed",
        "ledger/loss.rs",
        "self.fail_where(|call| for_good || call.nature != Nature::Stream)",
        "self.fail_where(|call| call.nature != Nature::Stream)",
        "relay",
        "P6",
    ),
    mutant(
        "streams are counted as calls",
        "ledger/queries.rs",
        "!call.own && call.nature != Nature::Stream && wanted(call))",
        "!call.own && wanted(call))",
        "relay",
        "P4",
    ),
    mutant(
        "a machine that slept blames the server",
        "watch.rs",
        "_ if slept => Sign::Ask(",
        "_ if false => Sign::Ask(",
        "liveness",
        "P4",
    ),
    mutant(
        "no exchange that failed may have run",
        "fault.rs",
        "        !matches!(\n            self,\n            Misconfigured",
        "        false && !matches!(\n            self,\n            Misconfigured",
        "exchange",
        "P3",
    ),
    mutant(
        "an unsafe call whose exchange failed is sent again",
        "ledger/loss.rs",
        "let may_move = !self.closed && !refused_again && call.may_move(clock, !may_repeat, &self.policy);",
        "let may_move = !self.closed && !refused_again;",
        "exchange",
        "P3",
    ),
    mutant(
        "a paused call is kept when closed",
        "ledger/call.rs",
        "matches!(self.place, Place::Waiting | Place::Paused(..))",
        "matches!(self.place, Place::Waiting)",
        "exchange",
        "P2 P6",
    ),
    mutant(
        "a call whose pause is over is forgotten",
        "ledger.rs",
        "self.waiting.insert(call.arrival, id);",
        "",
        "exchange",
        "P8 P9",
    ),
    mutant(
        "a forgotten session gets more calls",
        "ledger/loss.rs",
        "if fault.reach() == Reach::Session && self.live == Some(epoch) {",
        "if false {",
        "exchanges",
        "P7",
    ),
    mutant(
        "a call that is refused again ends the next session, too",
        "ledger.rs",
        "Some(call) if call.refused => self.refusals.request(true),",
        "",
        "refused",
        "P3",
    ),
    mutant(
        "a call loses its exchange with a forgotten session",
        "lifecycle/ending.rs",
        "Reach::Session => Effect::Retire(self.epoch, fault),",
        "Reach::Session => Effect::Settle(self.epoch, fault),",
        "refused",
        "P2",
    ),
    mutant(
        "a call on a forgotten session outlives the connection",
        "lifecycle/ending.rs",
        "Effect::EndAll(Fault::Closed),",
        "",
        "refused",
        "P6",
    ),
    mutant(
        "a failed probe ends a session under older calls",
        "watch.rs",
        "Watch::Probed { since, .. } if pulse.has_call_from_before(since) => {\n                Some(",
        "Watch::Probed { since, .. } if false => {\n                Some(",
        "exchanges",
        "P4",
    ),
    mutant(
        "a forgotten session is always charged",
        "fault.rs",
        "(Class::Expired, Busy | Proven) => (AtOnce, false),",
        "(Class::Expired, Busy | Proven) => (Retry, true),",
        "exchanges",
        "P4",
    ),
    mutant(
        "a call shortens a pause that the server asked for",
        "lifecycle/attempts.rs",
        "if self.is_deferred(now) {",
        "if false {",
        "deferred",
        "P5",
    ),
    mutant(
        "a program shortens a pause that the server asked for",
        "lifecycle/attempts.rs",
        "Requester::Program if self.is_deferred(now) => return vec![],",
        "Requester::Program if false => return vec![],",
        "deferred",
        "P5",
    ),
    mutant(
        "over budget, a pause that the server asked for is not kept",
        "lifecycle/attempts.rs",
        "if remedy != Remedy::AtOnce && deferral.is_none() && self.has_spent(now) =>",
        "if remedy != Remedy::AtOnce && self.has_spent(now) =>",
        "deferred",
        "P5",
    ),
    mutant(
        "a pause that the server asked for is a free end",
        "lifecycle/accounts.rs",
        "Remedy::Retry | Remedy::Park => self.free_in_a_row, // Its pause bounds it.",
        "Remedy::Retry | Remedy::Park => self.free_in_a_row.saturating_add(1),",
        "deferred",
        "P4",
    ),
    mutant(
        "a pause that the server asked for is charged after free ends",
        "lifecycle/accounts.rs",
        "if at_once && (leads_nowhere || exits_again) {",
        "if leads_nowhere || exits_again {",
        "deferred",
        "P4",
    ),
    mutant(
        "what is mended in time is not tried",
        "lifecycle.rs",
        "self.mended = Some(self.epoch);",
        "",
        "mended",
        "P9",
    ),
    mutant(
        "a mend wakes whatever is parked",
        "lifecycle.rs",
        "(S::Parked { fault, .. }, E::Mended) if fault.is_permanent() => {",
        "(S::Parked { .. }, E::Mended) => {",
        "deferred",
        "P5",
    ),
    mutant(
        "demand wakes what an operator parked",
        "lifecycle.rs",
        "(state, E::Demand) if state.is_parked_by_command() =>",
        "(state, E::Demand) if state.is_parked_by_command() && !matches!(state, S::Parked { .. }) =>",
        "operator",
        "P5",
    ),
    mutant(
        "a program starts what an operator parked",
        "lifecycle.rs",
        "(S::Parked { fault: Fault::Parked, .. }, E::Start | E::Reconnect(Requester::Program)) => vec![],",
        "",
        "operator",
        "P5",
    ),
    mutant(
        "a call waits for what an operator parks",
        "lifecycle/commands.rs",
        "asleep || self.state.is_parked_by_command()",
        "asleep",
        "operator",
        "P8",
    ),
    mutant(
        "a session rests under its calls",
        "lifecycle/commands.rs",
        "&& pulse.pending == 0 &&",
        "&&",
        "operator",
        "P2",
    ),
    mutant(
        "a session rests though its client listens",
        "lifecycle/commands.rs",
        "&& !pulse.listening",
        "",
        "operator",
        "P2",
    ),
    mutant(
        "a wake starts a second attempt while one runs",
        "lifecycle/commands.rs",
        "State::Idle | State::Backoff { .. } | State::Parked { .. } => {\n                self.connect_soon(now, Requester::Person)",
        "State::Connecting { .. } => self.connect(now.max(self.attempt_floor())), State::Idle | State::Backoff { .. } | State::Parked { .. } => {\n                self.connect_soon(now, Requester::Person)",
        "operator",
        "P1 P10",
    ),
    mutant(
        "a reset budget wakes what an operator parked",
        "lifecycle/commands.rs",
        "&& *fault != Fault::Parked",
        "",
        "operator",
        "P5",
    ),
    mutant(
        "a call fails with the first attempt that fails",
        "ledger/loss.rs",
        "Patience::All => true,",
        "Patience::All => false,",
        "patience",
        "P2",
    ),
    mutant(
        "patience never ends",
        "ledger/loss.rs",
        "&& now < call.waits_since + longest",
        "",
        "patience",
        "P8",
    ),
    mutant(
        "a call that may have run is patient",
        "ledger/loss.rs",
        "may_wait && did_not_run &&",
        "may_wait &&",
        "patience",
        "P8",
    ),
    mutant(
        "calls to a parked server are patient",
        "ledger/loss.rs",
        "Patience::TakenBefore(parked) => call.taken < parked,",
        "Patience::TakenBefore(_) => true,",
        "patience",
        "P8",
    ),
    mutant(
        "a server that was never healthy gets patience",
        "lifecycle/accounts.rs",
        "_ if !healthy || !soon => Patience::None,",
        "_ if !soon => Patience::None,",
        "patience",
        "P8",
    ),
    mutant(
        "a busy server is taken for hung",
        "watch.rs",
        "_ if trust.answers_when_busy && !trust.refused => Sign::Silent,",
        "_ if !trust.refused => Sign::Silent,",
        "hangs",
        "P4",
    ),
    mutant(
        "an answer after that to a call proves that a server answers when busy",
        "watch.rs",
        "&& pulse.read <= read.saturating_add(1)",
        "",
        "hangs",
        "P4",
    ),
    mutant(
        "calls are taken while it closes",
        "supervisor/turn.rs",
        "self.on.ledger.close(); // Before the calls that wait are failed: none may come after.",
        "",
        "closes",
        "P6 P8",
    ),
    mutant(
        "calls that wait start nothing",
        "supervisor.rs",
        "self.lifecycle.heeds_demand() && self.ledger.waiting() > 0",
        "false",
        "calls",
        "P8 P9",
    ),
    mutant(
        "a call whose pause is over is not sent",
        "supervisor/turn.rs",
        "self.outputs.extend(self.on.ledger.open_session().map(Output::Dispatch));",
        "",
        "exchange",
        "P9",
    ),
    mutant(
        "a call of an earlier session is not sent on the next",
        "supervisor.rs",
        "Missed::Kept { dispatch: self.ledger.open_session().filter(|&open| open != epoch) }",
        "Missed::Kept { dispatch: None }",
        "refused",
        "P9",
    ),
    mutant(
        "a call times out before what arrived in a sleep is read",
        "supervisor/turn.rs",
        "match self.on.grace.judge(now, due, self.facts.behind) {",
        "match Judgement::Now {",
        "liveness",
        "P2",
    ),
];

#[test]
fn every_seeded_bug_has_its_line_in_the_source() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for Mutant { bug, file, line, .. } in MUTANTS {
        let text = fs::read_to_string(source.join(file)).expect("the source is here");
        assert!(text.contains(line), "{bug}: {file} has no line {line:?} any more");
    }
}

#[test]
#[ignore = "builds the crate for each of them; run with --ignored"]
fn every_seeded_bug_is_found() {
    let wanted = env::var("REGROW_BUG").unwrap_or_default();
    let left = Mutex::new(MUTANTS.iter().filter(|mutant| mutant.bug.contains(&wanted)));
    let missed = Mutex::new(vec![]);
    let next = || left.lock().expect("nobody panicked with it").next();
    // Most of the time goes into the compiler, which uses one core for much of it.
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (next, missed) = (&next, &missed);
            scope.spawn(move || {
                let copy = copy_of_the_crate(worker);
                while let Some(mutant) = next() {
                    if !mutant.is_found(&copy) {
                        missed.lock().expect("nobody panicked with it").push(mutant.bug);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("nobody panicked with it");
    assert!(missed.is_empty(), "not found, or not as what they are: {missed:?}");
}

impl Mutant {
    /// Whether the checker finds it in this copy of the crate, and as what it is.
    fn is_found(&self, copy: &Path) -> bool {
        let Mutant { bug, file, line, becomes, scope, breaks } = self;
        let path = copy.join("crates/regrow-core/src").join(file);
        let sound = fs::read_to_string(&path).expect("the copy is there");
        assert!(sound.matches(line).count() >= 1, "{bug}: {file} has no line {line:?} any more");
        fs::write(&path, sound.replacen(line, becomes, 1)).expect("the copy can be written");
        let built = cargo(copy, &["--no-run"], scope);
        assert!(built.status.success(), "{bug} does not build:\n{}", text(&built));
        let checked = cargo(copy, &["no_order_of_events", "--", "--nocapture"], scope);
        fs::write(&path, sound).expect("the copy can be written");
        let found = text(&checked);
        let verdicts =
            || found.lines().filter(|line| line.starts_with("broken: ") || line.starts_with("P10:"));
        let is_meant =
            |verdict: &&str| breaks.split(' ').any(|property| verdict.contains(&format!("{property}:")));
        let as_expected = verdicts().find(is_meant);
        println!("{bug}: {}", as_expected.or(verdicts().next()).unwrap_or("MISSED"));
        !checked.status.success() && as_expected.is_some()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn cargo(copy: &Path, arguments: &[&str], scope: &str) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(copy)
        .args(["test", "--offline", "--quiet", "-p", "regrow-core", "--test", "model"])
        .args(arguments)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .env("REGROW_MODEL", scope)
        .env("REGROW_THREADS", "1")
        .env("RUSTFLAGS", "-Awarnings")
        .output()
        .expect("cargo runs, for it runs us")
}

/// A workspace of this crate and the one that it uses, beside what is built.
fn copy_of_the_crate(number: usize) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants-{number}"));
    for place in ["crates/regrow-core", "crates/regrow-protocol"] {
        copy_folder(&workspace.join(place), &copy.join(place));
    }
    fs::copy(workspace.join("Cargo.lock"), copy.join("Cargo.lock")).expect("it is copied");
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).expect("the workspace is here");
    // Of the workspace only these crates are there.
    let is_members = |line: &&str| line.starts_with("members") || line.starts_with("default-members");
    let lines = manifest.lines().filter(|line| !is_members(line)).collect::<Vec<_>>().join("\n");
    let manifest = lines.replace("[workspace]\n", "[workspace]\nmembers = [\"crates/*\"]\n");
    // Most bugs are found soon, so compiling takes longer than looking.
    let optimized = "[profile.dev.package.regrow-core]\nopt-level = 2";
    assert!(manifest.contains(optimized), "the manifest says otherwise how this crate is compiled");
    let manifest = manifest.replace(optimized, "");
    fs::write(copy.join("Cargo.toml"), manifest).expect("it is copied");
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target folder can be written");
    for entry in fs::read_dir(from).expect("the crate is here") {
        let entry = entry.expect("the crate is here").path();
        let copied = to.join(entry.file_name().expect("an entry has a name"));
        if entry.is_dir() {
            copy_folder(&entry, &copied);
        } else {
            fs::copy(&entry, copied).expect("the target folder can be written");
        }
    }
}
