//! The handle that callers hold: a connection to one server, which outlives its sessions.

mod attempt;
mod builder;
mod compare;
mod era;
mod events;
mod exchange;
mod exchanges;
mod forward;
pub(crate) mod greet;
mod handshake;
mod hangup;
mod memory;
mod messages;
mod owner;
mod pipe;
mod probe;
mod review;
mod session;
mod settings;
mod shared;
mod state;
mod submit;
mod weak;
mod wire_ids;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Delivery, Epoch, Event, Manner, Outlook, Requester};
use regrow_protocol::frame::{self, Frame, RawId};
use serde_json::Value;
use tokio::sync::{broadcast, oneshot};

use crate::call::{Caller, Outcome, Pending, Reply, Request};
use crate::error::{CallError, ErrorKind};
use crate::inbox::{Incoming, IncomingMessages, Queue};
use crate::notice::{Notice, Notices, Status};
use crate::transport::Transport;
use crate::upstream::{ClientParams, HandshakeResult, ServerSide, Upstream};
use crate::watch;
use forward::forward;
use shared::Shared;
use weak::WeakConnection;

pub use builder::Builder;
pub use owner::CloseReport;

/// A supervised connection to one server. Clones are cheap and share it; when the last is dropped, it closes.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    status: watch::Receiver<Status>,
    /// The owner's, so that notices end with it.
    notices: broadcast::WeakSender<Arc<Notice>>,
    closed: watch::Receiver<Option<CloseReport>>,
    queue: Option<Arc<Queue>>,
    requests: AtomicU64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.notify(Event::Close(Manner::Planned));
    }
}

impl Upstream for Connection {
    fn submit(&self, request: Request) {
        Connection::submit(self, request);
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        Connection::cancel(self, id, notification)
    }

    fn forward(&self, notification: &Frame) -> bool {
        Connection::forward(self, notification)
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        Connection::hand_over(self, epoch, server_id, answer)
    }

    fn cork(&self) {
        self.shared.lock().cork();
    }

    fn uncork(&self) {
        self.shared.lock().uncork();
    }
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub struct Answer(Frame);

impl Answer {
    /// The result, raw; or the error, raw.
    pub fn into_result(&self) -> Result<&[u8], &[u8]> {
        match self.0.error() {
            Some(error) => Err(error),
            None => Ok(self.0.result().unwrap_or_default()),
        }
    }

    /// The result as a value; an error as `None`.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_slice(self.0.result()?).ok()
    }

    /// The whole message. Its id is not the caller's.
    pub fn frame(&self) -> &Frame {
        &self.0
    }
}

impl Connection {
    /// A connection to the server of this name, reached in this way.
    pub fn builder(name: impl Into<Arc<str>>, transport: impl Transport) -> Builder {
        Builder::new(name.into(), Arc::new(transport))
    }

    /// What a [bridge](crate::Bridge) leads to. It does not hold the connection open.
    pub fn server_side(&self) -> Arc<dyn ServerSide> {
        let name = self.shared.settings.name.clone();
        Arc::new(WeakConnection { name, handle: Arc::downgrade(&self.handle) })
    }

    /// Starts the server now rather than with the first call.
    pub fn start(&self) {
        self.shared.notify(Event::Start);
    }

    /// Sends a request and waits for its end, which comes by the deadline. Dropping the future cancels the call.
    pub async fn request(&self, method: &str, params: Option<Value>) -> Result<Answer, CallError> {
        self.request_within(method, params, self.shared.time_for(method)).await
    }

