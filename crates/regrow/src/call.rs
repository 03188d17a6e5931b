//! One call: what was asked, who waits, and how it can end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use regrow_core::Epoch;
use regrow_protocol::frame::{Frame, RawId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::CallError;
use crate::inbox::CallInbox;
use crate::transport::ResponseStream;

/// A request of a client on its way to the server.
pub struct Request {
    /// As the client wrote it, or as it reads further on.
    pub frame: Frame,
    /// The client's id for it.
    pub id: RawId,
    /// Who waits for its end.
    pub reply: Box<dyn Reply>,
    /// Since when. Its time runs from then on, wherever it waits.
    pub since: Instant,
}

impl Request {
    /// One that comes now.
    pub fn new(frame: Frame, id: RawId, reply: Box<dyn Reply>) -> Request {
        Request { frame, id, reply, since: Instant::now() }
    }
}

/// How a call ended.
#[derive(Debug)]
pub enum Outcome {
    /// The server answered: a result or an error of its own. The frame's id is ours, not the caller's.
    Answered(Frame),
    /// There is no answer, for this reason.
    Failed(CallError),
    /// The server left rather than answer; the caller is told "method not found" so that it asks otherwise.
    Refused,
}

/// Who waits for the end of a call. It is told exactly once, unless the call is cancelled; it must not block.
pub trait Reply: Send + 'static {
    /// The call ended.
    fn end(self: Box<Self>, outcome: Outcome);

    /// Where messages go that belong to the call; none if they go to the client's inbox. The connection asks under its lock: this must
    /// neither lock what calls the connection nor drop anything.
    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        None
    }

    /// Where a long response may go while it arrives; none if it must come whole. The connection asks under its lock, as above.
    fn response_stream(&self) -> Option<Arc<dyn ResponseStream>> {
        None
    }
}

impl Reply for oneshot::Sender<Outcome> {
    fn end(self: Box<Self>, outcome: Outcome) {
        // A caller that has stopped waiting has cancelled the call itself.
        let _ = self.send(outcome);
    }
}

/// Runs code of the connection's user. If it panics, the owner must go on: the panic was already reported.
pub(crate) fn shielded(run: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// A call in the ledger, in a box: the ledger moves its entries about, and this is large.
pub(crate) struct Pending {
    /// The request as its caller wrote it; sent under an id of ours.
    pub(crate) request: Frame,
    pub(crate) reply: Box<dyn Reply>,
    /// The caller's own id for it.
    pub(crate) caller_id: RawId,
    /// Which caller: cancels are looked up among its own calls.
    pub(crate) caller: Caller,
    /// A subscription stream: the newest session on which the server has acknowledged it.
    pub(crate) acknowledged: Option<Epoch>,
    /// The session on which the server accepted it with this HTTP status, to answer it on its own stream.
    pub(crate) accepted: Option<(Epoch, u16)>,
}

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A client that is relayed for, by its number: 0 where the connection has only one.
    Client(u64),
    /// The program that holds the connection.
    Program,
    /// Regrow itself.
    Own,
}

impl Pending {
    pub(crate) fn new(
        request: Frame,
        reply: Box<dyn Reply>,
        caller_id: RawId,
        caller: Caller,
    ) -> Box<Pending> {
        Box::new(Pending { request, reply, caller_id, caller, acknowledged: None, accepted: None })
    }

    /// The caller's own progress token. On the wire, the number of the call stands for it.
    pub(crate) fn progress_token(&self) -> Option<RawId> {
        self.request.meta_progress_token().and_then(RawId::parse)
    }

    /// The client whose call it is, and that client's id for it; none of the program's calls and our own.
    pub(crate) fn of_client(&self) -> Option<(u64, RawId)> {
        match self.caller {
            Caller::Client(client) => Some((client, self.caller_id.clone())),
            Caller::Program | Caller::Own => None,
        }
    }

    /// Whether it is a call of this client.
    pub(crate) fn is_of(&self, client: u64) -> bool {
        self.caller == Caller::Client(client)
    }
}
