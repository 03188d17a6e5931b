//! What a ledger knows about its calls.

use super::call::{Call, Place};
use super::{CallId, Ledger};
use crate::{Epoch, Nature, Time};

impl<R> Ledger<R> {
    /// How many calls wait for a session and would wake one. Streams alone do not.
    pub fn waiting(&self) -> usize {
        let wakes = |id: &&CallId| self.calls.get(**id).is_some_and(|call| call.nature != Nature::Stream);
        self.waiting.values().filter(wakes).count()
    }

    /// Whether this is a client's call, and not a stream.
    pub fn is_client_call(&self, id: CallId) -> bool {
        self.calls.get(id).is_some_and(|call| !call.own && call.nature != Nature::Stream)
    }

    /// How many calls of clients are in flight on this session. Streams are not counted.
    pub fn in_flight(&self, epoch: Epoch) -> usize {
        self.count(|call| matches!(call.place, Place::On(on, _) if on == epoch))
    }

    /// The same, on every session: also on those that their servers have forgotten.
    pub fn in_flight_anywhere(&self) -> usize {
        self.count(|call| matches!(call.place, Place::On(..)))
    }

    /// How many of those on this session the server may have seen, if it read so many bytes of its input.
    pub fn seen(&self, epoch: Epoch, read: u64) -> usize {
        self.count(|call| matches!(call.place, Place::On(on, Some(start)) if on == epoch && start < read))
    }

    /// Since when the oldest of the calls that have gone to this session could be sent.
    pub fn eldest(&self, epoch: Epoch) -> Option<Time> {
        self.eldest_of(epoch, |_| true)
    }

    /// The same, of these calls alone.
    pub fn eldest_of(&self, epoch: Epoch, wanted: impl Fn(CallId) -> bool) -> Option<Time> {
        let gone = |call: &Call<R>| matches!(call.place, Place::On(on, Some(_)) if on == epoch);
        let of_clients = |call: &Call<R>| !call.own && call.nature != Nature::Stream;
        let calls = self.calls.iter().filter(|(id, call)| of_clients(call) && gone(call) && wanted(*id));
        calls.map(|(_, call)| call.since).min()
    }

    /// How many calls of clients are pending, wherever they are. Streams are not counted.
    pub fn pending(&self) -> usize {
        self.count(|_| true)
    }

    /// Whether a client has a stream open, or wants one.
    pub fn has_streams(&self) -> bool {
        self.calls.values().any(|call| call.nature == Nature::Stream)
    }

    fn count(&self, wanted: impl Fn(&Call<R>) -> bool) -> usize {
        self.clients(wanted).count()
    }

    /// The calls of clients for which this holds. Streams are none.
    fn clients(&self, wanted: impl Fn(&Call<R>) -> bool) -> impl Iterator<Item = &Call<R>> {
        self.calls.values().filter(move |call| !call.own && call.nature != Nature::Stream && wanted(call))
    }

    /// How many calls are pending in all.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether a client's call got a good answer in this epoch.
    pub fn has_answered(&self, epoch: Epoch) -> bool {
        self.answered == Some(epoch)
    }

    /// Whether no call is taken any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The calls, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (CallId, &R)> {
        self.calls.iter().map(|(id, call)| (id, &call.reply))
    }

    /// The calls that pause before they are sent again.
    pub fn paused(&self) -> impl Iterator<Item = &R> {
        let paused = self.calls.values().filter(|call| matches!(call.place, Place::Paused(..)));
        paused.map(|call| &call.reply)
    }

    /// The newest call for which this holds.
    pub fn find(&self, mut wanted: impl FnMut(&R) -> bool) -> Option<CallId> {
        self.calls.iter().rev().find(|(_, call)| wanted(&call.reply)).map(|(id, _)| id)
    }

    /// All calls for which this holds, oldest first.
    pub fn find_all(&self, mut wanted: impl FnMut(&R) -> bool) -> Vec<CallId> {
        self.calls.iter().filter(|(_, call)| wanted(&call.reply)).map(|(id, _)| id).collect()
    }

    /// Whether this very session owes an answer to this call.
    pub fn is_on(&self, epoch: Epoch, id: CallId) -> bool {
        self.calls.get(id).is_some_and(|call| matches!(call.place, Place::On(on, _) if on == epoch))
    }

    /// Whether new calls go to a session.
    pub fn is_open(&self) -> bool {
        self.live.is_some()
    }

    /// The session that takes new calls.
    pub fn open_session(&self) -> Option<Epoch> {
        self.live
    }

    /// The number of the call that arrived last, wherever it is now. A call keeps its number as it moves.
    pub fn last_arrival(&self) -> u64 {
        self.last
    }

    /// The number of the call that [`Ledger::dispatch`] gives next.
    pub fn next_arrival(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(&arrival, _)| arrival)
    }

    /// Who waits for this call.
    pub fn reply(&self, id: CallId) -> Option<&R> {
        self.calls.get(id).map(|call| &call.reply)
    }

    /// Who waits for this call, to note something about it.
    pub fn reply_mut(&mut self, id: CallId) -> Option<&mut R> {
        self.calls.get_mut(id).map(|call| &mut call.reply)
    }
}
