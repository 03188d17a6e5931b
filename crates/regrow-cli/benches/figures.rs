//! The figures that we promise, measured side by side in one run: `cargo bench -p regrow-cli`.
//!
//! Every figure through `regrow wrap` stands beside the same thing done with the server alone. Machines are noisy:
//! compare the columns of one run, not the runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

fn main() {
    let kills = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    let calls = 5_000;

    println!("| one call after the other, {calls} calls | p50 | p99 |");
    println!("|---|---|---|");
    let bare = sequential(Peer::bare(), calls);
    let piped = sequential(Peer::piped(), calls);
    let wrapped = sequential(Peer::wrapped(), calls);
    row("the server alone", &bare);
    row("between two bare pipes (`cat`)", &piped);
    row("through `regrow wrap`", &wrapped);
    let added: Vec<Duration> = [(p(&wrapped, 50), p(&bare, 50)), (p(&wrapped, 99), p(&bare, 99))]
        .map(|(with, without)| with.saturating_sub(without))
        .to_vec();
    println!("| added by Regrow | {} | {} |", show(added[0]), show(added[1]));

    println!("\n| 64 calls in flight, {calls} calls | calls per second |");
    println!("|---|---|");
    let bare = pipelined(Peer::bare(), calls, 64);
    let piped = pipelined(Peer::piped(), calls, 64);
    let wrapped = pipelined(Peer::wrapped(), calls, 64);
    println!("| the server alone | {bare:.0} |");
    println!("| between two bare pipes (`cat`) | {piped:.0} ({:.0} %) |", 100.0 * piped / bare);
    println!("| through `regrow wrap` | {wrapped:.0} ({:.0} %) |", 100.0 * wrapped / bare);

    println!("\n| over {kills} kills | p50 | p99 | worst |");
    println!("|---|---|---|---|");
    let starts: Vec<Duration> = (0..kills).map(|_| start_alone()).collect();
    let lives: Vec<Life> = (0..kills).map(|_| life()).collect();
    let of = |pick: fn(&Life) -> Duration| lives.iter().map(pick).collect::<Vec<_>>();
    let recovered = of(|life| life.recovered);
    row3("kill while idle to its log line (noticed)", &of(|life| life.noticed));
    row3("kill during a call to its answer (lost call told)", &of(|life| life.told));
    row3("kill to the next answer (recovered)", &recovered);
    row3("the server's own start to its first answer", &starts);
    let beyond = |percent| show(p(&recovered, percent).saturating_sub(p(&starts, percent)));
    println!("| recovered, beyond the server's own start | {} | {} | |", beyond(50), beyond(99));
    row3("start of `regrow wrap` to the first answer", &of(|life| life.started));

    at_rest();
}

/// What it costs when nothing happens.
fn at_rest() {
    let mut peer = Peer::wrapped();
    peer.shake_hands();
    for _ in 0..1_000 {
        peer.echo();
    }
    let pid = peer.child.id();
    let guard =
        children(pid).into_iter().find(|child| command(*child).contains("guard")).expect("there is a guard");
    let before = processor_ticks(pid) + processor_ticks(guard);
    thread::sleep(Duration::from_secs(5));
    let used = processor_ticks(pid) + processor_ticks(guard) - before;
    let memory = resident_kib(pid) + resident_kib(guard);
    let size = std::fs::metadata(REGROW).map_or(0, |file| file.len());
    println!("\n| at rest, after 1,000 calls | |");
    println!("|---|---|");
    println!("| resident memory, with the guard | {:.1} MiB |", memory as f64 / 1024.0);
    println!("| processor time in 5 s | {} ms |", used * 10);
    println!("| size of the executable | {:.1} MiB |", size as f64 / (1024.0 * 1024.0));
}

fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn command(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// In hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// One death while idle and one during a call, each of a fresh connection: the first death heals without a pause.
struct Life {
    started: Duration,
    noticed: Duration,
    recovered: Duration,
    told: Duration,
}

fn life() -> Life {
    let began = Instant::now();
    let mut peer = Peer::wrapped();
    peer.shake_hands();
    let started = began.elapsed();
    let pid = peer.server_pid();
    // A session must be older than the floor between attempts, as real ones are.
    thread::sleep(Duration::from_millis(30));
    let killed = kill(pid);
    let noticed = peer.wait_for_log("killed by SIGKILL") - killed;
    peer.echo();
    let recovered = killed.elapsed();
    drop(peer);

    let mut peer = Peer::wrapped();
    peer.shake_hands();
    let pid = peer.server_pid();
    peer.send("tools/call", json!({ "name": "hang", "arguments": {} }));
    thread::sleep(Duration::from_millis(5)); // Let the server read the call.
    let killed = kill(pid);
    let answer = peer.receive();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    Life { started, noticed, recovered, told: killed.elapsed() }
}

fn start_alone() -> Duration {
    let began = Instant::now();
    let mut peer = Peer::bare();
    peer.shake_hands();
    peer.echo();
    began.elapsed()
}

fn sequential(mut peer: Peer, calls: usize) -> Vec<Duration> {
    peer.shake_hands();
    for _ in 0..100 {
        peer.echo();
    }
    (0..calls)
        .map(|_| {
            let began = Instant::now();
            peer.echo();
            began.elapsed()
        })
        .collect()
}

fn pipelined(mut peer: Peer, calls: usize, depth: usize) -> f64 {
    peer.shake_hands();
    let began = Instant::now();
    for _ in 0..depth {
        peer.send_echo();
    }
    for done in 0..calls {
        peer.receive();
        if done + depth < calls {
            peer.send_echo();
        }
    }
    calls as f64 / began.elapsed().as_secs_f64()
}

fn kill(pid: i32) -> Instant {
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, Signal::KILL).expect("the server runs");
    Instant::now()
}

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    log: Receiver<(Instant, String)>,
    id: u64,
}

impl Peer {
    fn bare() -> Peer {
        Peer::start(Command::new(REGROW).arg("chaos-server"))
    }

    /// What any relay costs that does nothing but copy.
    fn piped() -> Peer {
        Peer::start(Command::new("sh").args(["-c", "cat | \"$0\" chaos-server | cat", REGROW]))
    }

    fn wrapped() -> Peer {
        Peer::start(Command::new(REGROW).args(["wrap", "--name", "chaos", "--", REGROW, "chaos-server"]))
    }

    fn start(command: &mut Command) -> Peer {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("regrow starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (lines, log) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = lines.send((Instant::now(), line)); // Nobody may be interested any more.
            }
        });
        Peer { child, input, output, log, id: 0 }
    }

    fn send(&mut self, method: &str, params: Value) {
        self.id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.input.write_all(format!("{message}\n").as_bytes()).expect("written");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn shake_hands(&mut self) {
        let client = json!({ "name": "bench", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        self.send("initialize", params);
        self.receive();
        self.input
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
            .expect("written");
    }

    fn send_echo(&mut self) {
        self.send("tools/call", json!({ "name": "echo", "arguments": { "text": "hello" } }));
    }

    fn echo(&mut self) {
        self.send_echo();
        let answer = self.receive();
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    }

    fn server_pid(&mut self) -> i32 {
        self.send("tools/call", json!({ "name": "pid", "arguments": {} }));
        let answer = self.receive();
        answer["result"]["content"][0]["text"]
            .as_str()
            .and_then(|pid| pid.parse().ok())
            .expect("a process id")
    }

    fn wait_for_log(&self, part: &str) -> Instant {
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

fn p(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

fn show(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

fn row(name: &str, times: &[Duration]) {
    println!("| {name} | {} | {} |", show(p(times, 50)), show(p(times, 99)));
}

fn row3(name: &str, times: &[Duration]) {
    println!("| {name} | {} | {} | {} |", show(p(times, 50)), show(p(times, 99)), show(p(times, 100)));
}
