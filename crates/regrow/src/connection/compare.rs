//! After a restart, or where something was missed: the client is told of the lists that changed, and of no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regrow_core::Epoch;
use regrow_protocol::frame::{self, Frame};
use regrow_protocol::list::List;
use regrow_protocol::method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::era::Greeting;
use super::memory::{MAX_PAGES, Page};
use super::shared::Shared;
use crate::call::Outcome;
use crate::inbox::Incoming;

/// Changes may have been missed while nothing was heard of what the server says on its own.
pub(crate) async fn catch_up(shared: Arc<Shared>, epoch: Epoch) {
    let seen = shared.lock().memory.seen().clone();
    if !seen.is_empty() && keep_changes_back(&shared, epoch) {
        compare(shared, epoch, seen).await;
    }
}

/// From here on changes that the server announces are kept back. False if they are already, or the session is gone.
pub(crate) fn keep_changes_back(shared: &Shared, epoch: Epoch) -> bool {
    let mut state = shared.lock();
    let session = state.session_of(epoch).filter(|session| session.kept_back.is_none());
    session.map(|session| session.kept_back = Some(Default::default())).is_some()
}

/// Some servers tell every new client that their lists have changed, though nothing has. For so long after a restart we
/// look for ourselves before we hand that on,
const ANNOUNCEMENTS: Duration = Duration::from_secs(5);
/// and so many times,
const LOOKS: usize = 2;
/// each time for all that is said within so long.
const BURST: Duration = Duration::from_millis(200);

/// Tells the client of the lists that are not what it has seen, and of no other.
pub(crate) async fn compare(shared: Arc<Shared>, epoch: Epoch, seen: BTreeMap<List, Vec<Page>>) {
    let Some(signals) = shared.lock().session.as_ref().map(|session| session.signals.clone()) else { return };
    let until = Instant::now() + ANNOUNCEMENTS;
    let mut comparison = Comparison { shared, epoch, known: seen.clone(), seen };
    let mut unread = comparison.look(|_| true).await;
    for _ in 0..LOOKS {
        if timeout_at(until, signals.kept_back.notified()).await.is_err() {
            break;
        }
        sleep(BURST).await;
        let said = comparison.kept_back(true);
        let again = |list: List| said.contains(list.notification()) && !unread.contains(list.notification());
        let unread_again = comparison.look(again).await;
        unread.extend(unread_again);
        comparison.hand_on_unknown(&said, &unread);
    }
    let said = comparison.kept_back(false);
    for method in &said {
        tell_changed(&comparison.shared, epoch, method);
    }
}

/// What the client knows of a restarted server's lists.
struct Comparison {
    shared: Arc<Shared>,
    epoch: Epoch,
    /// What it had seen when the server was restarted.
    seen: BTreeMap<List, Vec<Page>>,
    /// What it has seen, or was told to look at.
    known: BTreeMap<List, Vec<Page>>,
}

impl Comparison {
    /// Tells of those of these lists that are not what the client knows. Returns those that could not be read, by the
    /// notification that tells of their change.
    async fn look(&mut self, wanted: impl Fn(List) -> bool) -> BTreeSet<&'static str> {
        let mut changed = BTreeSet::new();
        let mut unread = BTreeSet::new();
        for list in self.known.keys().copied().filter(|list| wanted(*list)).collect::<Vec<_>>() {
            self.catch_up(list);
            let Some(known) = self.known.get_mut(&list) else { continue };
            // One that cannot be listed now is left as it is.
            let Some(now) = pages(&self.shared, self.epoch, list, known.len()).await else {
                unread.insert(list.notification());
                continue;
            };
            let is_same = now.len() == known.len() && now.iter().zip(&*known).all(|(a, b)| a.is_same(b));
            if !is_same {
                *known = now;
                changed.insert(list.notification());
            }
        }
        for method in changed {
            tell_changed(&self.shared, self.epoch, method);
        }
        unread
    }

    /// The client may have listed again on its own.
    fn catch_up(&mut self, list: List) {
        let seen = self.shared.lock().memory.seen().get(&list).cloned();
        if let Some(seen) = seen
            && self.seen.get(&list) != Some(&seen)
        {
            self.seen.insert(list, seen.clone());
            self.known.insert(list, seen);
        }
    }

    /// What the server said has changed, of lists that the client never asked for or that could not be read: that we
    /// cannot judge.
    fn hand_on_unknown(&self, said: &BTreeSet<String>, unread: &BTreeSet<&str>) {
        let is_known = |method: &str| {
            !unread.contains(method) && self.known.keys().any(|list| list.notification() == method)
        };
        for method in said.iter().filter(|method| !is_known(method)) {
            tell_changed(&self.shared, self.epoch, method);
        }
    }

    /// What the server said has changed since we last asked; and whether to keep that back further.
    fn kept_back(&self, further: bool) -> BTreeSet<String> {
        let mut state = self.shared.lock();
        let Some(session) = state.session_of(self.epoch) else { return BTreeSet::new() };
        let kept_back = session.kept_back.take().unwrap_or_default();
        session.kept_back = further.then(BTreeSet::new);
        kept_back
    }
}

/// The first pages of a list, as they are now.
async fn pages(shared: &Shared, epoch: Epoch, list: List, count: usize) -> Option<Vec<Page>> {
    let mut pages = vec![];
    let mut cursor = None;
    while pages.len() < count.min(MAX_PAGES) {
        let Some(Outcome::Answered(answer)) = page(shared, epoch, list, cursor).await else { return None };
        let page = Page::read(list, answer.result()?)?;
        cursor = page.next.clone();
        pages.push(page);
        if cursor.is_none() {
            break;
        }
    }
    Some(pages)
}

/// The end of a request for one page of a list; none if the session is gone.
pub(crate) async fn page(
    shared: &Shared,
    epoch: Epoch,
    list: List,
    cursor: Option<String>,
) -> Option<Outcome> {
    let mut params = json!({});
    if let Some(cursor) = cursor {
        params["cursor"] = Value::String(cursor);
    }
    if let Greeting::Modern { meta } = &shared.lock().memory.era.greeting {
        params["_meta"] = serde_json::from_slice(meta).ok()?;
    }
    let limit = shared.settings.policy.connect_timeout;
    shared.own_call(epoch, list.method(), Some(params.to_string().as_bytes()), limit).await.ok()
}

/// In the legacy era a plain notification; in the modern one, one on every stream that asked for it.
fn tell_changed(shared: &Shared, epoch: Epoch, method: &str) {
    if !shared.lock().serves(epoch) {
        return; // Its server is gone, and the next session looks at every list again.
    }
    let mut lines = vec![];
    if shared.lock().memory.era.is_modern() {
        let filter = List::ALL.into_iter().find(|list| list.notification() == method).map(List::filter);
        let Some(filter) = filter else { return };
        let state = shared.lock();
        for (_, stream) in state.supervisor.ledger.iter() {
            if stream.request.method() != Some(method::SUBSCRIPTIONS_LISTEN) {
                continue;
            }
            let params: Value =
                stream.request.params().and_then(|p| serde_json::from_slice(p).ok()).unwrap_or_default();
            if params["notifications"][filter] == true {
                lines.push(frame::stream_notification(method, &stream.caller_id));
            }
        }
    } else {
        lines.push(frame::notification(method, None));
    }
    for line in lines {
        if let Ok(frame) = Frame::parse(line) {
            shared.hand_on(Incoming::of_no_call(epoch, frame));
        }
    }
}
