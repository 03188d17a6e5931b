//! How a life begins: its configuration, and what goes wrong before the first byte is read.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::Server;
use super::evidence::Evidence;
use super::http::Http;
use super::life::{self, Death};
use super::output::Output;
use crate::journal::Journal;
use crate::plan::{Orders, Plan, parse_duration};

const LIFE_TIME: Duration = Duration::from_secs(300);

pub(super) fn run() -> ExitCode {
    match begin() {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("regrow-chaos: {problem}");
            ExitCode::from(64)
        }
    }
}

fn begin() -> Result<ExitCode, String> {
    let life_time = match env::var("CHAOS_LIFE") {
        Ok(text) => parse_duration(&text).ok_or_else(|| format!("CHAOS_LIFE: no duration: {text}"))?,
        Err(_) => LIFE_TIME,
    };
    let dir = env::var_os("CHAOS_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let evidence = Evidence::open(dir.as_deref()).map_err(|error| format!("journal: {error}"))?;
    let arguments: Vec<String> = env::args().skip(2).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["--http", _] => {}
        ["helper", session] => return Ok(life::help(session, life_time, &evidence)),
        ["guard", server, life_time] => return Ok(life::guard(server, life_time)),
        _ => return Err(format!("unexpected arguments: {arguments:?}")),
    }
    let http = arguments.get(1).map(|address| loopback(address)).transpose()?.map(Http::new);
    let plan = Plan::parse(&env::var("CHAOS").unwrap_or_default()).map_err(|error| error.to_string())?;
    let resumed = env::var(life::RESUMED).ok().and_then(|life| life.parse().ok());
    let life = match resumed {
        Some(life) => life,
        None => evidence.begin_life().map_err(|error| format!("journal: {error}"))?,
    };
    let server = Arc::new(Server {
        life,
        ends_at: Instant::now() + life_time,
        dir,
        plan,
        evidence,
        output: match &http {
            Some(http) => Output::Listeners(http.sessions()),
            None => Output::default(),
        },
        // Over HTTP each session has a handshake of its own, and is looked up there.
        initialized: AtomicBool::new(http.is_some()),
        http,
        discovered: Default::default(),
        ready: Default::default(),
        stdin_closed: Default::default(),
        received: Default::default(),
        calls_answered: Default::default(),
        tools_added: Default::default(),
        next_question: Default::default(),
        running: Default::default(),
        questions: Default::default(),
        subscriptions: Default::default(),
        listens: Default::default(),
    });
    life::forbid_core_files();
    let witness = Arc::clone(&server);
    life::limit_life(life_time, move || witness.evidence.note(&format!("end {} life-time", process::id())))
        .map_err(|error| error.to_string())?;
    let orders = server.orders();
    if orders.has("ignore-term") && resumed.is_none() {
        return Err(format!("cannot ignore SIGTERM: {}", life::ignore_term(life)));
    }
    server.misbehave_at_start(&orders);
    let Some(http) = &server.http else { server.serve() };
    server.serve_http(http).map_err(|error| format!("HTTP: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Nobody outside may reach a server that misbehaves.
fn loopback(address: &str) -> Result<SocketAddr, String> {
    let parsed = address.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
    parsed.ok_or_else(|| format!("no address of the loopback interface with a port: {address}"))
}

impl Server {
    fn misbehave_at_start(&self, orders: &Orders) {
        if let Some(name) = orders.text("log-secret") {
            eprintln!("regrow-chaos: connecting with {}", env::var(name).unwrap_or_default());
        }
        if let Some(code) = orders.number("exit-at-start") {
            eprintln!("regrow-chaos: exits at start, as planned");
            self.end("exit-at-start", Death::Exit(u8::try_from(code).unwrap_or(1)));
        }
        for (item, own_session) in [("helper", false), ("helper-setsid", true)] {
            for pipes in orders.texts(item) {
                self.start_helper(own_session, pipes == "hold");
            }
        }
        if let Some(bytes) = orders.number("flood-stderr") {
            life::flood_stderr(bytes);
        }
        thread::sleep(orders.time("slow-start").unwrap_or_default());
        if orders.has("garbage-on-start") {
            self.output.raw(
                b"Server starting ...\n\n\xff\xfe\xc3\x28 not UTF-8\n{\"half\": \n[]\n42\n\"text\"\n{}\n",
            );
        }
    }

    /// Returns when the helper is in place, so that it is there when our first answer is seen.
    fn start_helper(&self, own_session: bool, holds_pipes: bool) {
        let pid = match life::start_helper(own_session, holds_pipes) {
            Ok(pid) => pid,
            Err(error) => {
                eprintln!("regrow-chaos: no helper: {error}");
                self.end("no-helper", Death::Exit(71))
            }
        };
        if let Some(dir) = &self.dir {
            let there =
                Journal::new(dir).wait(Duration::from_secs(5), |journal| journal.helpers().contains(&pid));
            if !there {
                self.end("no-helper", Death::Exit(71));
            }
        }
    }
}
