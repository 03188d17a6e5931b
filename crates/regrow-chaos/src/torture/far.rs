//! The far side of a lane: a server that misbehaves, started by the program under torture or by us behind a network that fails.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::face::Hand;
use super::history::Tool;
use super::plan::{Kind, Step};
use super::system::{self, MARK, Process};
use super::witness::Witness;
use crate::Journal;
use crate::proxy::{Canned, Fault, Proxy};

/// How long a server that is told something may take to show it.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(2);

pub(super) struct Far {
    pub(super) witness: Witness,
    journal: Journal,
    mark: String,
    /// Where it is a remote one.
    site: Option<Site>,
}

/// A server behind HTTP, which is ours to start, and the network before it.
struct Site {
    program: PathBuf,
    plan: &'static str,
    address: SocketAddr,
    child: Option<Child>,
    proxy: Proxy,
}

impl Far {
    /// A server that the program under torture starts.
    pub(super) fn process(folder: &Path, mark: &str) -> io::Result<Far> {
        fs::create_dir_all(folder)?;
        let journal = Journal::new(folder);
        Ok(Far { witness: Witness::new(folder), journal, mark: mark.into(), site: None })
    }

    /// A server behind HTTP.
    pub(super) fn remote(folder: &Path, mark: &str, program: &Path, plan: &'static str) -> io::Result<Far> {
        let mut far = Far::process(folder, mark)?;
        // A port that stays ours while nobody listens: that of a proxy that has ended.
        let address = Proxy::start(([127, 0, 0, 1], 9).into())?.address();
        let proxy = Proxy::start(address)?;
        far.site = Some(Site { program: program.into(), plan, address, child: None, proxy });
        far.start_site()?;
        Ok(far)
    }

    /// Where the program under torture finds a remote server.
    pub(super) fn url(&self) -> Option<String> {
        self.site.as_ref().map(|site| format!("http://{}/mcp", site.proxy.address()))
    }

    /// The process that serves now, if it lives.
    pub(super) fn server(&mut self) -> Option<Process> {
        self.witness.look();
        system::marked_process(*self.witness.lives.last()?, &self.mark)
    }

    /// The servers that live at this moment; there must never be two.
    pub(super) fn servers(&mut self) -> Vec<Process> {
        self.witness.look();
        let mut last: Vec<u32> = self.witness.lives.iter().rev().take(4).copied().collect();
        last.dedup();
        let found: Vec<Process> =
            last.into_iter().filter_map(|pid| system::marked_process(pid, &self.mark)).collect();
        // One may have ended while the other was looked at; both must have lived at the same time.
        if found.len() > 1 && !found.iter().all(|process| process.is_alive()) {
            return found.into_iter().filter(|process| process.is_alive()).collect();
        }
        found
    }

    /// Does it, for as long as the step says where it is mended by hand.
    pub(super) fn strike(&mut self, step: &Step, hand: &Hand) -> io::Result<Struck> {
        let began = Instant::now();
        match self.site {
            None => self.strike_process(step, hand)?,
            Some(_) => self.strike_remote(step, hand)?,
        }
        let by_hand = self.site.is_some() || step.kind == Kind::Pause;
        Ok(Struck { since: if by_hand { Instant::now() } else { began } })
    }

