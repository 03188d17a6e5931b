//! A server of HTTP that misbehaves on command, and the network before it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::Journal;
use regrow_chaos::proxy::Proxy;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE, Setup, fault, is_failure, text};
use crate::evidence::{slack, wait_until};

/// The era that client and server speak with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

use Era::{Legacy, Modern};

/// Both of them.
pub const ERAS: [Era; 2] = [Legacy, Modern];

/// Runs a test in both eras at once: most of the time it waits.
pub fn in_both_eras(test: impl Fn(Era) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        for era in ERAS {
            scope.spawn(move || test(era));
        }
    });
}

impl Era {
    /// The plan of a server that speaks only this one.
    fn plan(self) -> &'static str {
        match self {
            Legacy => "refuse-discover",
            Modern => "modern-only",
        }
    }
}

/// A server at a port that stays its own through all its lives.
pub struct Site {
    child: Option<Child>,
    folder: TempDir,
    plan: String,
    port: u16,
    era: Era,
    pub journal: Journal,
}

impl Site {
    /// Runs with this plan (see `regrow_chaos`).
    pub fn new(era: Era, plan: &str) -> Site {
        let mut site = Site::down(era, plan);
        site.start();
        site
    }

    /// Runs with just this plan; its clients begin in this era.
    pub fn with_plan(era: Era, plan: &str) -> Site {
        let mut site = Site::down(era, "");
        site.plan = plan.into();
        site.start();
        site
    }

    /// Has a port, but does not run yet.
    pub fn down(era: Era, plan: &str) -> Site {
        let folder = TempDir::new().unwrap();
        let journal = Journal::new(folder.path());
        let plan = format!("{} {plan}", era.plan());
        // A port that no other test takes: that of a proxy that has ended.
        let port = Proxy::start(([127, 0, 0, 1], 9).into()).unwrap().address().port();
        Site { child: None, folder, plan, port, era, journal }
    }

    pub fn start(&mut self) {
        assert!(self.child.is_none());
        let lives = self.journal.starts() + 1;
        let child = Command::new(env!("CARGO_BIN_EXE_regrow"))
            .args(["chaos-server", "--http", &self.address().to_string()])
            .env("CHAOS", &self.plan)
            .env("CHAOS_DIR", self.folder.path())
            .env("CHAOS_LIFE", "120s")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        let ports =
            |journal: &Journal| journal.lines().iter().filter(|line| line.starts_with("port ")).count();
        assert!(self.journal.wait(PATIENCE, |journal| ports(journal) == lives), "the server does not start");
    }

    /// Ends it with SIGKILL; it is dead on return. Says when.
    pub fn kill(&mut self) -> Instant {
        let at = Instant::now();
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
        at
    }

    /// Waits until nobody holds a connection to it any more. A call that leaves on a connection which is just being closed may have run.
    pub fn wait_until_disconnected(&self) {
        let port = format!(":{:04X}", self.port);
        wait_until("its connections are closed", PATIENCE, || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            !table.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(2);
                let (peer, state) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
                peer.ends_with(&port) && matches!(state, "01" | "08") // Established, or closed by the peer alone.
            })
        });
    }

    /// Waits for it to end by itself.
    pub fn wait_for_end(&mut self) {
        self.child.take().expect("it runs").wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.start();
    }

    /// Changes the plan from the next request on.
    pub fn control(&self, plan: &str) {
        self.journal.set_control(plan).unwrap();
    }

    /// Somebody else ends the session that was begun last, as an operator may.
    pub fn end_session(&self) {
        let session = self.journal.sessions().pop().expect("there is a session");
        let mut socket = TcpStream::connect(self.address()).unwrap();
        let head = format!(
            "DELETE /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: {session}\r\nConnection: close\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address())
    }

    /// `regrow wrap` in front of it.
    pub fn setup(&self) -> Setup {
        Setup::remote(&self.url(), &self.journal)
    }

    /// The same, with the network between them.
    pub fn setup_through(&self, proxy: &Proxy) -> Setup {
        Setup::remote(&format!("http://{}/mcp", proxy.address()), &self.journal)
    }

    /// A client that has greeted it, in the server's era.
    pub fn connect(&self) -> Peer {
        self.connect_with(&[])
    }

    pub fn connect_with(&self, options: &[&str]) -> Peer {
        Peer::greet(self.setup().options(options), self.era)
    }

    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.address()).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already, which is as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client of one era behind `regrow wrap URL`.
pub struct Peer {
    pub client: Client,
    pub era: Era,
}

impl Peer {
    /// Starts `regrow wrap` and greets the server.
    pub fn greet(setup: Setup, era: Era) -> Peer {
        let mut peer = Peer { client: setup.start(), era };
        match era {
            Legacy => drop(peer.client.shake_hands()),
            Modern => {
                let answer = peer.client.request_modern("server/discover", json!({}));
                assert!(answer["result"]["supportedVersions"].is_array(), "{answer}\n{}", peer.log());
            }
        }
        peer.client.wait_for_log(0, "ready (session");
        peer
    }

    /// Greets the server, in the client's era; returns the id of the request.
    pub fn ask_greeting(&mut self) -> u64 {
        match self.era {
            Legacy => self.client.ask(
                "initialize",
                json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "scenario", "version": "1" } }),
            ),
            Modern => self.client.ask_modern("server/discover", json!({})),
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        match self.era {
            Legacy => self.client.ask(method, params),
            Modern => self.client.ask_modern(method, params),
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.client.answer(id)
    }

    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// A tool call and its result, which must not be an error.
    pub fn call(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin_call(tool, arguments);
        self.result(id)
    }

    /// The same at a server that has just come back. A call that met an attempt from before that did not run, and is made again.
    pub fn call_back(&mut self, tool: &str, arguments: Value) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let id = self.begin_call(tool, arguments.clone());
            let answer = self.client.answer(id);
            if !is_failure(&answer) {
                return text(&answer);
            }
            assert_eq!(fault(&answer)["delivery"], "not-sent", "{answer}\n{}", self.log());
            assert!(Instant::now() < deadline, "{answer}\n{}", self.log());
        }
    }

    /// The result of a call that was begun, which must not be an error.
    pub fn result(&mut self, id: u64) -> String {
        let answer = self.client.answer(id);
        assert!(!is_failure(&answer), "{answer}\n{}", self.log());
        text(&answer)
    }

    /// A tool call that must fail: its text, and the machine-readable part.
    pub fn failing_call(&mut self, tool: &str, arguments: Value) -> (String, Value) {
        let id = self.begin_call(tool, arguments);
        self.client.failure(id)
    }

    pub fn log(&self) -> String {
        self.client.log().join("\n")
    }

    /// How many sessions were ready so far.
    pub fn sessions(&self) -> usize {
        // It was greeted, so there was one; the log may be read later.
        wait_until("the log tells of a session", PATIENCE, || self.client.logged("ready (session") > 0);
        self.client.logged("ready (session")
    }

    /// Nothing went wrong that is held against the server.
    pub fn assert_nothing_charged(&self) {
        let bad: Vec<_> = self.client.log().into_iter().filter(|line| line.contains("warning")).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    /// Leaves, and sees that it is over soon and no answer was left unclaimed.
    pub fn leave(mut self) {
        let (code, took) = self.client.leave();
        assert_eq!(code, Some(0), "{}", self.log());
        assert!(took < Duration::from_secs(4) + slack(), "{took:?}: {}", self.log());
        self.client.marked.assert_none_left(Duration::from_secs(5));
        let unclaimed = self.client.unclaimed_answers();
        assert!(unclaimed.is_empty(), "answers that nobody asked for: {unclaimed:?}");
    }
}
