//! Carries the bytes of a connection: a pump for each way, which asks before every piece what is wrong.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::link::{Link, PIECE};
use super::{Fault, GLANCE};
use crate::port::{is_readable, reset_at_close};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Carries bytes until both sides have said all, or the fault ends it.
pub(super) fn run(link: &Link<'_>) {
    // An error is the end of a connection, which is all that we can do about it.
    let _ = carry(link);
    if link.resets.load(Ordering::SeqCst) {
        reset_at_close(&link.client);
    }
}

fn carry(link: &Link<'_>) -> io::Result<()> {
    prepare(&link.client)?;
    if !link.wait_for_a_way()? {
        return Ok(());
    }
    let server = TcpStream::connect_timeout(&link.shared.target, CONNECT_LIMIT).inspect_err(|_| {
        link.resets.store(true, Ordering::SeqCst);
    })?;
    prepare(&server)?;
    thread::scope(|scope| {
        let back = thread::Builder::new().stack_size(128 * 1024);
        let back = back
            .spawn_scoped(scope, || Pump::new(link, &link.client, Direction::ToClient).carry_from(&server))?;
        Pump::new(link, &server, Direction::ToServer).carry_from(&link.client);
        // A pump does not panic, and if it did the link would be over as well.
        let _ = back.join();
        Ok(())
    })
    .inspect(|()| {
        if link.resets.load(Ordering::SeqCst) {
            reset_at_close(&server);
        }
    })
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

/// Which way a pump works.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// What one way of a connection knows.
struct Pump<'a> {
    link: &'a Link<'a>,
    to: &'a TcpStream,
    way: Direction,
    /// Read, and not yet passed on.
    waiting: Vec<u8>,
    /// How many bytes were passed since the fault was set.
    passed: u64,
    change: u64,
    shut: bool,
}

impl<'a> Pump<'a> {
    fn new(link: &'a Link<'a>, to: &'a TcpStream, way: Direction) -> Self {
        Self { link, to, way, waiting: vec![], passed: 0, change: 0, shut: false }
    }

    fn carry_from(&mut self, from: &TcpStream) {
        let mut piece = [0; PIECE];
        while !self.link.is_over() {
            if self.waiting.is_empty() {
                if *self.link.shared.fault() == Fault::Stall {
                    thread::sleep(GLANCE);
                    continue;
                }
                self.look();
                if !is_readable(from, GLANCE) {
                    continue;
                }
                match { from }.read(&mut piece) {
                    Ok(0) => return self.link.end_of(self.to),
                    Ok(count) => self.waiting.extend_from_slice(&piece[..count]),
                    Err(error) if is_later(&error) => {}
                    Err(_) => self.link.reset(),
                }
                continue; // What is wrong may have changed meanwhile.
            }
            match self.pass() {
                Ok(true) => self.waiting.clear(),
                Ok(false) => thread::sleep(GLANCE),
                Err(_) => self.link.reset(),
            }
        }
    }

    /// Does what the fault demands without a byte to pass.
    fn look(&mut self) {
        let change = self.link.shared.change.load(Ordering::SeqCst);
        if change != self.change {
            (self.change, self.passed) = (change, 0);
        }
        let half = self.way == Direction::ToClient && *self.link.shared.fault() == Fault::HalfClose;
        if half && !self.shut {
            self.shut = true;
            // It may have left already.
            let _ = self.to.shutdown(Shutdown::Write);
        }
    }

    /// Passes on what waits, or drops it. False if it must wait on.
    fn pass(&mut self) -> io::Result<bool> {
        self.look();
        let fault = self.link.shared.fault().clone();
        if self.link.lost.load(Ordering::SeqCst) || self.shut {
            return Ok(true);
        }
        match (fault, self.way) {
            (Fault::Blackhole, _) => {
                self.link.lost.store(true, Ordering::SeqCst);
                return Ok(true);
            }
            (Fault::Stall, _) => return Ok(false),
            (Fault::Latency(pause), _) => {
                let until = Instant::now() + pause;
                while Instant::now() < until && !self.link.is_over() {
                    thread::sleep(GLANCE.min(pause));
                }
                self.write(0, self.waiting.len())?;
            }
            (Fault::Drip(pause), Direction::ToClient) => {
                for at in 0..self.waiting.len() {
                    self.write(at, at + 1)?;
                    thread::sleep(pause);
                    if self.link.is_over() || !matches!(*self.link.shared.fault(), Fault::Drip(_)) {
                        self.write(at + 1, self.waiting.len())?;
                        break;
                    }
                }
            }
            (Fault::Truncate(limit), Direction::ToClient) => {
                let left = usize::try_from(limit.saturating_sub(self.passed)).unwrap_or(usize::MAX);
                self.write(0, left.min(self.waiting.len()))?;
                if left <= self.waiting.len() {
                    self.link.end();
                }
            }
            (Fault::Answer(_), Direction::ToServer) if self.link.inject(&self.waiting)? => {}
            _ => self.write(0, self.waiting.len())?,
        }
        Ok(true)
    }

    /// Passes these of the waiting bytes on; gives up when it is over.
    fn write(&mut self, from: usize, to: usize) -> io::Result<()> {
        let mut bytes = &self.waiting[from..to];
        let total = match self.way {
            Direction::ToServer => &self.link.shared.to_server,
            Direction::ToClient => &self.link.shared.to_client,
        };
        // Counted before it can be seen at the other end.
        total.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        while !bytes.is_empty() && !self.link.is_over() {
            match { self.to }.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        total.fetch_sub(bytes.len() as u64, Ordering::SeqCst);
        self.passed += (to - from - bytes.len()) as u64;
        Ok(())
    }
}
