//! Servers with a real authorization server, from npm and PyPI, as processes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// One that prints its origin, and ends when its input closes.
pub(crate) struct RealServer {
    process: Child,
    pub(crate) origin: String,
}

impl RealServer {
    pub(crate) fn start(mut command: Command) -> RealServer {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let origin = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("http://")).unwrap();
        // What else it says is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        RealServer { process, origin }
    }

    /// Where the programs are.
    pub(crate) fn scripts() -> PathBuf {
        root().join("tests/peers")
    }

    /// Of the MCP server.
    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait(); // Nothing depends on how it ends.
    }
}

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap()
}

/// The folder of installed peers, if this part of it is there.
pub(crate) fn peers(part: &str) -> Option<PathBuf> {
    let folder = root().join(".peers");
    match folder.join(part).exists() {
        true => Some(folder.canonicalize().unwrap()),
        false => skipped("real servers are not installed; tests/peers/install does that"),
    }
}

/// Says why a test does not run, which CI does not accept.
pub(crate) fn skipped<T>(reason: &str) -> Option<T> {
    assert!(std::env::var_os("REGROW_CI").is_none(), "in CI nothing may be skipped: {reason}");
    // Not by `eprintln!`, which is only shown for tests that fail.
    std::io::stderr().write_all(format!("skipped: {reason}\n").as_bytes()).unwrap();
    None
}
