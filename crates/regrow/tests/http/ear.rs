//! An ear that remembers what it heard, and ways to have messages carried.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use regrow::core::{Epoch, Fault};
use regrow::transport::http::{Http, HttpClient};
use regrow::transport::{
    BoxFuture, ExchangeHandler, Exchanges, Link, OutgoingMessage, Process, Receipt, Transport,
};
use regrow_protocol::frame::{Frame, Kind, RawId, split_batch};
use regrow_protocol::lines::Line;
use tokio::sync::{Notify, watch};

/// Long enough for a slow machine; nothing here takes so long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What was heard.
#[derive(Default)]
pub(crate) struct Heard {
    waits_for: Option<RawId>,
    pub(crate) sent: AtomicUsize,
    pub(crate) heard: AtomicUsize,
    /// Whoever waited was told already that the message did not leave.
    pub(crate) given_up: AtomicBool,
    /// A client waits for what the message brings.
    pub(crate) is_awaited: AtomicBool,
    lines: Mutex<Vec<Line>>,
    news: Notify,
    /// While true, nothing more may be read.
    pub(crate) full: watch::Sender<bool>,
}

impl Heard {
    pub(crate) fn new(waits_for: Option<RawId>) -> Arc<Heard> {
        Arc::new(Heard { waits_for, ..Heard::default() })
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().clone()
    }

    /// The whole messages as texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |line| match line {
            Line::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Line::TooLong { .. } => "too long".to_owned(),
        };
        self.lines().into_iter().map(text).collect()
    }

    /// Waits until so many messages were heard.
    pub(crate) async fn until(&self, count: usize) -> Vec<String> {
        let wait = async {
            loop {
                let news = self.news.notified();
                if self.lines().len() >= count {
                    return self.texts();
                }
                news.await;
            }
        };
        tokio::time::timeout(LIMIT, wait).await.expect("so many messages")
    }
}

impl ExchangeHandler for Heard {
    fn sent(&self) -> bool {
        self.sent.fetch_add(1, Ordering::SeqCst);
        !self.given_up.load(Ordering::SeqCst)
    }

    fn heard(&self) {
        self.heard.fetch_add(1, Ordering::SeqCst);
    }

    fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst)
    }

    fn take(&self, message: Line) -> bool {
        let ids: Vec<Option<RawId>> = match &message {
            Line::TooLong { salvage, .. } => vec![salvage.id.clone()],
            Line::Whole(bytes) => match Frame::parse(bytes.clone()) {
                Ok(frame) => split_batch(&frame)
                    .into_iter()
                    .filter_map(Result::ok)
                    .filter(|frame| matches!(frame.kind(), Kind::Response { .. }))
                    .map(|frame| frame.id())
                    .collect(),
                Err(_) => vec![],
            },
        };
        self.lines.lock().unwrap().push(message);
        self.news.notify_one();
        self.waits_for.is_some() && ids.contains(&self.waits_for)
    }

    fn room(&self) -> BoxFuture<()> {
        let mut full = self.full.subscribe();
        Box::pin(async move {
            let _ = full.wait_for(|full| !full).await;
        })
    }
}

/// An opened link.
pub(crate) struct Open {
    pub(crate) exchanges: Arc<dyn Exchanges>,
    pub(crate) process: Arc<dyn Process>,
}

/// The server at this URL, through a client of the test's own: a runtime must not inherit another's connections.
pub(crate) fn http(url: &str) -> Http {
    Http::new(url).unwrap().client(HttpClient::builder().no_proxy().build().unwrap())
}

pub(crate) async fn open(http: &Http) -> Open {
    match http.open(Epoch(1)).await.unwrap() {
        Link::Exchanges { exchanges, process } => Open { exchanges, process },
        Link::Pipes(_) => panic!("HTTP has no pipes"),
    }
}

pub(crate) fn frame(text: &str) -> OutgoingMessage {
    Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap().into()
}

/// What became of a message.
pub(crate) struct Carried {
    pub(crate) receipt: Result<Receipt, Fault>,
    pub(crate) ear: Arc<Heard>,
}

impl Carried {
    pub(crate) fn fault(&self) -> Fault {
        self.receipt.clone().expect_err("a fault")
    }

    /// The messages heard, of an exchange that went well.
    pub(crate) fn texts(&self) -> Vec<String> {
        assert_eq!(self.receipt, Ok(Receipt::Done), "{:?}", self.ear.texts());
        self.ear.texts()
    }
}

impl Open {
    /// Carries a message, and waits for the end of the exchange.
    pub(crate) async fn carry(&self, message: &str) -> Carried {
        let message = frame(message);
        let ear = Heard::new(message.frame().id());
        let carrying = self.exchanges.clone().carry(message, ear.clone());
        let receipt = tokio::time::timeout(LIMIT, carrying).await.expect("an end in time");
        Carried { receipt, ear }
    }

    /// Shakes hands, as a client of the legacy era does.
    pub(crate) async fn greet(&self) {
        let texts = self.carry(INITIALIZE).await.texts();
        assert!(texts[0].contains("protocolVersion"), "{texts:?}");
        let initialized = self.carry(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!(initialized.receipt, Ok(Receipt::Done));
    }
}

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
pub(crate) const CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{}}}"#;
pub(crate) const ANSWER: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;
