//! One connection through the proxy: whether it is over, and what the fault does to it as a whole.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Fault, GLANCE, Shared, inject};
use crate::port::is_readable;

/// The most that is read at once.
pub(super) const PIECE: usize = 16 * 1024;

/// A client's connection.
pub(super) struct Link<'a> {
    pub(super) shared: &'a Shared,
    pub(super) client: TcpStream,
    /// It has lost bytes, which cannot be fixed.
    pub(super) lost: AtomicBool,
    over: AtomicBool,
    pub(super) resets: AtomicBool,
}

impl<'a> Link<'a> {
    pub(super) fn new(shared: &'a Shared, client: TcpStream) -> Self {
        let new = || AtomicBool::new(false);
        Self { shared, client, lost: new(), over: new(), resets: new() }
    }

    /// While nothing may get to the server, it is not connected to either. False if it is over before that.
    pub(super) fn wait_for_a_way(&self) -> io::Result<bool> {
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

    /// One side has said all: the other is told, unless the network keeps that to itself.
    pub(super) fn end_of(&self, to: &TcpStream) {
        while !self.is_over() && matches!(*self.shared.fault(), Fault::Stall | Fault::Blackhole) {
            thread::sleep(GLANCE);
        }
        if self.lost.load(Ordering::SeqCst) {
            return self.end();
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
                return self.end();
            }
        }
    }

    /// Answers a request in the server's place. False if these bytes are none.
    pub(super) fn inject(&self, piece: &[u8]) -> io::Result<bool> {
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

    pub(super) fn reset(&self) {
        self.resets.store(true, Ordering::SeqCst);
        self.end();
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        let resets = matches!(*self.shared.fault(), Fault::Reset | Fault::Refuse);
        if resets && !self.over.load(Ordering::SeqCst) {
            self.reset();
        }
        self.over.load(Ordering::SeqCst) || self.shared.is_closed()
    }
}
