//! The far side of a lane: a server that misbehaves, started by the program under torture or by us behind a network that fails.

mod process;
mod remote;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::processes;
use rustix::process::Signal;

use super::face::Hand;
use super::plan::{Kind, Step};
use super::system::{self, Process};
use super::witness::Witness;
use regrow_chaos::Journal;
use regrow_chaos::proxy::Proxy;
use regrow_chaos::sync::wait_until;

/// How long a server that is told something may take to show it.
const PATIENCE: Duration = Duration::from_secs(20);
/// A server that nobody ends lives no longer.
pub(crate) const LIFE: &str = "360m";

pub(crate) struct Far {
    pub(crate) witness: Witness,
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
    pub(crate) fn process(folder: &Path, mark: &str) -> io::Result<Far> {
        fs::create_dir_all(folder)?;
        let journal = Journal::new(folder);
        Ok(Far { witness: Witness::new(folder), journal, mark: mark.into(), site: None })
    }

    /// A server behind HTTP.
    pub(crate) fn remote(folder: &Path, mark: &str, program: &Path, plan: &'static str) -> io::Result<Far> {
        let mut far = Far::process(folder, mark)?;
        // A port that stays ours while nobody listens: that of a proxy that has ended.
        let address = Proxy::start(([127, 0, 0, 1], 9).into())?.address();
        let proxy = Proxy::start(address)?;
        far.site = Some(Site { program: program.into(), plan, address, child: None, proxy });
        far.start_site()?;
        Ok(far)
    }

    /// Where its journal is.
    pub(crate) fn folder(&self) -> &Path {
        self.journal.dir()
    }

    /// Where the program under torture finds a remote server.
    pub(crate) fn url(&self) -> Option<String> {
        self.site.as_ref().map(|site| format!("http://{}/mcp", site.proxy.address()))
    }

    /// The process that serves now, if it lives.
    pub(crate) fn server(&mut self) -> Option<Process> {
        self.witness.look();
        system::marked_process(*self.witness.lives.last()?, &self.mark)
    }

    /// The servers that live at this moment; there must never be two.
    pub(crate) fn servers(&mut self) -> Vec<Process> {
        self.witness.look();
        // The newest is looked at first: an older one that is found after it lived at the same time.
        let mut found: Vec<Process> = vec![];
        for pid in self.witness.lives.iter().rev().take(4) {
            if found.iter().all(|process| process.pid != *pid) {
                found.extend(system::marked_process(*pid, &self.mark));
            }
        }
        found
    }

    /// Does it, for as long as the step says where it is undone by hand. Returns from when on recovery is measured: from
    /// the blow, or from its end where it was undone by hand.
    pub(crate) fn strike(&mut self, step: &Step, hand: &Hand) -> io::Result<Instant> {
        let began = Instant::now();
        match self.site {
            None => self.strike_process(step, hand)?,
            Some(_) => self.strike_remote(step, hand)?,
        }
        let by_hand = self.site.is_some() || step.kind == Kind::Pause;
        Ok(if by_hand { Instant::now() } else { began })
    }

    fn pause(&mut self, hold: Duration) {
        let server = self.server().map(|process| process.pid);
        self.signal(server, Signal::STOP);
        thread::sleep(hold);
        self.signal(server, Signal::CONT);
    }

    fn signal(&self, pid: Option<u32>, signal: Signal) {
        // No server lives now: the last trouble is not over, which is what the lane then sees.
        if let Some(process) = pid.and_then(|pid| system::marked_process(pid, &self.mark)) {
            processes::signal(process.pid, signal);
        }
    }

    /// Waits until this holds; false if it does not in time.
    fn wait(&mut self, holds: impl Fn(&mut Far) -> bool) -> bool {
        wait_until(PATIENCE, || {
            self.witness.look();
            holds(self)
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.end_site();
    }
}
