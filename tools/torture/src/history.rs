//! The history of a lane: every call that was made, and what its caller was told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use regrow_chaos::sync::lock;
use serde_json::Value;

use super::call::{Call, Told, Tool, told};

/// No lane makes more calls; near that it goes through no more cycles.
const MOST_CALLS: usize = 4_000_000;
const RESERVE: usize = 100_000;

/// All calls of a lane.
pub(crate) struct History {
    began: Instant,
    book: Mutex<Book>,
    news: Condvar,
    /// Answers to ids that nobody used.
    unasked: AtomicU64,
}

#[derive(Default)]
struct Book {
    calls: Vec<Call>,
    /// Who waits, by the order of calls; at most as many as calls in flight.
    waiting: HashMap<usize, SyncSender<Told>>,
}

/// A call that was begun.
pub(crate) struct Begun {
    pub(crate) key: usize,
    pub(crate) answer: Receiver<Told>,
}

impl History {
    pub(crate) fn new(began: Instant) -> History {
        History { began, book: Mutex::default(), news: Condvar::new(), unasked: AtomicU64::new(0) }
    }

    /// Writes down a call that is about to be made. None when the book is full.
    pub(crate) fn begin(&self, tool: Tool) -> Option<Begun> {
        let mut book = lock(&self.book);
        let key = book.calls.len();
        if key >= MOST_CALLS {
            return None;
        }
        let (sender, answer) = sync_channel(1);
        let begun = self.began.elapsed();
        book.calls.push(Call { tool, begun, ended: None, told: Told::Nothing, answers: 0 });
        book.waiting.insert(key, sender);
        Some(Begun { key, answer })
    }

    /// Writes down an answer.
    pub(crate) fn answer(&self, id: &Value, message: &Value) {
        let ended = self.began.elapsed();
        let mut book = lock(&self.book);
        let key = id.as_u64().and_then(|id| usize::try_from(id.checked_sub(1)?).ok());
        let Some((key, call)) = key.and_then(|key| Some((key, book.calls.get_mut(key)?))) else {
            self.unasked.fetch_add(1, Ordering::SeqCst);
            return;
        };
        call.answers += 1;
        if call.answers > 1 {
            return;
        }
        call.ended = Some(ended);
        call.told = told(call.tool, key, message);
        let told = call.told.clone();
        if let Some(waiting) = book.waiting.remove(&key) {
            let _ = waiting.send(told); // Nobody may wait any more; it is written down.
        }
        self.news.notify_all();
    }

    /// No answer to this one will come any more.
    pub(crate) fn give_up(&self, id: u64) {
        if let Some(key) = id.checked_sub(1).and_then(|key| usize::try_from(key).ok()) {
            lock(&self.book).waiting.remove(&key);
            self.news.notify_all();
        }
    }

    /// There will be no more answers: nobody waits any longer.
    pub(crate) fn close(&self) {
        lock(&self.book).waiting.clear();
        self.news.notify_all();
    }

    /// Waits for any answer, at most so long.
    pub(crate) fn wait(&self, limit: Duration) {
        // Whether it was news or the time does not matter: the caller looks.
        drop(self.news.wait_timeout(lock(&self.book), limit).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until every call has its answer, at most so long.
    pub(crate) fn settle(&self, limit: Duration) {
        let open = |book: &mut Book| !book.waiting.is_empty();
        drop(
            self.news
                .wait_timeout_while(lock(&self.book), limit, open)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    pub(crate) fn is_nearly_full(&self) -> bool {
        self.len() > MOST_CALLS - RESERVE
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.book).calls.len()
    }

    pub(crate) fn ended(&self, key: usize) -> Option<Duration> {
        lock(&self.book).calls.get(key)?.ended
    }

    pub(crate) fn unasked(&self) -> u64 {
        self.unasked.load(Ordering::SeqCst)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.book).calls.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_answer_counts_and_the_second_is_counted() {
        let history = History::new(Instant::now());
        let begun = history.begin(Tool::Echo).unwrap();
        let answer = json!({ "result": { "content": [{ "text": "k0" }] } });
        history.answer(&json!(1), &answer);
        history.answer(&json!(1), &answer);
        history.answer(&json!("nobody"), &answer);
        assert_eq!(begun.answer.recv().unwrap(), Told::Right);
        assert_eq!((history.calls()[0].answers, history.unasked()), (2, 1));
        history.settle(Duration::from_secs(60));
    }
}