    fn strike_process(&mut self, step: &Step, hand: &Hand) -> io::Result<()> {
        let server = self.server().map(|process| process.pid);
        let next = self.witness.lives.len() + 1;
        let habit = step.habit.items();
        let plan = match step.kind {
            Kind::BadStart if step.chance.is_multiple_of(2) => format!("{habit} exit-at-start@{next}"),
            Kind::BadStart => format!("{habit} crash-after-handshake@{next}"),
            _ => habit.to_owned(),
        };
        self.journal.set_control(&plan)?;
        let choose = |of: &[&'static str]| of[step.chance as usize % of.len()];
        // The calls that make trouble are answered or not, like any other; the history judges them.
        let trouble = |name, more| drop(hand.call_with(Tool::Other(name), &more));
        match step.kind {
            Kind::Kill | Kind::BadStart => self.signal(server, Signal::KILL),
            Kind::KillTwice => {
                self.signal(server, Signal::KILL);
                if self.wait(|far| far.witness.lives.len() >= next) {
                    let second = self.server().map(|process| process.pid);
                    self.signal(second, Signal::KILL);
                }
            }
            Kind::Segv => self.signal_until_dead(Signal::SEGV),
            Kind::Exit => {
                let (when, how) =
                    (choose(&["during", "before", "after"]), choose(&["exit1", "exit0", "abort"]));
                trouble("die", json!({ "when": when, "how": how }));
            }
            Kind::Pause => {
                self.signal(server, Signal::STOP);
                thread::sleep(step.hold);
                self.signal(server, Signal::CONT);
            }
            Kind::Hang => self.signal(server, Signal::STOP),
            Kind::CloseOutput => trouble("closeout", json!({ "answer": step.chance.is_multiple_of(2) })),
            Kind::CloseInput => trouble("closein", json!({})),
            Kind::HalfLine => trouble("half", json!({})),
            Kind::Noise => {
                for tool in ["garbage", "dup", "stray", "malformed"] {
                    trouble(tool, json!({}));
                }
            }
            Kind::StderrFlood => trouble("stderr", json!({ "bytes": "5MB" })),
            _ => hand.face.restart(),
        }
        Ok(())
    }

    fn strike_remote(&mut self, step: &Step, hand: &Hand) -> io::Result<()> {
        let fault = match step.kind {
            Kind::Reset => Fault::Reset,
            Kind::Refuse => Fault::Refuse,
            Kind::Blackhole => Fault::Blackhole,
            Kind::Stall => Fault::Stall,
            Kind::HalfClose => Fault::HalfClose,
            Kind::Truncate => Fault::Truncate(step.chance % 400),
            Kind::BadGateway => Fault::Answer(Canned::status(1 + (step.chance % 3) as usize, 502)),
            Kind::Busy => Fault::Answer(Canned::status(1, 503).header("Retry-After", "1")),
            _ => Fault::None,
        };
        let choose = |of: &[&'static str]| of[step.chance as usize % of.len()];
        let times = 1 + step.chance % 3;
        let plan = match step.kind {
            Kind::Forget => {
                let forms = ["404", "404-text", "404-empty", "400", "400-bare", "400-text", "200"];
                format!("expiry={} forget={}", choose(&forms), step.chance % 1_000_000)
            }
            Kind::DropAnswer => {
                format!("{} on=tools/call times={times}", choose(&["drop-answer", "drop-request"]))
            }
            Kind::CutStream => {
                let how = choose(&["answer=sse cut", "answer=sse finish", "cut-body=20"]);
                format!("{how} on=tools/call times={times}")
            }
            _ => String::new(),
        };
        self.journal.set_control(&plan)?;
        match step.kind {
            Kind::Outage => {
                self.end_site();
                thread::sleep(step.hold);
                self.start_site()?;
            }
            Kind::Pause => {
                let server = self.server().map(|process| process.pid);
                self.signal(server, Signal::STOP);
                thread::sleep(step.hold);
                self.signal(server, Signal::CONT);
            }
            Kind::Restart => hand.face.restart(),
            _ => {
                let Some(site) = &self.site else { return Ok(()) };
                site.proxy.set(fault);
                thread::sleep(step.hold);
                site.proxy.set(Fault::None);
            }
        }
        Ok(())
    }

    fn signal(&self, pid: Option<u32>, signal: Signal) {
        // No server lives now: the last trouble is not over, which is what the lane then sees.
        if let Some(process) = pid.and_then(|pid| system::marked_process(pid, &self.mark)) {
            system::signal(process.pid, signal);
        }
    }

    /// The runtime of the server swallows the first SIGSEGV that no fault caused.
    fn signal_until_dead(&mut self, signal: Signal) {
        let Some(server) = self.server() else { return };
        let deadline = Instant::now() + PATIENCE;
        while server.is_alive() && Instant::now() < deadline {
            system::signal(server.pid, signal);
            thread::sleep(GLANCE);
        }
    }

    /// Waits until this holds; false if it does not in time.
    fn wait(&mut self, holds: impl Fn(&mut Far) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.witness.look();
            if holds(self) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(GLANCE);
        }
    }

    fn start_site(&mut self) -> io::Result<()> {
        let Some(site) = &mut self.site else { return Ok(()) };
        let (known, mark) = (self.witness.ports, self.mark.clone());
        let mut command = super::clean(&site.program);
        command.args(["chaos-server", "--http", &site.address.to_string()]);
        command.env("CHAOS", site.plan).env("CHAOS_DIR", self.journal.dir()).env("CHAOS_LIFE", "3600s");
        command.env(MARK, mark).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        site.child = Some(command.spawn()?);
        match self.wait(|far| far.witness.ports > known) {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the chaos server does not start over HTTP"))
            }
        }
    }

    /// Ends a remote server. One that has ended already is as well.
    pub(super) fn end_site(&mut self) {
        if let Some(mut child) = self.site.as_mut().and_then(|site| site.child.take()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.end_site();
    }
}

/// Something was done.
pub(super) struct Struck {
    /// From when on recovery is measured: from the blow, or from its end where it was mended by hand.
    pub(super) since: Instant,
}
