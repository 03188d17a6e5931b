//! What a new session is told before it serves calls, and what its client is told after.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Epoch, Fault, Step};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use crate::call::Outcome;
use crate::connection::Era;
use crate::desk::News;
use crate::error::Plain;
use crate::frame::{self, Frame};
use crate::inbox::Incoming;
use crate::memory::{Agreed, Greeting, Hello, List, MAX_PAGES, Page, Welcome};
use crate::session;
use crate::shared::Shared;
use crate::transport::Transport;

/// One attempt: starts the server and brings it to where the last session was.
pub(crate) async fn attempt(shared: Arc<Shared>, transport: Arc<dyn Transport>, epoch: Epoch) {
    let link = match transport.open(epoch).await {
        Ok(link) => link,
        Err(fault) => return shared.tell(News::Lost(epoch, fault)),
    };
    shared.memory().guess(|hello| likely_era(&shared, hello));
    let greeting = shared.memory().greeting.clone();
    session::start(&shared, epoch, link, &greeting);
    let seen = shared.memory().seen();
    if !seen.is_empty() && !matches!(greeting, Greeting::ByClient) {
        keep_changes_back(&shared, epoch); // Some servers cry change as soon as they are greeted.
    }
    let restored = match greeting {
        Greeting::ByClient => {
            shared.tell(News::Opened(epoch));
            return shared.open(epoch);
        }
        Greeting::Unknown(hello) => find_era(&shared, epoch, hello).await,
        // It was asked and did not live to answer.
        Greeting::Asked(hello) => {
            shared.memory().greeting = hello.legacy();
            greet(&shared, epoch, hello.legacy()).await
        }
        known => greet(&shared, epoch, known).await,
    };
    let restored = look_again(&shared, restored);
    match restored {
        Ok(()) => {}
        Err(Some(fault)) => return shared.lost(epoch, fault),
        Err(None) => return, // The session is lost, and its reader told why.
    }
    session::listen(&shared, epoch);
    retell(&shared, epoch).await;
    shared.tell(News::Connected(epoch));
    shared.open(epoch);
    if !seen.is_empty() {
        compare(shared, epoch, seen).await;
    }
}

/// Changes may have been missed while nothing was heard of what the server says by itself.
pub(crate) async fn catch_up(shared: Arc<Shared>, epoch: Epoch) {
    let seen = shared.memory().seen();
    if !seen.is_empty() && keep_changes_back(&shared, epoch) {
        compare(shared, epoch, seen).await;
    }
}

/// What went wrong; none where the session's reader knows better.
type Restored = Result<(), Option<Fault>>;

/// A legacy client's own era, in which nothing has to be bridged; or what an earlier start found out.
fn likely_era(shared: &Shared, hello: &Hello) -> Era {
    if hello.legacy_version.is_some() {
        return Era::Legacy;
    }
    let recalled = shared.settings.era_file.as_ref().and_then(|(file, address)| file.recall(address));
    recalled.unwrap_or_default()
}

/// A guess may be wrong: then we ask. What was found out is remembered.
fn look_again(shared: &Shared, restored: Restored) -> Restored {
    use Fault::{HandshakeRefused, NotMcp, Status, WrongEra};
    let mut memory = shared.memory();
    let modern = memory.is_modern();
    let refused = match &restored {
        Err(Some(HandshakeRefused { .. } | WrongEra)) => memory.is_guess(),
        Err(Some(NotMcp { .. } | Status { code: ..500, .. })) => memory.is_guess() && modern,
        _ => false,
    };
    if refused && memory.take_back_guess().is_some() {
        drop(memory);
        if let Some((file, address)) = &shared.settings.era_file {
            file.forget(address);
        }
        return Err(Some(WrongEra));
    }
    if restored.is_ok() {
        let found_out = !memory.is_guess();
        memory.era_is_known();
        drop(memory);
        if let Some((file, address)) = shared.settings.era_file.as_ref().filter(|_| found_out) {
            file.remember(address, modern);
        }
    }
    restored.map_err(|fault| fault.map(not_mcp))
}

/// A refusal in place of a handshake: whoever answers there does not speak the protocol.
fn not_mcp(fault: Fault) -> Fault {
    match fault {
        Fault::Status { code: code @ ..500, said } => Fault::NotMcp { found: format!("HTTP {code}{said}") },
        fault => fault,
    }
}