    /// The same with a deadline of its own.
    pub async fn request_within(
        &self,
        method: &str,
        params: Option<Value>,
        timeout: Option<Duration>,
    ) -> Result<Answer, CallError> {
        let id = RawId::from(self.handle.requests.fetch_add(1, Ordering::Relaxed));
        let params = params.map(|params| params.to_string());
        let request = Frame::built(frame::request(&id, method, params.as_ref().map(|p| p.as_bytes())));
        let (reply, end) = oneshot::channel();
        let request = Request::new(request, id.clone(), Box::new(reply));
        self.submit_for(None, request, timeout);
        let mut give_up = GiveUp { shared: &self.shared, id: Some(id) };
        let outcome = end.await;
        give_up.id = None;
        match outcome {
            Ok(Outcome::Answered(frame)) => Ok(Answer(frame)),
            Ok(Outcome::Failed(error)) => Err(error),
            // Dropped without a word: something failed inside Regrow on the way of the answer.
            Err(_) => Err(CallError {
                delivery: Delivery::Unknown,
                outlook: Outlook::Restarting,
                ..CallError::new(self.shared.settings.name.clone(), ErrorKind::Interrupted)
            }),
            // A program is told what a server that does not know the method would tell it.
            Ok(Outcome::Refused) => {
                let line = frame::method_not_found(&RawId::from(0));
                Ok(Answer(Frame::built(line)))
            }
        }
    }

    /// Takes a request of a client that the program relays for. It ends by this connection's own deadline.
    pub fn submit(&self, request: Request) {
        let timeout = self.time_for(&request.frame);
        self.submit_for(Some(0), request, timeout);
    }

    /// How long a client's request like this may take in all; none if it has no deadline.
    pub fn time_for(&self, request: &Frame) -> Option<Duration> {
        self.shared.time_for(request.method().unwrap_or_default())
    }

