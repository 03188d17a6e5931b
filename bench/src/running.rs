//! The processes of one measurement: a proxy, and the server behind it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::case::Case;
use crate::load::Client;

/// How long a process may take to start, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// At most this many lines of a log are kept.
const LOG_LINES: usize = 1000;

/// Where a proxy says on which address it listens.
pub(crate) enum Address {
    /// It prints the port.
    Stdout,
    /// As `regrow serve` does, in its log.
    Stderr,
    /// It listens on the port that it was given.
    Port(u16),
}

/// The server that is called.
pub(crate) struct Server {
    /// Not started yet: the proxy does that.
    command: Vec<String>,
    /// Already running.
    remote: Option<(Process, String)>,
}

impl Server {
    pub(crate) fn start(case: &Case) -> io::Result<Server> {
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let (era, format) = (case.era.to_string(), case.format.to_string());
        let mut command: Vec<String> = vec![own, "echo".into(), "--era".into(), era];
        if !case.shape.server_is_http() {
            return Ok(Server { command, remote: None });
        }
        command.extend(["--http".into(), "--format".into(), format]);
        let mut start = Command::new(&command[0]);
        let mut child = start.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let port = printed_port(child.stdout.take().expect("piped"));
        let process = Process(child);
        let url = format!("http://127.0.0.1:{}/mcp", port?);
        Ok(Server { command, remote: Some((process, url)) })
    }

    pub(crate) fn command(&self) -> &[String] {
        &self.command
    }

    pub(crate) fn url(&self) -> Option<&str> {
        self.remote.as_ref().map(|(_, url)| url.as_str())
    }

    /// Without a proxy.
    pub(crate) fn alone(&self) -> io::Result<Running> {
        let Some((_, url)) = &self.remote else {
            let mut command = Command::new(&self.command[0]);
            command.args(&self.command[1..]);
            return Running::start(command, None);
        };
        let port = url.trim_end_matches("/mcp").rsplit(':').next().and_then(|port| port.parse().ok());
        let client = Client::http(local(port.expect("the URL has a port")));
        Ok(Running { client, process: None, log: Log::none(), started: Instant::now() })
    }
}

/// A proxy that is ready to be called. A proxy on pipes ends with its input, so the client is dropped first.
pub(crate) struct Running {
    pub(crate) client: Client,
    /// None for a server that runs without a proxy and belongs to the caller.
    process: Option<Process>,
    log: Log,
    /// When the process was started.
    pub(crate) started: Instant,
}

impl Running {
    /// `address` is given if clients connect over HTTP.
    pub(crate) fn start(mut command: Command, address: Option<Address>) -> io::Result<Running> {
        let started = Instant::now();
        command.stderr(Stdio::piped());
        let Some(address) = address else {
            let (mut child, input, output) = crate::pipes::start(&mut command)?;
            let log = Log::of(child.stderr.take().expect("piped"));
            let client = Client::stdio(input, output);
            return Ok(Running { client, process: Some(Process(child)), log, started });
        };
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut log = Log::of(child.stderr.take().expect("piped"));
        let stdout = child.stdout.take().expect("piped");
        let process = Some(Process(child));
        let address = match address {
            Address::Stdout => local(printed_port(stdout)?),
            Address::Stderr => log.address()?,
            Address::Port(port) => wait_for(local(port))?,
        };
        Ok(Running { client: Client::http(address), process, log, started })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.0.id())
    }

    /// The error with what the proxy wrote to its log.
    pub(crate) fn explain(&self, error: &io::Error) -> io::Error {
        let log: Vec<String> = self.log.lines.try_iter().collect();
        io::Error::other(format!("{error}\n{}", log.join("\n")))
    }
}

/// Ended when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM); // It may have ended already.
        }
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            match self.0.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        let _ = self.0.kill(); // As above.
        let _ = self.0.wait();
    }
}

/// The lines that a process writes to stderr.
struct Log {
    lines: Receiver<String>,
}

impl Log {
    fn none() -> Log {
        Log { lines: sync_channel(0).1 }
    }

    fn of(stderr: impl Read + Send + 'static) -> Log {
        let (sender, lines) = sync_channel(LOG_LINES);
        thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.try_send(line))); // Nobody may want it, and more than these nobody reads.
        });
        Log { lines }
    }

    fn address(&mut self) -> io::Result<SocketAddr> {
        let mut seen = vec![];
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            let url = line.split_once("serving at http://").map(|(_, rest)| rest.trim_end_matches("/mcp"));
            if let Some(address) = url {
                return address.parse().map_err(io::Error::other);
            }
            seen.push(line);
        }
        Err(io::Error::other(format!("the proxy does not listen:\n{}", seen.join("\n"))))
    }
}

fn printed_port(stdout: impl Into<std::os::fd::OwnedFd>) -> io::Result<u16> {
    let mut line = String::new();
    BufReader::new(File::from(stdout.into())).read_line(&mut line)?;
    line.trim().parse().map_err(|_| io::Error::other("the process did not print its port"))
}

fn wait_for(address: SocketAddr) -> io::Result<SocketAddr> {
    let start = Instant::now();
    while let Err(error) = TcpStream::connect(address) {
        if start.elapsed() > PATIENCE {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(address)
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