async fn greet(shared: &Shared, epoch: Epoch, greeting: Greeting) -> Restored {
    match greeting {
        Greeting::Legacy { params, agreed } => {
            let offer = agreed.as_ref().and_then(|agreed| agreed.offer(&params));
            let answer = ask(shared, epoch, "initialize", offer.as_ref().unwrap_or(&params)).await?;
            let Some(now) = answer.result().and_then(Agreed::read) else {
                if is_modern_error(&answer) && agreed.is_none() && become_modern(shared, &params) {
                    return Err(Some(Fault::WrongEra));
                }
                return Err(Some(refused(shared, &answer)));
            };
            // In that revision there is no handshake: whoever agrees to it means its own era.
            if now.version == crate::memory::MODERN && agreed.is_none() && become_modern(shared, &params) {
                return Err(Some(Fault::WrongEra));
            }
            if let Some(before) = &agreed {
                check(shared, before, &now)?;
            }
            {
                let mut memory = shared.memory();
                memory.greeting = Greeting::Legacy { params, agreed: Some(agreed.unwrap_or(now)) };
                memory.welcome = welcome(&answer, false);
            }
            let line = frame::notification("notifications/initialized", None);
            shared.deliver(epoch, line).await.map_err(Some)
        }
        Greeting::Modern { meta } => {
            let answer = discover(shared, epoch, &enveloped(&meta)).await?;
            // Any answer is a sign of life; a server that no longer speaks the client's version is of no use.
            match answer.error_code() {
                // Not a word of the modern era.
                _ if shared.memory().is_guess() && !speaks_modern(&answer) => Err(Some(Fault::WrongEra)),
                Some(-32022) if names_our_revision(&answer) != Some(true) => {
                    Err(Some(Fault::VersionChanged {
                        was: crate::memory::MODERN.into(),
                        is: "another revision".into(),
                    }))
                }
                // Insisted on, and not spoken: without a welcome there is nothing to tell the client.
                _ if shared.greets && shared.memory().welcome.is_none() && !speaks_modern(&answer) => {
                    Err(Some(refused(shared, &answer)))
                }
                _ => {
                    shared.memory().welcome = welcome(&answer, true);
                    Ok(())
                }
            }
        }
        Greeting::ByClient | Greeting::Unknown(_) | Greeting::Asked(_) => Ok(()),
    }
}

/// Which era does the server speak? A server of the other one is started afresh: some are spoilt by the question.
async fn find_era(shared: &Shared, epoch: Epoch, hello: Hello) -> Restored {
    let Greeting::Modern { meta } = hello.modern() else { return Ok(()) };
    shared.memory().greeting = Greeting::Asked(hello.clone());
    shared.tell(News::Begun(epoch, Step::Discovering));
    let policy = &shared.settings.policy;
    let limit = policy.discover_timeout.min(policy.connect_timeout / 2);
    let params = enveloped(&meta);
    let asked = discover(shared, epoch, &params);
    let era = match tokio::time::timeout(limit, asked).await {
        // Whoever knows only the legacy era need not know what a message of the other is.
        Ok(Err(Some(Fault::Status { code: ..500, .. }))) => hello.legacy(),
        Ok(Err(fault)) => {
            // A process that dies of the question tells its era. An exchange that fails tells nothing.
            if shared.desk().exchanger(epoch).is_some() {
                shared.memory().forget_question();
            }
            return Err(fault);
        }
        Ok(Ok(answer)) => match speaks_modern(&answer) {
            true => {
                shared.memory().welcome = welcome(&answer, true);
                hello.modern()
            }
            false => hello.legacy(),
        },
        Err(_silence) => hello.legacy(),
    };
    let modern = matches!(era, Greeting::Modern { .. });
    shared.memory().greeting = era;
    if modern { Ok(()) } else { Err(Some(Fault::WrongEra)) }
}

/// Asks who is there; once more where our revision is refused in favour of itself.
async fn discover(shared: &Shared, epoch: Epoch, params: &Bytes) -> Result<Frame, Option<Fault>> {
    let answer = ask(shared, epoch, "server/discover", params).await?;
    match answer.error_code() {
        Some(-32022) if names_our_revision(&answer) == Some(true) => {
            ask(shared, epoch, "server/discover", params).await
        }
        _ => Ok(answer),
    }
}

fn welcome(answer: &Frame, modern: bool) -> Option<Welcome> {
    answer.result().map(|result| Welcome { modern, result: Bytes::copy_from_slice(result) })
}

/// Whether this answer to `server/discover` is one of the modern era. There are legacy servers that answer whatever they are
/// asked, with an empty result.
fn speaks_modern(answer: &Frame) -> bool {
    match answer.result() {
        Some(_) => names_our_revision(answer) == Some(true),
        None => is_modern_error(answer) && names_our_revision(answer) != Some(false),
    }
}

