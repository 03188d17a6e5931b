//! A list of the tools on our own account: a call was refused for want of a header that only the list could tell of.

use std::sync::{Arc, Mutex, PoisonError};

use regrow_core::Fault;
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::lines::Line;
use regrow_protocol::{meta, method};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer;
use super::http_exchange::HttpExchange;
use super::link::HttpLink;
use super::request::HttpReply;
use crate::transport::{BoxFuture, ExchangeHandler};

const MAX_PAGES: usize = 100;

/// Goes through the list of tools, with the envelope of `call`. What is in it is learnt in passing.
pub(super) async fn tools(link: &HttpLink, call: &HttpExchange) -> Result<(), Fault> {
    let envelope = envelope(call.message.frame());
    let mut cursor = None;
    for page in 0..MAX_PAGES {
        let mut params = Map::new();
        params.insert("_meta".into(), envelope.clone().into());
        if let Some(cursor) = cursor.take() {
            params.insert("cursor".into(), cursor);
        }
        let id = format!("regrow-tools-{page}");
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method::TOOLS_LIST, "params": params });
        // It was written by us just now, so it can be read.
        let Ok(message) = Frame::parse(request.to_string().into()) else { return Ok(()) };
        let answer = Arc::new(LookupHandler {
            id: message.id(),
            handler: call.handler.clone(),
            text: Mutex::default(),
        });
        let mut http_exchange = HttpExchange::new(message.into(), answer.clone());
        let HttpReply::Good(mut response) = link.post(&mut http_exchange).await? else { return Ok(()) };
        answer::read(link, &http_exchange, &mut response).await?;
        cursor = answer.next_cursor();
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}

/// What the specification puts into each request; a token for progress, and what else there is, belongs to the call.
fn envelope(call: &Frame) -> Map<String, Value> {
    let meta = call.meta().and_then(|meta| serde_json::from_slice::<Map<String, Value>>(meta).ok());
    let mut meta = meta.unwrap_or_default();
    meta.retain(|key, _| key.starts_with(meta::PREFIX));
    meta
}

/// Keeps the answer, and passes on no more than that the server lives.
struct LookupHandler {
    id: Option<RawId>,
    handler: Arc<dyn ExchangeHandler>,
    text: Mutex<Option<Frame>>,
}

impl LookupHandler {
    fn next_cursor(&self) -> Option<Value> {
        #[derive(Deserialize)]
        struct CursorPage {
            #[serde(rename = "nextCursor")]
            cursor: Option<Value>,
        }
        let answer = self.text.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        serde_json::from_slice::<CursorPage>(answer.result()?).ok()?.cursor
    }
}

impl ExchangeHandler for LookupHandler {
    fn sent(&self) -> bool {
        true
    }

    fn heard(&self) {
        self.handler.heard();
    }

    fn is_awaited(&self) -> bool {
        self.handler.is_awaited()
    }

    fn take(&self, message: Line) -> bool {
        let Line::Whole(bytes) = message else { return true }; // Too long to learn from.
        let Some(frame) = Frame::parse(bytes).ok().filter(|frame| frame.id() == self.id) else {
            return false;
        };
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame);
        true
    }

    fn room(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}
