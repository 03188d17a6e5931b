//! One way of a connection: what the fault does to each piece.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use super::link::{Link, is_later};
use super::{Fault, GLANCE};

/// Which way a pump works.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

/// What becomes of a pump after a piece.
pub(super) enum Next {
    Go,
    Wait,
    End,
}

/// What one way of a connection knows.
pub(super) struct Pump<'a> {
    pub(super) link: &'a Link<'a>,
    pub(super) to: &'a TcpStream,
    pub(super) way: Way,
    /// Read, and not yet passed on.
    pub(super) waiting: Vec<u8>,
    /// How many bytes were passed since the fault was set.
    passed: u64,
    change: u64,
    shut: bool,
}

impl<'a> Pump<'a> {
    pub(super) fn new(link: &'a Link<'a>, to: &'a TcpStream, way: Way) -> Self {
        Self { link, to, way, waiting: vec![], passed: 0, change: 0, shut: false }
    }

    /// Does what the fault demands without a byte to pass.
    pub(super) fn look(&mut self) {
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

    pub(super) fn pass(&mut self) -> io::Result<Next> {
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
        let total = match self.way {
            Way::ToServer => &self.link.shared.to_server,
            Way::ToClient => &self.link.shared.to_client,
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
        Ok(Next::Go)
    }
}