/// Whether our revision is among those that this answer to `server/discover` names; none where it names none.
fn names_our_revision(answer: &Frame) -> Option<bool> {
    let (json, path) = match answer.result() {
        Some(result) => (result, "/supportedVersions"),
        None => (answer.error()?, "/data/supported"),
    };
    let value: Value = serde_json::from_slice(json).ok()?;
    let named = value.pointer(path)?.as_array()?;
    Some(named.iter().any(|version| version == crate::memory::MODERN))
}

fn is_modern_error(answer: &Frame) -> bool {
    matches!(answer.error_code(), Some(-32022..=-32020))
}

/// Where we greet ourselves: the server refused the legacy handshake in words of the modern era.
fn become_modern(shared: &Shared, params: &[u8]) -> bool {
    let Ok(params) = serde_json::from_slice::<Value>(params) else { return false };
    let hello = Hello {
        client_info: params["clientInfo"].clone(),
        capabilities: params["capabilities"].clone(),
        legacy_version: None,
    };
    shared.memory().greeting = hello.modern();
    true
}

/// The client goes on as if nothing had happened, so what it relies on must still be there.
fn check(shared: &Shared, before: &Agreed, now: &Agreed) -> Restored {
    if before.version != now.version {
        let (was, is) = (before.version.clone(), Plain(&now.version).to_string());
        return Err(Some(Fault::VersionChanged { was, is }));
    }
    let lost = shared
        .handshake
        .used()
        .find(|name| before.capabilities.contains(*name) && !now.capabilities.contains(*name));
    match lost {
        Some(name) => Err(Some(Fault::CapabilityLost { name: name.into() })),
        None => Ok(()),
    }
}

fn refused(shared: &Shared, answer: &Frame) -> Fault {
    let error: Value =
        answer.error().and_then(|error| serde_json::from_slice(error).ok()).unwrap_or_default();
    let said: String =
        error["message"].as_str().unwrap_or("an answer that is none").chars().take(300).collect();
    Fault::HandshakeRefused {
        code: answer.error_code().unwrap_or_default(),
        message: shared.settings.mask.apply(&Plain(&said).to_string()),
    }
}

async fn ask(shared: &Shared, epoch: Epoch, method: &str, params: &[u8]) -> Result<Frame, Option<Fault>> {
    // The lifecycle ends the attempt at its own limit, and says so better.
    let limit = shared.settings.policy.connect_timeout * 2;
    match shared.own_call(epoch, method, Some(params), limit).await {
        Ok(Outcome::Answered(frame)) => Ok(frame),
        Ok(Outcome::Failed(error)) => Err(error.fault.map(|fault| (*fault).clone())),
        Ok(Outcome::Refused) | Err(_) => Err(None),
    }
}

/// Parameters of a request of our own in the modern era.
pub(crate) fn enveloped(meta: &[u8]) -> Bytes {
    [b"{\"_meta\":", meta, b"}"].concat().into()
}

/// So long a server may take to confirm what it is told again; then calls leave all the same.
const RETOLD: Duration = Duration::from_secs(2);

/// Log level, subscriptions, streams. Servers work on requests side by side, so calls wait until each is confirmed: what
/// they cause must not be missed. A refusal is said.
async fn retell(shared: &Shared, epoch: Epoch) {
    let told: Vec<_> = shared.memory().retell();
    let limit = shared.settings.policy.connect_timeout;
    let ends: Vec<_> = told
        .iter()
        .map(|(method, params)| (method, shared.own_call(epoch, method, Some(params), limit)))
        .collect();
    let streams = shared.reopen_streams(epoch);
    let confirmed = async {
        for (method, end) in ends {
            if let Ok(Outcome::Answered(answer)) = end.await
                && answer.is_error()
            {
                let server = &*shared.settings.name;
                tracing::warn!(server, method, "the restarted server refused what the client had set before");
            }
        }
        shared.acknowledged(epoch, streams).await;
    };
    if timeout(RETOLD, confirmed).await.is_err() {
        let server = &*shared.settings.name;
        tracing::warn!(server, "the restarted server did not confirm all that the client had set before");
    }
}

/// From here on changes that the server announces are kept back. False if they are already, or the session is gone.
fn keep_changes_back(shared: &Shared, epoch: Epoch) -> bool {
    let mut desk = shared.desk();
    let session = desk.session_of(epoch).filter(|session| session.kept_back.is_none());
    session.map(|session| session.kept_back = Some(Default::default())).is_some()
}

/// Some servers tell every new client that their lists have changed, though nothing has. For so long after a restart we
/// look for ourselves before we hand that on,
const ANNOUNCEMENTS: Duration = Duration::from_secs(5);
/// and so many times.
const LOOKS: usize = 2;

