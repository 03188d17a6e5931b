//! What is done to a server that the program under torture has started.

use std::io;

use regrow_chaos::processes;
use regrow_chaos::sync::wait_until;
use rustix::process::Signal;
use serde_json::json;

use super::{Far, PATIENCE};
use crate::call::Tool;
use crate::face::Hand;
use crate::plan::{Kind, Step};

impl Far {
    pub(crate) fn strike_process(&mut self, step: &Step, hand: &Hand) -> io::Result<()> {
        let server = self.server().map(|process| process.pid);
        let next = self.witness.lives.len() + 1;
        let habit = step.habit;
        let plan = match step.kind {
            Kind::BadStart if step.chance.is_multiple_of(2) => format!("{habit} exit-at-start@{next}"),
            Kind::BadStart => format!("{habit} crash-after-handshake@{next}"),
            _ => habit.to_owned(),
        };
        self.journal.set_control(&plan)?;
        let choose = |of: &[&'static str]| of[step.chance as usize % of.len()];
        // The calls that make trouble are answered or not, like any other; the history judges them.
        let trouble = |name, more| drop(hand.call_with(Tool::Other(name), &more));
        match step.kind {
            Kind::Kill | Kind::BadStart => self.signal(server, Signal::KILL),
            Kind::KillTwice => {
                self.signal(server, Signal::KILL);
                if self.wait(|far| far.witness.lives.len() >= next || hand.face.program().exit().is_some()) {
                    let second = self.server().map(|process| process.pid);
                    self.signal(second, Signal::KILL);
                }
            }
            Kind::Segv => self.signal_until_dead(Signal::SEGV),
            Kind::Exit => {
                let when = choose(&["during", "before", "after"]);
                let how = ["exit1", "exit0", "abort"][(step.chance / 3 % 3) as usize];
                trouble("die", json!({ "when": when, "how": how }));
            }
            Kind::Pause => self.pause(step.hold),
            Kind::Hang => self.signal(server, Signal::STOP),
            Kind::CloseOut => trouble("closeout", json!({ "answer": step.chance.is_multiple_of(2) })),
            Kind::CloseIn => trouble("closein", json!({})),
            Kind::HalfLine => trouble("half", json!({})),
            Kind::Noise => {
                for tool in ["garbage", "dup", "stray", "malformed"] {
                    trouble(tool, json!({}));
                }
            }
            Kind::Flood => trouble("stderr", json!({ "bytes": "5MB" })),
            _ => hand.face.restart(),
        }
        Ok(())
    }

    /// The runtime of the server swallows the first SIGSEGV that no fault caused.
    fn signal_until_dead(&mut self, signal: Signal) {
        let Some(server) = self.server() else { return };
        wait_until(PATIENCE, || {
            if server.is_alive() {
                processes::signal(server.pid, signal);
            }
            !server.is_alive()
        });
    }
}
