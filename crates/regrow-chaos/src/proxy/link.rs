//! One connection through the proxy: two pumps, each of which asks before every piece what is wrong.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::port::{is_readable, reset_at_close};
use super::{Fault, GLANCE, Shared, inject};

const PIECE: usize = 16 * 1024;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A client's connection.
pub(super) struct Link<'a> {
    shared: &'a Shared,
    client: TcpStream,
    /// It has lost bytes, and nothing can mend it.
    lost: AtomicBool,
    over: AtomicBool,
    resets: AtomicBool,
}

/// Which way a pump works.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// What becomes of a pump after a piece.
enum Next {
    Go,
    Wait,
    End,
}

impl<'a> Link<'a> {
    pub(super) fn new(shared: &'a Shared, client: TcpStream) -> Self {
        let new = || AtomicBool::new(false);
        Self { shared, client, lost: new(), over: new(), resets: new() }
    }

    /// Carries bytes until both sides have said all, or the fault ends it.
    pub(super) fn run(self) {
        // An error is the end of a connection, which is all that we can do about it.
        let _ = self.carry();
        if self.resets.load(Ordering::SeqCst) {
            reset_at_close(&self.client);
        }
    }

    fn carry(&self) -> io::Result<()> {
        prepare(&self.client)?;
        if !self.wait_for_a_way()? {
            return Ok(());
        }
        let server = TcpStream::connect_timeout(&self.shared.target, CONNECT_LIMIT).inspect_err(|_| {
            self.resets.store(true, Ordering::SeqCst);
        })?;
        prepare(&server)?;
        thread::scope(|scope| {
            let back = thread::Builder::new().stack_size(128 * 1024);
            let back = back.spawn_scoped(scope, || self.pump(&server, &self.client, Way::ToClient))?;
            self.pump(&self.client, &server, Way::ToServer);
            // A pump does not panic, and if it did the link would be over as well.
            let _ = back.join();
            Ok(())
        })
        .inspect(|()| {
            if self.resets.load(Ordering::SeqCst) {
                reset_at_close(&server);
            }
        })
    }

