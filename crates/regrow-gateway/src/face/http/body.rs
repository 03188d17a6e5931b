//! A request's body, up to its cap and within its time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body::Body;
use regrow::within;
use regrow_protocol::{error_code, header};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::memory::Account;
use super::options::ClientLimits;
use super::refusal::Refusal;
use crate::shares::{BytePermit, FREE, Refused};

/// More is not set aside before it has come.
const FIRST: usize = 64 << 10;
/// At most so many times of what has come is set aside, where its length is known.
const GROWTH: usize = 4;
const LINGER: Duration = Duration::from_secs(1);

/// A body as hyper reads it, or as a test has it.
pub(super) trait RequestBody:
    Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static
{
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static> RequestBody for B {}

/// Reads it all, with the room that it takes. One that is said to be too large is refused before it is read.
pub(super) async fn read(
    mut body: impl RequestBody,
    limits: &ClientLimits,
    account: &Account,
) -> Result<(Bytes, Option<BytePermit>), Refusal> {
    let said = body.size_hint().exact();
    let most = limits.body.min(account.most());
    let read = match said.is_some_and(|said| said > most as u64) {
        true => Some(Err(Failure::TooLarge)),
        false => within(limits.body_timeout, collect(&mut body, most, said, account)).await,
    };
    match read {
        Some(Ok(read)) => Ok(read),
        Some(Err(Failure::TooLarge)) => {
            tokio::spawn(linger(body));
            Err(Refusal::too_large(most))
        }
        Some(Err(Failure::NoRoom(refused))) => {
            tokio::spawn(linger(body));
            Err(refused.into())
        }
        Some(Err(Failure::Broken)) => Err(Refusal::bad("the body is incomplete")),
        None => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            error_code::INVALID_REQUEST,
            "timed out while reading the body",
        )),
    }
}

enum Failure {
    TooLarge,
    Broken,
    NoRoom(Refused),
}

/// The body as far as it has come.
struct Buffer<'a> {
    account: &'a Account,
    /// Most bodies come in one piece.
    first: Bytes,
    all: BytesMut,
    permit: Option<BytePermit>,
    gave_way: Arc<Notify>,
}

async fn collect(
    body: &mut impl RequestBody,
    most: usize,
    said: Option<u64>,
    account: &Account,
) -> Result<(Bytes, Option<BytePermit>), Failure> {
    let first = match next(body).await {
        None => return Ok((Bytes::new(), None)),
        Some(data) => data.ok_or(Failure::Broken)?,
    };
    // Most bodies come in one small piece, which needs no room.
    if body.is_end_stream() && first.len() <= FREE.min(most) {
        return Ok((first, None));
    }
    Box::pin(collect_from(first, body, most, said, account)).await
}

/// The same after its first piece.
async fn collect_from(
    first: Bytes,
    body: &mut impl RequestBody,
    most: usize,
    said: Option<u64>,
    account: &Account,
) -> Result<(Bytes, Option<BytePermit>), Failure> {
    let gave_way = Arc::new(Notify::new());
    let (nothing, all) = (Bytes::new(), BytesMut::new());
    let mut buffer = Buffer { account, first: nothing, all, permit: None, gave_way: gave_way.clone() };
    let said = said.and_then(|said| usize::try_from(said).ok());
    let (growth, expected) = said.map_or((2, most), |said| (GROWTH, said));
    let arrive = async {
        let mut data = Some(first);
        while let Some(piece) = data {
            if buffer.len() + piece.len() > most {
                return Err(Failure::TooLarge);
            }
            buffer.add(piece, growth, expected).map_err(Failure::NoRoom)?;
            data = next(body).await.map(|data| data.ok_or(Failure::Broken)).transpose()?;
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = gave_way.notified() => return Err(Failure::NoRoom(Refused::GaveWay)),
        arrived = arrive => arrived?,
    }
    // From here on it is on its way to a server.
    buffer.permit.iter().try_for_each(BytePermit::pin).map_err(Failure::NoRoom)?;
    Ok((if buffer.all.is_empty() { buffer.first } else { buffer.all.freeze() }, buffer.permit))
}

impl Buffer<'_> {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn add(&mut self, data: Bytes, growth: usize, expected: usize) -> Result<(), Refused> {
        if self.len() == 0 {
            self.charge(data.len())?;
            self.first = data;
            return Ok(());
        }
        let needed = self.len() + data.len();
        if needed > self.all.capacity() {
            // Room is taken as the buffer grows, not for each piece.
            let capacity = (self.all.capacity() * growth).min(expected).max(needed).max(FIRST);
            self.charge(capacity)?;
            self.all.reserve(capacity - self.all.len());
        }
        self.all.extend_from_slice(&std::mem::take(&mut self.first));
        self.all.extend_from_slice(&data);
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Refused> {
        match &self.permit {
            None if bytes <= FREE => {}
            None => {
                let gave_way = self.gave_way.clone();
                self.permit = Some(self.account.take(bytes, move || gave_way.notify_one())?);
            }
            Some(permit) => permit.resize(bytes)?,
        }
        Ok(())
    }
}

