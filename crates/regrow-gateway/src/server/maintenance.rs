//! Looks after the catalog connection of a server: hears when its lists change, and lets it rest when nobody needs it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use regrow::core::State;
use regrow::{Connection, Outcome, Reply, Request};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::version::MODERN;
use regrow_protocol::{meta, method};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Server;
use crate::catalog;
use crate::config::{Options, Start};

/// A stream that ended is not opened again at once.
const OPENED_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// A server that is to be started when it is needed rests after so long, where its options say nothing else.
const LAZY_REST: Duration = Duration::from_secs(600);
/// Between two tries to let a server rest that something keeps awake.
const REST_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Looks after this connection until it is closed.
pub(super) async fn tend(server: Weak<Server>, connection: Connection) {
    let Some(rests_after) = server.upgrade().map(|server| rests_after(&server.config.options)) else {
        return;
    };
    let mut maintenance =
        Maintenance { connection, stream: SubscriptionState::Closed, ended: Arc::new(Notify::new()) };
    let mut status = maintenance.connection.status();
    loop {
        let now = status.borrow_and_update().clone();
        if now.is_closed() {
            return;
        }
        if matches!(now.state, State::Ready { .. }) {
            maintenance.listen();
        }
        let Some(strong) = server.upgrade() else { return };
        let unused = async {
            match rests_after.filter(|_| now.is_ready()) {
                Some(length) => strong.usage.unused_for(length).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = status.changed() => if changed.is_err() { return },
            () = maintenance.ended.notified() => maintenance.pause().await,
            () = unused => {
                if strong.is_listed() {
                    maintenance.rest();
                }
                drop(strong);
                sleep(REST_AGAIN_AFTER).await;
            }
        }
    }
}

fn rests_after(options: &Options) -> Option<Duration> {
    options.idle_stop.or_else(|| (options.start == Start::Lazy).then_some(LAZY_REST))
}

#[derive(PartialEq, Eq)]
enum SubscriptionState {
    Closed,
    Open,
}

struct Maintenance {
    connection: Connection,
    stream: SubscriptionState,
    ended: Arc<Notify>,
}

impl Maintenance {
    /// A modern server tells of changes only to those who ask. The connection keeps the stream up over its sessions.
    fn listen(&mut self) {
        let Some(welcome) = self.connection.welcome().filter(|welcome| welcome.modern) else { return };
        if self.stream == SubscriptionState::Open {
            return;
        }
        let said: serde_json::Value = serde_json::from_slice(&welcome.result).unwrap_or_default();
        let tells = |list: &str| said["capabilities"][list]["listChanged"] == true;
        let lists = ["tools", "prompts", "resources"].into_iter().filter(|list| tells(list));
        let wanted: serde_json::Map<_, _> =
            lists.map(|list| (format!("{list}ListChanged"), true.into())).collect();
        if wanted.is_empty() {
            return;
        }
        let params = json!({
            "notifications": wanted,
            "_meta": {
                meta::PROTOCOL_VERSION: MODERN,
                meta::CLIENT_CAPABILITIES: {},
                meta::CLIENT_INFO: { "name": "regrow", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let line = frame::request(&id(), method::SUBSCRIPTIONS_LISTEN, Some(params.to_string().as_bytes()));
        self.stream = SubscriptionState::Open;
        self.connection.submit(Request::new(Frame::built(line), id(), Box::new(Ended(self.ended.clone()))));
    }

    /// The server has ended the stream.
    async fn pause(&mut self) {
        sleep(OPENED_AGAIN_AFTER).await;
        self.stream = SubscriptionState::Closed;
    }

    /// Nobody needs the server: nor do we need to hear of its lists.
    fn rest(&mut self) {
        if std::mem::replace(&mut self.stream, SubscriptionState::Closed) == SubscriptionState::Open {
            self.connection.cancel(&id(), &Frame::built(frame::cancellation(&id(), None)));
        }
        self.connection.rest();
    }
}

fn id() -> RawId {
    RawId::parse(catalog::STREAM_ID.as_bytes()).expect("a string is an id")
}

struct Ended(Arc<Notify>);

impl Reply for Ended {
    fn end(self: Box<Self>, _: Outcome) {
        self.0.notify_one();
    }
}