    /// Ends the newest call that its client knows by this id, as the client's own notification asks. It gets no answer.
    pub fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        self.cancel_for(0, id, notification)
    }

    /// The same for one of several clients that share the connection.
    pub fn cancel_for(&self, client: u64, id: &RawId, notification: &Frame) -> bool {
        let is_it = |pending: &Pending| pending.is_of(client) && pending.caller_id == *id;
        self.shared.cancel(is_it, Some(notification))
    }

    /// Ends all calls of one client, as [`Connection::cancel_for`] does. Returns the request of each and who waits for it, oldest first.
    pub fn cancel_all(&self, client: u64, notification: &Frame) -> Vec<(Frame, Box<dyn Reply>)> {
        let ended = self.shared.cancel_all(|pending| pending.is_of(client), Some(notification));
        ended.into_iter().map(|call| (call.request, call.reply)).collect()
    }

    /// Adds the call that a message must belong to: the only one that its session is working on, or the only call of a tool. None is
    /// added if there are several.
    pub fn attribute(&self, incoming: Incoming) -> Incoming {
        let only = self.shared.lock().only_call(incoming.epoch);
        match only {
            Some((call, to)) => Incoming { call: Some(call), to, ..incoming },
            None => incoming,
        }
    }

    /// Sends a notification. Returns whether there was a session to send it to; a later one is not told.
    pub fn notify(&self, method: &str, params: Option<Value>) -> bool {
        let params = params.map(|params| params.to_string());
        self.shared.post(None, frame::notification(method, params.as_ref().map(|p| p.as_bytes())))
    }

    /// Hands on a notification of a client that the program relays for. Without a session it waits for the next one, in its place
    /// among the client's requests, unless it means something only to the session that is gone. Returns whether it was taken.
    pub fn forward(&self, notification: &Frame) -> bool {
        forward(&self.shared, notification)
    }

    /// Answers a request of the server (see [`Connection::incoming`]) with this result. Returns whether its session still
    /// lives; a later one must not get the answer.
    pub fn respond(&self, request: &Incoming, result: &Value) -> bool {
        let Some(id) = request.frame.id() else { return false };
        self.hand_over(request.epoch, &id, frame::response(&id, result.to_string().as_bytes()))
    }

    /// Refuses a request of the server, like [`Connection::respond`].
    pub fn refuse(&self, request: &Incoming, code: i64, message: &str) -> bool {
        let Some(id) = request.frame.id() else { return false };
        self.hand_over(request.epoch, &id, frame::error(Some(&id), code, message, None))
    }

    /// Hands on the answer of a client that the program relays for to the server's request of this id.
    pub fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        let posted = self.shared.post(Some(epoch), answer);
        if posted {
            self.shared.question(server_id.clone(), false);
        }
        posted
    }

    /// What the server sends on its own. Only the first caller gets it, and only where no other inbox was given.
    ///
    /// `ping` is answered for the program. As long as nobody has called this, other requests of the server are refused.
    pub fn incoming(&self) -> Option<IncomingMessages> {
        self.handle.queue.as_ref()?.receiver()
    }

    /// Where the connection stands, now and from now on.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.handle.status.clone()
    }

    /// What happens to it from now on.
    pub fn notices(&self) -> Notices {
        // When the owner is gone, so is this sender, at once: nothing happens any more.
        let notices = self.handle.notices.upgrade().unwrap_or_else(|| broadcast::Sender::new(1));
        Notices(notices.subscribe())
    }

    /// A text of the server's without the secrets that we know.
    pub fn masked(&self, text: &str) -> String {
        self.shared.settings.mask.apply(text)
    }

    /// The first and the last lines of the server's standard error, without the secrets that we know. A line between them says how
    /// many were left out.
    pub fn stderr_tail(&self) -> Vec<String> {
        let process = self.shared.lock().session.as_ref().map(|session| session.process.clone());
        let said = process.map(|process| process.stderr());
        said.map(|said| said.map(|line| self.masked(line)).lines()).unwrap_or_default()
    }

    /// Sets who greets from now on, where we greet the server ourselves. Later sessions than the first keep to who greeted that.
    pub fn greet_as(&self, hello: ClientParams) {
        self.shared.lock().memory.era.greet_as(hello);
    }

    /// What the server said when we last greeted it ourselves.
    pub fn welcome(&self) -> Option<HandshakeResult> {
        self.shared.lock().memory.era.welcome.clone()
    }

    /// Whether the client speaks the modern era.
    pub fn is_modern(&self) -> bool {
        self.shared.lock().memory.era.is_modern()
    }

    /// Puts a fresh session in the place of this one, when the calls in flight have ended.
    pub fn reconnect(&self, requester: Requester) {
        self.shared.notify(Event::Reconnect(requester));
    }

    /// Ends the session until the next call, which starts the server again with all that must be told to it. Costs nothing, and
    /// nothing wakes it but a call or an order.
    ///
    /// Does nothing where somebody would lose by that: while a call is pending, while the client is subscribed to resources or has
    /// a stream open (it would be deaf), on a session that began tasks, and unless the connection is ready. Ask again later.
    pub fn rest(&self) {
        self.shared.notify(Event::Rest);
    }

    /// Ends the session when the calls in flight have ended, within the drain's limit, and starts no other. Calls fail at once, and
    /// only [`Connection::wake`] or a person's [`Connection::reconnect`] wakes it. Streams and subscriptions are kept for then.
    pub fn park(&self) {
        self.shared.notify(Event::Park);
    }

    /// Tries at once to get a session, however the connection came to be without one. Does nothing where there is one or an attempt
    /// runs.
    pub fn wake(&self) {
        self.shared.notify(Event::Wake);
    }

    /// Forgets past faults: the budget is whole, and pauses start over. What is parked for its budget is tried at once.
    pub fn reset_budget(&self) {
        self.shared.notify(Event::ResetBudget);
    }

    /// Takes no new calls, lets those in flight finish within the drain's limit, and closes.
    pub async fn drain(&self) -> CloseReport {
        self.shared.notify(Event::Drain);
        self.gone().await
    }

    /// Ends the connection; returns when everything is gone, and says what it had to do.
    pub async fn close(&self) -> CloseReport {
        self.close_in(Manner::Planned).await
    }

    /// The same, as gently as this manner.
    pub async fn close_in(&self, manner: Manner) -> CloseReport {
        self.shared.notify(Event::Close(manner));
        self.gone().await
    }

    async fn gone(&self) -> CloseReport {
        let mut closed = self.handle.closed.clone();
        let gone = closed.wait_for(Option::is_some).await;
        gone.ok().and_then(|closed| closed.clone()).unwrap_or_default()
    }
}

/// Cancels the call of a caller that stopped waiting.
struct GiveUp<'a> {
    shared: &'a Shared,
    id: Option<RawId>,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.shared.cancel(|pending| pending.caller == Caller::Program && pending.caller_id == *id, None);
        }
    }
}
