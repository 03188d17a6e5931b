//! One attempt: a server is opened, greeted, and told again what the last session was told, before it serves calls.

use std::sync::Arc;
use std::time::Duration;

use regrow_core::{CallId, Epoch, Event};

use super::compare::{compare, keep_changes_back};
use super::era::Greeting;
use super::exchange;
use super::greet::{greet, guess_era};
use super::pipe;
use super::probe;
use super::review::review;
use super::session::{Channel, Session};
use super::shared::Shared;
use crate::call::Outcome;
use crate::transport::{Link, Pipes, Transport};
use crate::within::within;
use crate::writer::LineWriter;

/// One attempt: starts the server and brings it to where the last session was.
pub(crate) async fn attempt(shared: Arc<Shared>, transport: Arc<dyn Transport>, epoch: Epoch) {
    let link = match transport.open(epoch).await {
        Ok(link) => link,
        Err(fault) => return shared.notify(Event::Lost(epoch, fault)),
    };
    guess_era(&shared);
    shared.lock().memory.era.count_try();
    let greeting = shared.lock().memory.era.greeting.clone();
    start(&shared, epoch, link, matches!(greeting, Greeting::ByClient));
    let seen = shared.lock().memory.seen().clone();
    if !seen.is_empty() && !matches!(greeting, Greeting::ByClient) {
        keep_changes_back(&shared, epoch); // Some servers cry change as soon as they are greeted.
    }
    if matches!(greeting, Greeting::ByClient) {
        shared.notify(Event::Opened(epoch));
        return shared.open(epoch);
    }
    match greet(&shared, epoch, greeting).await {
        Ok(()) => {}
        Err(Some(fault)) => return shared.lost(epoch, fault),
        Err(None) => return, // The session is lost, and its reader told why.
    }
    exchange::listen(&shared, epoch);
    retell(&shared, epoch).await;
    let doubts_pings = shared.lock().supervisor.ledger.doubts_pings();
    if doubts_pings {
        // Only to learn whether the server answers pings at all. Before calls leave: if one is refused, a refused ping must prove something.
        probe::is_forgotten(&shared, epoch).await;
    }
    match review(&shared, epoch).await {
        Ok(()) => {}
        Err(Some(fault)) => return shared.lost(epoch, fault),
        Err(None) => return, // The session is lost, or its time for the start is.
    }
    shared.notify(Event::Connected(epoch));
    shared.open(epoch);
    if !seen.is_empty() {
        compare(shared, epoch, seen).await;
    }
}

/// Puts the session in its place and starts its tasks.
fn start(shared: &Arc<Shared>, epoch: Epoch, link: Link, greeted_by_client: bool) {
    let (channel, process, output) = match link {
        Link::Pipes(Pipes { input, output, process }) => {
            (Channel::Pipe(LineWriter::new(input)), process, Some(output))
        }
        Link::Exchanges { exchanges, process } => {
            (Channel::Http(exchange::exchange_set(shared, epoch, exchanges)), process, None)
        }
    };
    let session = Session::new(epoch, channel, process, greeted_by_client);
    let mut state = shared.lock();
    let session = state.begin(shared.now(), session);
    shared.hear();
    if let Some(output) = output {
        pipe::start(shared, session, output);
    }
}

/// So long a server may take to confirm what it is told again; then calls leave all the same.
const RETOLD: Duration = Duration::from_secs(2);

/// Log level, subscriptions, streams. Servers work on requests side by side, so calls wait until each is confirmed: what
/// they cause must not be missed. A refusal is said.
async fn retell(shared: &Shared, epoch: Epoch) {
    let told: Vec<_> = shared.lock().memory.retell();
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
                tracing::warn!(
                    server,
                    method,
                    "the restarted server refused to restore what the client had set"
                );
            }
        }
        acknowledged(shared, epoch, streams).await;
    };
    if within(RETOLD, confirmed).await.is_none() {
        let server = &*shared.settings.name;
        tracing::warn!(server, "the restarted server did not confirm in time what the client had set");
    }
}

/// Resolves when the server has acknowledged each of these streams on this session, or ended it.
async fn acknowledged(shared: &Shared, epoch: Epoch, streams: Vec<CallId>) {
    let Some(signals) = shared.lock().session.as_ref().map(|session| session.signals.clone()) else {
        return;
    };
    loop {
        let next = signals.acknowledged.notified();
        let open = {
            let state = shared.lock();
            streams.iter().all(|&id| {
                state.supervisor.ledger.reply(id).is_none_or(|stream| stream.acknowledged == Some(epoch))
            })
        };
        if open {
            return;
        }
        next.await;
    }
}
