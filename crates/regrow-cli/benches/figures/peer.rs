//! Who calls: a server alone, behind pipes, behind `regrow wrap`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

/// A server that is spoken to on two pipes.
pub(crate) struct Peer {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
    log: Receiver<(Instant, String)>,
    id: u64,
}

impl Peer {
    pub(crate) fn bare() -> Peer {
        Peer::start(Command::new(REGROW).arg("chaos-server"))
    }

    /// What any relay costs that does nothing but copy.
    pub(crate) fn piped() -> Peer {
        Peer::start(Command::new("sh").args(["-c", "cat | \"$0\" chaos-server | cat", REGROW]))
    }

    pub(crate) fn wrapped() -> Peer {
        Peer::start(Command::new(REGROW).args(["wrap", "--name", "chaos", "--", REGROW, "chaos-server"]))
    }

    /// All servers of a configuration, with this cache folder.
    pub(crate) fn served(config: &Path, cache: &Path) -> Peer {
        let mut command = Command::new(REGROW);
        Peer::start(command.args(["serve", "--transport", "stdio"]).arg(config).env("XDG_CACHE_HOME", cache))
    }

    /// In front of a remote server.
    pub(crate) fn remote(url: &str) -> Peer {
        Peer::start(Command::new(REGROW).args(["wrap", "--no-cache", "--name", "chaos", url]))
    }

    fn start(command: &mut Command) -> Peer {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("regrow starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (lines, log) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = lines.send((Instant::now(), line)); // Nobody may be interested any more.
            }
        });
        Peer { child, output, log, id: 0 }
    }

    pub(crate) fn send(&mut self, method: &str, params: Value) {
        self.id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.write(&message.to_string());
    }

    fn write(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(format!("{line}\n").as_bytes()).expect("written");
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn shake_hands(&mut self) {
        let client = json!({ "name": "bench", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        self.send("initialize", params);
        self.receive();
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    pub(crate) fn send_echo(&mut self) {
        self.send("tools/call", json!({ "name": "echo", "arguments": { "text": "hello" } }));
    }

    pub(crate) fn echo(&mut self) {
        self.send_echo();
        let answer = self.receive();
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    }

    pub(crate) fn server_pid(&mut self) -> i32 {
        self.send("tools/call", json!({ "name": "pid", "arguments": {} }));
        let answer = self.receive();
        answer["result"]["content"][0]["text"]
            .as_str()
            .and_then(|pid| pid.parse().ok())
            .expect("a process id")
    }

    /// Leaves in good order, and waits until everything is gone.
    pub(crate) fn leave(mut self) {
        self.child.wait().expect("it ends"); // That closes its input first.
    }

    pub(crate) fn wait_for_log(&self, part: &str) -> Instant {
        loop {
            let (at, line) = self.log.recv_timeout(Duration::from_secs(10)).expect("the line comes");
            if line.contains(part) {
                return at;
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill(); // The guard ends its server.
        let _ = self.child.wait();
    }
}
