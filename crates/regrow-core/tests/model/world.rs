//! A state of the model: the real supervisor, and the truth about the server and the callers.

use crate::first::FirstStart;
use crate::properties::{Broken, Goal};
use crate::scope::{BIRTH, HORIZON, Scope};
use regrow_core::{CallId, Epoch, Evidence, Fault, Lifecycle, Nature, Supervisor, Time};
use std::hash::{Hash, Hasher};

/// A call as its caller knows it: an index into [`Truth::calls`].
pub(crate) type Caller = usize;

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) supervisor: Supervisor<Caller>,
    pub(crate) truth: Truth,
    /// What the last move reached. Not a part of the state.
    pub(crate) reached: u128,
}

/// What is known of the world, told by nobody but the moves and the effects themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Truth {
    pub(crate) calls: Vec<Call>,
    /// The newest attempt that was started.
    pub(crate) epoch: Epoch,
    /// What the server owes, in the order in which it was sent.
    pub(crate) owed: Vec<Owed>,
    pub(crate) processes: Vec<Process>,
    /// When something was last read from the server.
    pub(crate) heard: Time,
    /// When the newest attempt started.
    pub(crate) attempted: Option<Time>,
    /// When the newest session was last asked for a sign of life.
    pub(crate) asked: Option<Time>,
    /// How many messages were read since it was asked beside a call.
    pub(crate) messages: u64,
    /// It has answered a probe during a call, before anything else.
    pub(crate) answers_when_busy: bool,
    pub(crate) account: Account,
    /// When faults were charged, as far back as the window goes.
    pub(crate) charges: Vec<Time>,
    pub(crate) free_in_a_row: u32,
    /// Parked over budget, and no session since.
    pub(crate) slow: bool,
    pub(crate) first: FirstStart,
    /// The client has not greeted yet; its first requests are its handshake.
    pub(crate) greeting_open: bool,
    /// When everything must be over, once the end was asked for; moot if the machine slept since.
    pub(crate) closed_by: Option<Time>,
    pub(crate) sleeps: u8,
    /// The machine has just slept, and nothing that arrived meanwhile is read yet.
    pub(crate) just_woke: bool,
    pub(crate) abandons: u8,
    pub(crate) orders: u8,
    pub(crate) mends: u8,
    pub(crate) operated: u8,
    /// When the last session that was ready ended. Not kept where nobody has patience.
    pub(crate) healthy: Option<Time>,
    /// When it parked because of its faults, if there was no session since. Not kept where nobody has patience.
    pub(crate) parked: Option<Time>,
    /// When a server that asked for it may be asked again.
    pub(crate) deferred_until: Option<Time>,
    pub(crate) broken: Option<Broken>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) nature: Nature,
    /// How often a server has run it.
    pub(crate) runs: u8,
    pub(crate) sends: u8,
    /// How often it was written to a server.
    pub(crate) written: u8,
    /// A session was left because it was refused there.
    pub(crate) refused: Option<Evidence>,
    /// Its exchange ended once without an answer, but it did not.
    pub(crate) missed: bool,
    pub(crate) taken: Time,
    /// Since when no session has it. Not kept where nobody has patience.
    pub(crate) waits_since: Time,
    /// When it must have ended; none once it has.
    pub(crate) ends_by: Option<Time>,
    pub(crate) end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Told,
    /// Its caller was told that no server can have seen it.
    ToldNotSent,
}

/// A call that was given to a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owed {
    pub(crate) epoch: Epoch,
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    pub(crate) written: bool,
    pub(crate) ran: bool,
}

/// What an attempt started, until the last of it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) epoch: Epoch,
    pub(crate) alive: bool,
    /// Gone, and its owner is just hearing of it.
    pub(crate) gone: bool,
    /// Told to end; until then it must be waited for.
    pub(crate) patience: Option<Time>,
    pub(crate) abandoned: bool,
    /// Why it ended or failed by itself. Told to the owner later, if at all.
    pub(crate) causes: Vec<Fault>,
    pub(crate) causes_told: usize,
    /// Shook hands, so that calls may go to it; told to the owner later.
    pub(crate) greeted: bool,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// What was known to be read when its input was closed.
    pub(crate) known_read: Option<u64>,
    /// What lies in its input.
    pub(crate) pipe: Vec<(CallId, Caller)>,
    /// Each call has an exchange of its own; what became of it, only that can tell.
    pub(crate) exchanges: bool,
}