/// Tells the client of the lists that are not what it has seen, and of no other.
async fn compare(shared: Arc<Shared>, epoch: Epoch, seen: BTreeMap<List, Vec<Page>>) {
    let Some(signals) = shared.desk().session.as_ref().map(|session| session.signals.clone()) else { return };
    let until = Instant::now() + ANNOUNCEMENTS;
    let mut comparison = Comparison { shared, epoch, known: seen.clone(), seen };
    let mut unread = comparison.look(|_| true).await;
    for _ in 0..LOOKS {
        if timeout_at(until, signals.kept_back.notified()).await.is_err() {
            break;
        }
        let said = comparison.kept_back(true);
        let again = |list: List| said.contains(list.changed()) && !unread.contains(list.changed());
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
    /// Tells of those of these lists that are not what the client knows. Gives those that could not be read, by the
    /// notification that tells of their change.
    async fn look(&mut self, wanted: impl Fn(List) -> bool) -> BTreeSet<&'static str> {
        let mut changed = BTreeSet::new();
        let mut unread = BTreeSet::new();
        for list in self.known.keys().copied().filter(|list| wanted(*list)).collect::<Vec<_>>() {
            self.catch_up(list);
            let Some(known) = self.known.get_mut(&list) else { continue };
            // One that cannot be listed now is left as it is.
            let Some(now) = pages(&self.shared, self.epoch, list, known.len()).await else {
                unread.insert(list.changed());
                continue;
            };
            let is_same = now.len() == known.len() && now.iter().zip(&*known).all(|(a, b)| a.is_same(b));
            if !is_same {
                *known = now;
                changed.insert(list.changed());
            }
        }
        for method in changed {
            tell_changed(&self.shared, self.epoch, method);
        }
        unread
    }

    /// The client may have listed again by itself.
    fn catch_up(&mut self, list: List) {
        let seen = self.shared.memory().seen().remove(&list);
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
        let is_known =
            |method: &str| !unread.contains(method) && self.known.keys().any(|list| list.changed() == method);
        for method in said.iter().filter(|method| !is_known(method)) {
            tell_changed(&self.shared, self.epoch, method);
        }
    }

    /// What the server said has changed since we last asked; and whether to keep that back further.
    fn kept_back(&self, further: bool) -> BTreeSet<String> {
        let mut desk = self.shared.desk();
        let Some(session) = desk.session_of(self.epoch) else { return BTreeSet::new() };
        let kept_back = session.kept_back.take().unwrap_or_default();
        session.kept_back = further.then(BTreeSet::new);
        kept_back
    }
}

/// The first pages of a list, as they are now.
async fn pages(shared: &Shared, epoch: Epoch, list: List, count: usize) -> Option<Vec<Page>> {
    let envelope: Value = match &shared.memory().greeting {
        Greeting::Modern { meta } => serde_json::from_slice(meta).ok()?,
        _ => Value::Null,
    };
    let mut pages = vec![];
    let mut cursor = None;
    while pages.len() < count.min(MAX_PAGES) {
        let mut params = json!({});
        if let Some(cursor) = cursor {
            params["cursor"] = Value::String(cursor);
        }
        if !envelope.is_null() {
            params["_meta"] = envelope.clone();
        }
        let limit = shared.settings.policy.connect_timeout;
        let end = shared.own_call(epoch, list.method(), Some(params.to_string().as_bytes()), limit);
        let Ok(Outcome::Answered(answer)) = end.await else { return None };
        let page = Page::read(list, answer.result()?)?;
        cursor = page.next.clone();
        pages.push(page);
        if cursor.is_none() {
            break;
        }
    }
    Some(pages)
}

/// In the legacy era a plain notification; in the modern one, one on every stream that asked for it.
fn tell_changed(shared: &Shared, epoch: Epoch, method: &str) {
    let mut lines = vec![];
    if shared.memory().is_modern() {
        let filter = List::ALL.into_iter().find(|list| list.changed() == method).map(List::filter);
        let Some(filter) = filter else { return };
        let desk = shared.desk();
        for (_, stream) in desk.ledger.iter() {
            if stream.request.method() != Some("subscriptions/listen") {
                continue;
            }
            let params: Value =
                stream.request.params().and_then(|p| serde_json::from_slice(p).ok()).unwrap_or_default();
            if params["notifications"][filter] == true {
                let id = &stream.caller_id;
                let params = format!("{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}}}");
                lines.push(frame::notification(method, Some(params.as_bytes())));
            }
        }
    } else {
        lines.push(frame::notification(method, None));
    }
    for line in lines {
        if let Ok(frame) = Frame::parse(line) {
            shared.hand_on(Incoming { epoch, frame });
        }
    }
}
