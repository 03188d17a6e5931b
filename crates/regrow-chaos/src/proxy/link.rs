//! One connection through the proxy: two pumps, each of which asks before every piece what is wrong.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::pump::{Next, Pump, Way};
use super::{Fault, GLANCE, Shared, inject};
use crate::port::{is_readable, reset_at_close};

const PIECE: usize = 16 * 1024;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A client's connection.
pub(super) struct Link<'a> {
    pub(super) shared: &'a Shared,
    client: TcpStream,
    /// It has lost bytes, and nothing can mend it.
    pub(super) lost: AtomicBool,
    over: AtomicBool,
    resets: AtomicBool,
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
        let mut pump = Pump::new(self, to, way);
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

    fn reset(&self) {
        self.resets.store(true, Ordering::SeqCst);
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

/// Nobody waits long for a socket, so that a change of the fault is noticed.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.set_write_timeout(Some(Duration::from_millis(20)))
}

pub(super) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
