//! Servers over HTTP: what a call costs, what a forgotten session and a death cost, what a thousand connections cost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regrow::transport::http::Http;
use regrow::{Connection, Era};
use regrow_chaos::Journal;
use regrow_chaos::proxy::Proxy;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;

use crate::peer::{Peer, REGROW};
use crate::system::{processor_ticks, resident_kib};
use crate::table::{p, row, row3, show};

const IDLE: usize = 1_000;
/// Followed by a URL and an era: [`idle`] is measured, and nothing else.
pub(crate) const IDLE_ARGUMENT: &str = "--idle";

pub(crate) fn figures(calls: usize, kills: usize) {
    let mut site = Site::start();
    println!("\n| over HTTP, one call after the other, {calls} calls | p50 | p99 |");
    println!("|---|---|---|");
    let alone = alone(&site, calls);
    let mut peer = Peer::remote(&site.url());
    peer.shake_hands();
    let wrapped: Vec<Duration> = (0..calls).map(|_| echo(&mut peer)).collect();
    row("the server alone, on one kept connection", &alone);
    row("through `regrow wrap`", &wrapped);

    println!("\n| over {kills} times | p50 | p99 | worst |");
    println!("|---|---|---|---|");
    let handshakes: Vec<Duration> = (0..kills).map(|_| greet(&site).1).collect();
    let forgotten: Vec<Duration> = (0..kills)
        .map(|time| {
            site.journal.set_control(&format!("forget={}", time + 1)).expect("written");
            echo(&mut peer)
        })
        .collect();
    row3("the server's own handshake", &handshakes);
    row3("a call on a session that the server has forgotten", &forgotten);
    let beyond = |percent| {
        let own = p(&handshakes, percent) + p(&wrapped, percent);
        show(p(&forgotten, percent).saturating_sub(own))
    };
    println!("| beyond a handshake and a call | {} | {} | |", beyond(50), beyond(99));
    let told: Vec<Duration> = (0..kills).map(|_| killed_during_a_call(&mut site)).collect();
    row3("kill during a call to its answer", &told);
    println!("\n| {IDLE} idle connections over HTTP | memory, together | processor time in 5 s |");
    println!("|---|---|---|");
    idle_elsewhere(&Site::with("modern-only"), "modern", "modern servers");
    let silent = Site::with("refuse-discover no-get");
    idle_elsewhere(&silent, "legacy", "legacy servers that say nothing by themselves");
    idle_elsewhere(&site, "legacy", "legacy servers, listened to");
}

/// In a process of its own: what others leave behind would be used again.
fn idle_elsewhere(site: &Site, era: &str, name: &str) {
    let own = std::env::current_exe().expect("we run");
    let output = Command::new(own).args([IDLE_ARGUMENT, &site.url(), era]).output().expect("it runs");
    let figures = String::from_utf8(output.stdout).expect("figures");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("| {name} | {}", figures.trim_end());
}

fn echo(peer: &mut Peer) -> Duration {
    let began = Instant::now();
    peer.echo();
    began.elapsed()
}

fn killed_during_a_call(site: &mut Site) -> Duration {
    let mut peer = Peer::remote(&site.url());
    peer.shake_hands();
    peer.send("tools/call", json!({ "name": "hang", "arguments": {} }));
    thread::sleep(Duration::from_millis(20)); // Let the server read the call.
    let began = Instant::now();
    site.kill();
    let answer = peer.receive();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let told = began.elapsed();
    site.run();
    told
}

/// So many connections in this process, all of them ready, with nothing to do.
pub(crate) fn idle(url: &str, era: &str) {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).expect("within the maximum");
    let own = std::process::id();
    let era = if era == "modern" { Era::Modern } else { Era::Legacy };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (memory, ticks) = runtime.block_on(async {
        let before = resident_kib(own);
        let connect = |_| Connection::builder("chaos", Http::new(url).expect("a URL")).era(era).build();
        let connections: Vec<Connection> = (0..IDLE).map(connect).collect();
        for connection in &connections {
            connection.request("tools/list", None).await.expect("an answer");
        }
        tokio::time::sleep(Duration::from_secs(1)).await; // What the handshakes left behind is done.
        let ticks = processor_ticks(own);
        tokio::time::sleep(Duration::from_secs(5)).await;
        (resident_kib(own).saturating_sub(before), processor_ticks(own) - ticks)
    });
    println!("{:.1} MiB | {} ms |", memory as f64 / 1024.0, ticks * 10);
}

/// The misbehaving server, at a port of its own.
struct Site {
    child: Child,
    folder: TempDir,
    port: u16,
    plan: &'static str,
    journal: Journal,
}

impl Site {
    fn start() -> Site {
        Site::with("refuse-discover")
    }

    fn with(plan: &'static str) -> Site {
        let folder = TempDir::new().expect("a folder");
        // A port that nobody else takes: that of a proxy that has ended.
        let port = Proxy::start(([127, 0, 0, 1], 9).into()).expect("a proxy").address().port();
        let child = Site::child(&folder, port, plan);
        let site = Site { child, journal: Journal::new(folder.path()), folder, port, plan };
        site.wait();
        site
    }

    fn child(folder: &TempDir, port: u16, plan: &str) -> Child {
        let mut command = Command::new(REGROW);
        command.args(["chaos-server", "--http", &format!("127.0.0.1:{port}")]);
        command.env("CHAOS", plan).env("CHAOS_DIR", folder.path());
        command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("regrow starts")
    }

    fn wait(&self) {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    fn run(&mut self) {
        self.child = Site::child(&self.folder, self.port, self.plan);
        self.wait();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended by itself.
        let _ = self.child.wait();
    }
}

/// Calls without anything between.
fn alone(site: &Site, calls: usize) -> Vec<Duration> {
    let (mut wire, _) = greet(site);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "echo", "arguments": { "text": "hello" } } });
    (0..calls)
        .map(|_| {
            let began = Instant::now();
            wire.post(&call.to_string());
            began.elapsed()
        })
        .collect()
}

/// Shakes hands as a client must, and says how long that took.
fn greet(site: &Site) -> (Wire, Duration) {
    let began = Instant::now();
    let socket = TcpStream::connect(("127.0.0.1", site.port)).expect("the server listens");
    socket.set_nodelay(true).expect("a socket");
    let mut wire = Wire { socket: BufReader::new(socket), session: None };
    let client = json!({ "name": "bench", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    wire.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string());
    wire.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    (wire, began.elapsed())
}

/// One kept connection, and as much of HTTP as it takes.
struct Wire {
    socket: BufReader<TcpStream>,
    session: Option<String>,
}

impl Wire {
    fn post(&mut self, body: &str) {
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n{session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.socket.get_mut().write_all(request.as_bytes()).expect("written");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.socket.read_line(&mut line).expect("read");
            let Some((name, value)) = line.split_once(':') else {
                assert!(!line.is_empty(), "the server left");
                if line == "\r\n" {
                    break;
                }
                assert!(line.starts_with("HTTP/1.1 20"), "{line}");
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().expect("a length"),
                "mcp-session-id" => self.session = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).expect("read");
    }
}
