//! Calls of a modern client that run on a legacy server, some of them while their client was asked for input.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::RawId;
use serde_json::value::RawValue;

use super::Bridge;
use super::object::Object;
use super::polish::Polish;
use super::timer::Timer;
use super::words::{self, INPUT_REQUIRED};
use crate::call::{Outcome, Reply};
use crate::ids::random_id;
use crate::inbox::CallInbox;

/// A call whose client was asked for input, and does not come back for so long, is over.
const RETURNS_WITHIN: Duration = Duration::from_secs(3600);

/// More clients than this are not sent away at once,
const MAX_AWAY: usize = 256;
/// nor is more than this kept for them.
const MAX_KEPT: usize = 64 << 20;

/// The calls during which a server may ask for input.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) open: BTreeMap<u64, OpenCall>,
    last: u64,
}

/// One of them. It goes on while its client is away to answer.
pub(super) struct OpenCall {
    /// The connection knows it by this, which was its client's first.
    pub(super) id: RawId,
    pub(super) method: String,
    /// What its client can do for the server.
    pub(super) capabilities: Object,
    /// The server tells its progress under this.
    pub(super) progress_token: Option<Bytes>,
    /// The least severe log messages that its client asked for.
    pub(super) level: Option<String>,
    /// Who waits for its end; none while its client is away.
    pub(super) client: Option<Client>,
    /// Where its messages go while its client waits.
    pub(super) inbox: Arc<CurrentInbox>,
    /// It ended while its client was away.
    pub(super) end: Option<Outcome>,
    pub(super) questions: Vec<InputRequest>,
    /// What its client must show when it comes back.
    pub(super) state: Option<String>,
    pub(super) limit: Option<Timer>,
    pub(super) polish: Polish,
}

pub(super) struct Client {
    pub(super) id: RawId,
    pub(super) reply: Box<dyn Reply>,
    pub(super) progress_token: Option<Bytes>,
}

/// Where the messages of a call go: its client may come back with another request.
#[derive(Default)]
pub(super) struct CurrentInbox(Mutex<Option<Arc<dyn CallInbox>>>);

impl CurrentInbox {
    pub(super) fn get(&self) -> Option<Arc<dyn CallInbox>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, inbox: Option<Arc<dyn CallInbox>>) {
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), inbox);
        drop(old); // Not under the lock.
    }
}

/// Something that the server asks the client.
pub(super) struct InputRequest {
    pub(super) key: String,
    pub(super) epoch: Epoch,
    pub(super) id: RawId,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    /// The client knows of it.
    pub(super) told: bool,
}

impl OpenCall {
    pub(super) fn is_running(&self) -> bool {
        self.end.is_none()
    }

    fn is_kept(&self) -> bool {
        self.client.is_none() && !self.is_running()
    }

    /// What is kept of it while its client is away.
    fn bytes(&self) -> usize {
        let end = match &self.end {
            Some(Outcome::Answered(frame)) => frame.bytes().len(),
            _ => 0,
        };
        end + self.questions.iter().map(InputRequest::bytes).sum::<usize>()
    }
}

impl InputRequest {
    pub(super) fn bytes(&self) -> usize {
        self.params.as_ref().map_or(0, |params| params.get().len())
    }
}

impl Calls {
    /// Whether so many clients more can be away, and so many bytes more be kept for them. Ends that nobody fetched make
    /// room, oldest first.
    pub(super) fn has_room_for(&mut self, clients: usize, bytes: usize) -> bool {
        loop {
            let away = self.open.values().filter(|call| call.client.is_none());
            let (count, kept) =
                away.fold((clients, bytes), |(count, kept), call| (count + 1, kept + call.bytes()));
            if count <= MAX_AWAY && kept <= MAX_KEPT {
                return true;
            }
            let oldest = self.open.iter().find(|(_, call)| call.is_kept()).map(|(&number, _)| number);
            let Some(oldest) = oldest else { return false };
            self.open.remove(&oldest);
        }
    }

    /// A number that no other has.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Questions of a session that is lost need no answer.
    pub(super) fn forget_questions(&mut self, epoch: Epoch) {
        for call in self.open.values_mut() {
            call.questions.retain(|question| question.epoch != epoch);
        }
    }

    /// Sends the client of this call away to answer. Returns whom to tell, and what.
    pub(super) fn send_away(&mut self, number: u64, me: &Weak<Bridge>) -> Option<(Box<dyn Reply>, Outcome)> {
        let state = unguessable();
        let call = self.open.get_mut(&number)?;
        let client = call.client.take()?;
        call.inbox.set(None);
        let mut requests = Object::default();
        for question in &mut call.questions {
            question.told = true;
            let mut request = Object::default();
            request.put("method", &question.method);
            if let Some(params) = &question.params {
                request.put("params", params);
            }
            requests.put(&question.key, request);
        }
        let mut result = Object::default();
        result.put("resultType", INPUT_REQUIRED);
        result.put("inputRequests", requests);
        result.put("requestState", &state);
        call.state = Some(state);
        call.limit = Some(Timer::after(me, RETURNS_WITHIN, move |bridge| bridge.client_stays_away(number)));
        Some((client.reply, words::answer(&result.bytes())))
    }
}

/// What nobody can show to whom it was not handed out: a bridge may serve several who do not know each other.
fn unguessable() -> String {
    random_id().expect("the system has random numbers: maps were seeded with some at the start")
}
