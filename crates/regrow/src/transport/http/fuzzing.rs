//! The parsers of what comes over HTTP, each as one function, for the fuzz targets alone.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use regrow_core::Fault;
use regrow_protocol::frame::Frame;
use regrow_protocol::lines::Line;

use super::http_exchange::HttpExchange;
use super::parameters::Parameters;
use super::refusal::{Meaning, Refusal};
use super::{BoxFuture, mirror};
use crate::transport::ExchangeHandler;

/// The headers of a message, once the lists of tools in `result` were seen.
pub fn headers(result: &[u8], message: &Frame) -> HeaderMap {
    let mut parameters = Parameters::default();
    parameters.learn(result);
    let mut headers = vec![];
    mirror::headers(message, &parameters, &mut headers);
    headers.into_iter().collect()
}

/// What an answer with this status means to this message: the answer that is in it all the same, or a fault.
pub fn meaning(
    message: Frame,
    in_session: bool,
    code: u16,
    retry_after: Option<HeaderValue>,
    body: Bytes,
) -> Result<Bytes, Fault> {
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    headers.extend(retry_after.map(|value| (RETRY_AFTER, value)));
    let http_exchange = HttpExchange { in_session, ..HttpExchange::new(message.into(), Arc::new(Deafness)) };
    match (Refusal { code, headers, body }).meaning(&http_exchange, SystemTime::UNIX_EPOCH) {
        Meaning::Answer(answer) => Ok(answer),
        Meaning::Fault(fault) => Err(fault),
    }
}

struct Deafness;

impl ExchangeHandler for Deafness {
    fn sent(&self) -> bool {
        true
    }

    fn heard(&self) {}

    fn take(&self, _: Line) -> bool {
        true
    }

    fn room(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}
