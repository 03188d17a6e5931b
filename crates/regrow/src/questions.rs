//! What servers have asked a client, and the client has not answered yet.

use std::collections::HashMap;

use regrow_core::Epoch;

use crate::frame::RawId;

/// More unanswered requests of a server to the client than this are refused.
const MAX_OPEN: usize = 4096;

/// The open questions of one client, each under a number of ours: every session of a server counts from the same one, and the
/// client must never mix them up.
#[derive(Debug, Default)]
pub struct Questions {
    open: HashMap<u64, (Epoch, RawId)>,
    last: u64,
}

impl Questions {
    /// Whether one more is too many.
    pub fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    /// A server asks, in this session and by this id. Gives the id that the client knows it by.
    pub fn ask(&mut self, epoch: Epoch, id: RawId) -> RawId {
        self.last += 1;
        self.open.insert(self.last, (epoch, id));
        RawId::from(self.last)
    }

    /// The client answered. Gives the session and the id of what it was asked, if it was.
    pub fn answer(&mut self, ours: &RawId) -> Option<(Epoch, RawId)> {
        self.open.remove(&ours.as_number()?)
    }

    /// The server does not want to know any more. Gives the id that the client knows it by.
    pub fn withdraw(&mut self, epoch: Epoch, id: &RawId) -> Option<RawId> {
        let is_it = |(of, raw): &(Epoch, RawId)| *of == epoch && raw == id;
        let ours = self.open.iter().find(|(_, asked)| is_it(asked)).map(|(&ours, _)| ours)?;
        self.open.remove(&ours);
        Some(RawId::from(ours))
    }

    /// The session is lost. Gives what the client need not answer any more, oldest first.
    pub fn lose(&mut self, epoch: Epoch) -> Vec<RawId> {
        let mut over: Vec<u64> =
            self.open.iter().filter(|(_, (of, _))| *of == epoch).map(|(&ours, _)| ours).collect();
        over.sort_unstable();
        self.open.retain(|_, (of, _)| *of != epoch);
        over.into_iter().map(RawId::from).collect()
    }
}