/// Reads on for a moment and keeps nothing: a client that is still sending when its connection closes never sees the answer.
async fn linger(mut body: impl RequestBody) {
    let rest = async { while let Some(Some(_)) = next(&mut body).await {} };
    // One that sends on and on has had its chance.
    let _ = timeout(LINGER, rest).await;
}

/// The next piece, or nothing instead of it if the body is incomplete.
async fn next(body: &mut impl RequestBody) -> Option<Option<Bytes>> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    // Trailers say nothing to us.
    Some(frame.ok().map(|frame| frame.into_data().unwrap_or_default()))
}

/// Whether the body is said to be JSON, and not packed: what unpacks to more than it seems is not let in.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "a body must be sent without Content-Encoding";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error_code::INVALID_REQUEST, message));
    }
    let said = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if said.is_some_and(header::is_json) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error_code::INVALID_REQUEST,
        "Content-Type must be application/json",
    ))
}

/// All that we ever respond with, as the official clients write it.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

/// Whether the client takes all of these kinds. One that does not say takes everything.
pub(super) fn accepts(headers: &HeaderMap, kinds: &[&str]) -> Result<(), Refusal> {
    if headers.get(ACCEPT).is_none_or(|accept| accept == USUAL_ACCEPT) {
        return Ok(()); // Nearly always.
    }
    let is_taken = |kind: &&str| {
        let family = kind.split('/').next().unwrap_or_default();
        let lists = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).any(|item| {
            let item = item.split(';').next().unwrap_or_default().trim();
            let is_family = |taken: &str| taken == "*" || taken.eq_ignore_ascii_case(family);
            item.eq_ignore_ascii_case(kind) || item.strip_suffix("/*").is_some_and(is_family)
        })
    };
    if kinds.iter().all(is_taken) {
        return Ok(());
    }
    let message = format!("Accept must list {}", kinds.join(" and "));
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, error_code::INVALID_REQUEST, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_says_what_it_takes_in_many_ways() {
        let both = ["application/json", "text/event-stream"];
        let of = |accept: &str| {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            accepts(&headers, &both).is_ok()
        };
        assert!(of("application/json, text/event-stream"));
        assert!(of("TEXT/event-stream;q=0.5,application/JSON"));
        assert!(of("*/*"));
        assert!(of("application/*, text/*"));
        assert!(!of("application/json"));
        assert!(!of("text/html"));
        assert!(!of(""));
        assert!(accepts(&HeaderMap::new(), &both).is_ok());
    }

    #[test]
    fn only_json_is_json() {
        let of = |kind: &str| is_json(&HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())])).is_ok();
        assert!(of("application/json") && of("Application/JSON; charset=utf-8"));
        assert!(!of("text/plain") && !of("application/json-patch") && !of(""));
    }
}
