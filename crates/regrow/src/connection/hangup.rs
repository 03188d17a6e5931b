//! Ends a session: its exchanges, its process, and what that left behind.

use std::sync::Arc;
use std::time::Duration;

use regrow_core::{Epoch, Ladder, Manner};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::events::OwnerEvent;
use super::exchanges::ExchangeSet;
use super::shared::Shared;

/// What the helpers of a stubborn server get to end on their own.
const MOMENT: Duration = Duration::from_millis(100);
/// How long the reader of an ended process may take to read what is left.
const READER_ENDS: Duration = Duration::from_secs(1);

/// Ends what an attempt or session has running, and tells when nothing is left.
pub(crate) async fn hang_up(
    shared: Arc<Shared>,
    epoch: Epoch,
    attempt: Option<JoinHandle<()>>,
    manner: Manner,
    mut ladder: Ladder,
) {
    if let Some(attempt) = attempt {
        attempt.abort();
        let _ = attempt.await; // Aborted, or done; either way nothing of it runs.
    }
    // Again: the attempt may have put its session there since we were told to.
    let (session, left) = {
        let mut state = shared.lock();
        state.hang_up(shared.now(), epoch, manner, ladder);
        let session = state.session_of(epoch);
        let session = session.map(|session| (session.process.clone(), session.signals.clone()));
        (session, state.retire(shared.now(), epoch))
    };
    if let Some(tasks) = left {
        ended(tasks).await;
        return shared.notify(OwnerEvent::Gone(epoch, None, 0));
    }
    // What one exchange has found out, the others are about to; and a client that left may still read.
    let patience = match manner {
        Manner::Failed => shared.settings.policy.abandon_after, // Or until their calls are settled.
        Manner::ClientLeft => ladder.term_after,
        Manner::Planned | Manner::Told => Duration::ZERO,
    };
    let began = Instant::now();
    let _ = timeout(patience, exchanges_end(&shared, epoch)).await;
    // The ladder counts from the decision to end it; and the SDKs of clients give us 2 s to leave.
    ladder.term_after = ladder.term_after.saturating_sub(began.elapsed());
    let stopping = shared.lock().exchanges(epoch).map(ExchangeSet::stop);
    ended(stopping.unwrap_or_default()).await;
    let mut end = None;
    let mut helpers = 0;
    if let Some((process, signals)) = session {
        let killed = end.insert(process.end(ladder).await).killed;
        // Only now: if we are abandoned before, it goes with its session.
        let reader = shared.lock().session.as_mut().and_then(|session| session.reader.take());
        if let Some(mut reader) = reader {
            signals.finish.notify_one();
            if timeout(READER_ENDS, &mut reader).await.is_err() {
                reader.abort();
            }
        }
        let (session, closing) = {
            let mut state = shared.lock();
            (state.end(shared.now(), epoch), state.supervisor.ledger.is_closed())
        };
        let grace = session.and_then(|session| session.grace()).unwrap_or(ladder.kill_after);
        // The helpers of a server that used up all of its time get a moment, so that we end in ours.
        let sweep = process.sweep(if killed { grace.min(MOMENT) } else { grace });
        if closing {
            helpers = sweep.await;
        } else {
            tokio::spawn(sweep); // The next session need not wait for helpers outside the group.
        }
    }
    shared.notify(OwnerEvent::Gone(epoch, end, helpers));
}

/// The session is being ended already; from now on the faster times hold.
pub(crate) fn hurry(shared: &Shared, epoch: Epoch, ladder: Ladder) {
    let mut state = shared.lock();
    drop(state.exchanges(epoch).map(ExchangeSet::stop));
    let process = state.session_of(epoch).map(|session| session.process.clone());
    drop(state);
    drop(process.map(|process| process.end(ladder)));
}

/// Resolves when nothing of these tasks runs.
pub(crate) async fn ended(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        let _ = task.await; // Stopped, or done.
    }
}

/// Resolves when no call is in flight on this session, if it is one of exchanges. Streams are none.
async fn exchanges_end(shared: &Shared, epoch: Epoch) {
    let Some(ended) = shared.lock().exchanges(epoch).map(|exchanges| exchanges.ended.clone()) else {
        return;
    };
    loop {
        let next = ended.notified();
        tokio::pin!(next);
        next.as_mut().enable();
        if shared.lock().supervisor.ledger.in_flight(epoch) == 0 {
            return;
        }
        next.await;
    }
}
