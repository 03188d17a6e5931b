//! What is done to a server behind HTTP, and to the network before it.

use std::io;
use std::process::Stdio;
use std::thread;

use super::{Far, LIFE};
use crate::face::Hand;
use crate::plan::{Kind, Step};
use crate::system::MARK;
use regrow_chaos::program::clean;
use regrow_chaos::proxy::{Canned, Fault};

impl Far {
    pub(crate) fn strike_remote(&mut self, step: &Step, hand: &Hand) -> io::Result<()> {
        let fault = match step.kind {
            Kind::Reset => Fault::Reset,
            Kind::Refuse => Fault::Refuse,
            Kind::Blackhole => Fault::Blackhole,
            Kind::Stall => Fault::Stall,
            Kind::HalfClose => Fault::HalfClose,
            Kind::Truncate => Fault::Truncate(step.chance % 400),
            Kind::BadGateway => Fault::Answer(Canned::status(1 + (step.chance % 3) as usize, 502)),
            Kind::Busy => Fault::Answer(Canned::status(1, 503).header("Retry-After", "1")),
            _ => Fault::None,
        };
        let choose = |of: &[&'static str]| of[step.chance as usize % of.len()];
        let times = 1 + step.chance % 3;
        let plan = match step.kind {
            Kind::Forget => {
                let forms = ["404", "404-text", "404-empty", "400", "400-bare", "400-text", "200"];
                format!("expiry={} forget={}", choose(&forms), step.chance % 1_000_000)
            }
            Kind::DropAnswer => {
                format!("{} on=tools/call times={times}", choose(&["drop-answer", "drop-request"]))
            }
            Kind::CutStream => {
                let how = choose(&["answer=sse cut", "answer=sse finish", "cut-body=20"]);
                format!("{how} on=tools/call times={times}")
            }
            _ => String::new(),
        };
        self.journal.set_control(&plan)?;
        match step.kind {
            Kind::Outage => {
                self.end_site();
                thread::sleep(step.hold);
                self.start_site()?;
            }
            Kind::Pause => self.pause(step.hold),
            Kind::Restart => hand.face.restart(),
            _ => {
                let Some(site) = &self.site else { return Ok(()) };
                site.proxy.set(fault);
                thread::sleep(step.hold);
                site.proxy.set(Fault::None);
            }
        }
        Ok(())
    }

    pub(crate) fn start_site(&mut self) -> io::Result<()> {
        let Some(site) = &mut self.site else { return Ok(()) };
        let (known, mark) = (self.witness.ports, self.mark.clone());
        let mut command = clean(&site.program);
        command.args(["chaos-server", "--http", &site.address.to_string()]);
        command.env("CHAOS", site.plan).env("CHAOS_DIR", self.journal.dir()).env("CHAOS_LIFE", LIFE);
        command.env(MARK, mark).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        site.child = Some(command.spawn()?);
        match self.wait(|far| far.witness.ports > known) {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the chaos server does not start over HTTP"))
            }
        }
    }

    /// Ends a remote server. One that has ended already is as well.
    pub(crate) fn end_site(&mut self) {
        if let Some(mut child) = self.site.as_mut().and_then(|site| site.child.take()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