    /// While nothing may get to the server, it is not connected to either. False if it is over before that.
    fn wait_for_a_way(&self) -> io::Result<bool> {
        while !self.is_over() {
            let fault = self.shared.fault().clone();
            match fault {
                Fault::Reset | Fault::Refuse => self.reset(),
                Fault::Blackhole => self.sink(),
                Fault::Stall => thread::sleep(GLANCE),
                Fault::Answer(_) if !is_readable(&self.client, GLANCE) => {}
                Fault::Answer(_) => {
                    let mut piece = [0; PIECE];
                    let count = (&self.client).read(&mut piece)?;
                    if count == 0 || !self.inject(&piece[..count])? {
                        return Ok(false);
                    }
                }
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    fn pump(&self, from: &TcpStream, to: &TcpStream, way: Way) {
        let mut pump = Pump { link: self, to, way, waiting: vec![], passed: 0, change: 0, shut: false };
        let mut piece = [0; PIECE];
        while !self.is_over() {
            if pump.waiting.is_empty() {
                if *self.shared.fault() == Fault::Stall {
                    thread::sleep(GLANCE);
                    continue;
                }
                pump.look();
                if !is_readable(from, GLANCE) {
                    continue;
                }
                match { from }.read(&mut piece) {
                    Ok(0) => return self.end_of(to),
                    Ok(count) => pump.waiting.extend_from_slice(&piece[..count]),
                    Err(error) if is_later(&error) => {}
                    Err(_) => self.reset(),
                }
                continue; // What is wrong may have changed meanwhile.
            }
            match pump.pass() {
                Ok(Next::Go) => pump.waiting.clear(),
                Ok(Next::Wait) => thread::sleep(GLANCE),
                Ok(Next::End) => self.over.store(true, Ordering::SeqCst),
                Err(_) => self.reset(),
            }
        }
    }

    /// One side has said all: the other is told, unless the network keeps that to itself.
    fn end_of(&self, to: &TcpStream) {
        while !self.is_over() && matches!(*self.shared.fault(), Fault::Stall | Fault::Blackhole) {
            thread::sleep(GLANCE);
        }
        if self.lost.load(Ordering::SeqCst) {
            return self.over.store(true, Ordering::SeqCst);
        }
        // It may have left already.
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Takes what the client says, and tells nobody.
    fn sink(&self) {
        self.lost.store(true, Ordering::SeqCst);
        let mut piece = [0; PIECE];
        while !self.is_over() {
            if is_readable(&self.client, GLANCE) && matches!((&self.client).read(&mut piece), Ok(0) | Err(_))
            {
                return self.over.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Answers a request in the server's place. False if these bytes are none.
    fn inject(&self, piece: &[u8]) -> io::Result<bool> {
        if !inject::is_request(piece) {
            return Ok(false);
        }
        let answer = {
            let mut fault = self.shared.fault();
            let Fault::Answer(canned) = &*fault else { return Ok(false) };
            let (answer, left) = canned.take();
            *fault = left;
            answer
        };
        inject::swallow(piece, &self.client)?;
        self.shared.injected.fetch_add(1, Ordering::SeqCst);
        (&self.client).write_all(&answer)?;
        Ok(true)
    }

    fn reset(&self) {
        self.resets.store(true, Ordering::SeqCst);
        self.over.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        let resets = matches!(*self.shared.fault(), Fault::Reset | Fault::Refuse);
        if resets && !self.over.load(Ordering::SeqCst) {
            self.reset();
        }
        self.over.load(Ordering::SeqCst) || self.shared.is_closed()
    }
}

/// What one way of a connection knows.
struct Pump<'a> {
    link: &'a Link<'a>,
    to: &'a TcpStream,
    way: Way,
    /// Read, and not yet passed on.
    waiting: Vec<u8>,
    /// How many bytes were passed since the fault was set.
    passed: u64,
    change: u64,
    shut: bool,
}

impl Pump<'_> {
    /// Does what the fault demands without a byte to pass.
    fn look(&mut self) {
        let change = self.link.shared.change.load(Ordering::SeqCst);
        if change != self.change {
            (self.change, self.passed) = (change, 0);
        }
        let half = self.way == Way::ToClient && *self.link.shared.fault() == Fault::HalfClose;
        if half && !self.shut {
            self.shut = true;
            // It may have left already.
            let _ = self.to.shutdown(Shutdown::Write);
        }
    }

    fn pass(&mut self) -> io::Result<Next> {
        self.look();
        let fault = self.link.shared.fault().clone();
        if self.link.lost.load(Ordering::SeqCst) || self.shut {
            return Ok(Next::Go); // Dropped.
        }
        match (fault, self.way) {
            (Fault::Blackhole, _) => {
                self.link.lost.store(true, Ordering::SeqCst);
                Ok(Next::Go)
            }
            (Fault::Stall, _) => Ok(Next::Wait),
            (Fault::Latency(pause), _) => {
                let until = Instant::now() + pause;
                while Instant::now() < until && !self.link.is_over() {
                    thread::sleep(GLANCE.min(pause));
                }
                self.write(0, self.waiting.len())
            }
            (Fault::Drip(pause), Way::ToClient) => {
                for at in 0..self.waiting.len() {
                    self.write(at, at + 1)?;
                    thread::sleep(pause);
                    if self.link.is_over() || !matches!(*self.link.shared.fault(), Fault::Drip(_)) {
                        return self.write(at + 1, self.waiting.len());
                    }
                }
                Ok(Next::Go)
            }
            (Fault::Truncate(limit), Way::ToClient) => {
                let left = usize::try_from(limit.saturating_sub(self.passed)).unwrap_or(usize::MAX);
                if left > self.waiting.len() {
                    return self.write(0, self.waiting.len());
                }
                self.write(0, left)?;
                Ok(Next::End)
            }
            (Fault::Answer(_), Way::ToServer) if self.link.inject(&self.waiting)? => Ok(Next::Go),
            _ => self.write(0, self.waiting.len()),
        }
    }

    /// Passes these of the waiting bytes on; gives up when it is over.
    fn write(&mut self, from: usize, to: usize) -> io::Result<Next> {
        let mut bytes = &self.waiting[from..to];
        while !bytes.is_empty() && !self.link.is_over() {
            match { self.to }.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let passed = (to - from - bytes.len()) as u64;
        self.passed += passed;
        let total = match self.way {
            Way::ToServer => &self.link.shared.to_server,
            Way::ToClient => &self.link.shared.to_client,
        };
        AtomicU64::fetch_add(total, passed, Ordering::SeqCst);
        Ok(Next::Go)
    }
}

/// Nobody waits long for a socket, so that a change of the fault is noticed.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.set_write_timeout(Some(Duration::from_millis(20)))
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