/// What is known of the newest epoch, to judge its charge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pub(crate) was_ready: bool,
    pub(crate) discovering: bool,
    pub(crate) answered: bool,
    pub(crate) charged: bool,
    /// A person ordered the next attempt while this one was ending.
    pub(crate) hurried: bool,
    /// Something was mended, which may have been what it failed for.
    pub(crate) mended: bool,
    pub(crate) probe_refused: bool,
    /// The youngest caller of whom a call was sent.
    pub(crate) last_sent: Option<Caller>,
}

impl World {
    pub(crate) fn new(scope: &Scope) -> World {
        World {
            now: BIRTH,
            supervisor: Supervisor::new(scope.policy.clone(), 7),
            truth: Truth { heard: BIRTH, greeting_open: scope.relay, ..Truth::default() },
            reached: 0,
        }
    }

    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        self.supervisor.lifecycle()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.truth.epoch
    }

    pub(crate) fn process(&self, epoch: Epoch) -> Option<&Process> {
        self.truth.processes.iter().find(|process| process.epoch == epoch)
    }

    pub(crate) fn process_mut(&mut self, epoch: Epoch) -> Option<&mut Process> {
        self.truth.processes.iter_mut().find(|process| process.epoch == epoch)
    }

    /// Whether a timer is due. Time stands still until it has fired.
    pub(crate) fn is_due(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.supervisor.deadline()
    }

    pub(crate) fn reach(&mut self, goal: Goal) {
        self.reached |= goal.bit();
    }

    pub(crate) fn is_waiting(&self, caller: Caller) -> bool {
        self.truth.calls[caller].end.is_none() && self.truth.owed.iter().all(|owed| owed.caller != caller)
    }
}

impl Process {
    /// How much of its input a server can have read, as an owner knows it: all, while somebody may still read.
    pub(crate) fn can_have_read(&self) -> u64 {
        match self.known_read {
            _ if self.exchanges => u64::MAX,
            Some(read) => read,
            None if self.alive => self.written,
            None => self.read,
        }
    }

    /// Whether it failed in a way that its owner has not heard of yet.
    pub(crate) fn has_untold_cause(&self) -> bool {
        self.causes_told < self.causes.len()
    }
}

impl PartialEq for World {
    fn eq(&self, other: &World) -> bool {
        let print = |world: &World| {
            let mut hasher = std::hash::DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        print(self) == print(other)
    }
}

/// Two worlds are the same state if they differ only in when they are. Decisions compare times with each other and
/// with `now`, so only distances matter, and of distances into the past only those up to the longest of the policy.
impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut hasher = FromNow { now: self.now.as_millis(), hasher };
        self.lifecycle().hash(&mut hasher);
        self.supervisor.ledger.hash(&mut hasher);
        self.deadline().hash(&mut hasher); // Which may be later than theirs, after a sleep.
        self.truth.hash(&mut hasher);
    }
}

/// Hashes times as distances from now. Every life begins at [`BIRTH`], a number so large that nothing else comes near
/// it, so times are known by their size. What is larger still is the state of the dice, which decides nothing here:
/// there is no jitter.
struct FromNow<'a, H> {
    now: u64,
    hasher: &'a mut H,
}

impl<H: Hasher> Hasher for FromNow<'_, H> {
    fn write_u64(&mut self, number: u64) {
        let birth = BIRTH.as_millis();
        match number {
            number if number < birth / 2 => self.hasher.write_u64(number),
            number if number < birth * 2 => {
                self.hasher.write_i64((number as i64 - self.now as i64).max(-(HORIZON.as_millis() as i64)))
            }
            _ => {}
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    fn write_u8(&mut self, number: u8) {
        self.hasher.write_u8(number);
    }

    fn write_u32(&mut self, number: u32) {
        self.hasher.write_u32(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.hasher.write_usize(number);
    }

    fn write_isize(&mut self, number: isize) {
        self.hasher.write_isize(number);
    }

    fn finish(&self) -> u64 {
        self.hasher.finish()
    }
}
