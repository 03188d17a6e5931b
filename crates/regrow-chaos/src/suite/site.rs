//! The misbehaving server over HTTP, at a port that stays its own through all its lives, behind a network that fails.

use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::journal::Journal;
use crate::port;
use crate::proxy::Proxy;

const START: Duration = Duration::from_secs(20);

/// A server of HTTP that the suite itself starts and ends.
pub(super) struct Site {
    program: Vec<String>,
    plan: String,
    address: SocketAddr,
    journal: Journal,
    child: Option<Child>,
    /// What is between the client and the server.
    pub(super) network: Proxy,
}

impl Site {
    /// Has a port, but does not run yet.
    pub(super) fn new(program: &[String], plan: &str, journal: &Journal) -> io::Result<Site> {
        let address = port::bind_any()?.local_addr()?;
        let network = Proxy::start(address)?;
        let (program, plan) = (program.to_vec(), plan.to_owned());
        Ok(Site { program, plan, address, journal: journal.clone(), child: None, network })
    }

    /// Where clients find it.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.network.address())
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        let lives = self.journal.starts() + 1;
        let (program, arguments) = self.program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let child = Command::new(program)
            .args(arguments)
            .args(["--http", &self.address.to_string()])
            .env("CHAOS", &self.plan)
            .env("CHAOS_DIR", self.journal.dir())
            .env("CHAOS_LIFE", "300s")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        self.child = Some(child);
        let ports =
            |journal: &Journal| journal.lines().iter().filter(|line| line.starts_with("port ")).count();
        match self.journal.wait(START, |journal| ports(journal) >= lives) {
            true => Ok(()),
            false => Err(io::Error::other("our own server did not start")),
        }
    }

    /// Ends it with SIGKILL; it is dead on return.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended on its own, which is as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
    }
}
