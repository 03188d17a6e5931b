//! What servers have asked a client, and the client has not answered yet.

use std::collections::BTreeMap;

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::{self, RawId};
use regrow_protocol::method;

use crate::error::ErrorKind;

/// More unanswered requests of a server to the client than this are refused.
const MAX_OPEN: usize = 4096;

/// The open questions of one client, each under a number of ours: every session of a server counts from the same one, and the
/// client must never mix them up.
#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<u64, Question>,
    last: u64,
}

#[derive(Debug)]
struct Question {
    epoch: Epoch,
    id: RawId,
    /// What the server gets if the client cannot answer any more.
    otherwise: Otherwise,
}

#[derive(Clone, Copy, Debug)]
enum Otherwise {
    Pong,
    Cancel,
    Refuse,
}

impl Otherwise {
    fn of(method: &str) -> Otherwise {
        match method {
            method::PING => Otherwise::Pong,
            method::ELICITATION_CREATE => Otherwise::Cancel,
            _ => Otherwise::Refuse,
        }
    }

    fn line(self, id: &RawId) -> Bytes {
        match self {
            Otherwise::Pong => frame::response(id, b"{}"),
            Otherwise::Cancel => frame::response(id, br#"{"action":"cancel"}"#),
            Otherwise::Refuse => {
                frame::error(Some(id), ErrorKind::Closed.code(), "the client closed its input", None)
            }
        }
    }
}

impl Questions {
    /// Whether one more is too many.
    pub fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    /// A server asks, in this session, by this id and with this method. Returns the id that the client knows it by.
    pub fn ask(&mut self, epoch: Epoch, id: RawId, method: &str) -> RawId {
        self.last += 1;
        self.open.insert(self.last, Question { epoch, id, otherwise: Otherwise::of(method) });
        RawId::from(self.last)
    }

    /// The client answered. Returns the session and the id of what it was asked, if it was.
    pub fn answer(&mut self, ours: &RawId) -> Option<(Epoch, RawId)> {
        self.open.remove(&ours.as_number()?).map(|question| (question.epoch, question.id))
    }

    /// The client can answer nothing any more. Gives the answers that end what it was asked, oldest first: session,
    /// id and line of each.
    pub fn give_up(&mut self) -> Vec<(Epoch, RawId, Bytes)> {
        let open = std::mem::take(&mut self.open).into_values();
        open.map(|question| {
            let line = question.otherwise.line(&question.id);
            (question.epoch, question.id, line)
        })
        .collect()
    }

    /// The server does not want to know any more. Returns the id that the client knows it by.
    pub fn withdraw(&mut self, epoch: Epoch, id: &RawId) -> Option<RawId> {
        let is_it = |question: &Question| question.epoch == epoch && question.id == *id;
        let ours = self.open.iter().find(|(_, question)| is_it(question)).map(|(&ours, _)| ours)?;
        self.open.remove(&ours);
        Some(RawId::from(ours))
    }

    /// The session is lost. Returns what the client need not answer any more, oldest first.
    pub fn lose(&mut self, epoch: Epoch) -> Vec<RawId> {
        let over = self.open.extract_if(.., |_, asked| asked.epoch == epoch);
        over.map(|(ours, _)| RawId::from(ours)).collect()
    }
}
