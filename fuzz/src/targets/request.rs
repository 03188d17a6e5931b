//! What a client sends to the gateway: each request in it is answered once, under its own id; a name leads to the server that it
//! names, and to no other; what we did not give is refused; and however a body is cut, the answer is the same.
//!
//! The input is a method and a path, header lines, an empty line, and the body. `@` as a session id stands for one that we gave.

mod check;
mod house;
mod visit;

use std::cell::RefCell;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use regrow_protocol::frame::{Frame, split_batch};
use tokio::runtime::{Builder, Runtime};

use crate::pieces::cuts;
use house::House;
use visit::{Tools, Visit};

pub(super) fn run(input: &[u8]) {
    let Some(sent) = Sent::read(input) else { return };
    let place = PLACE.take().unwrap_or_else(Place::new);
    place.receive(&sent);
    PLACE.set(Some(place)); // One in which something broke is not used again.
}

thread_local! {
    /// Made once: a client leaves nothing in a gateway.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Where a request goes to, in simulated time.
struct Place {
    runtime: Runtime,
    house: House,
    tools: Tools,
}

impl Place {
    fn new() -> Place {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O can always be made");
        let (house, tools) = runtime.block_on(async {
            let house = House::new();
            let tools = visit::tools(&house).await;
            (house, tools)
        });
        Place { runtime, house, tools }
    }

    fn receive(&self, sent: &Sent) {
        let visit = |pieces: &[&[u8]]| self.runtime.block_on(Visit::of(&self.house, sent, pieces));
        let whole = visit(&[&sent.body]);
        check::check(sent, &whole, &self.tools);
        let pieces = cuts(&sent.body).swap_remove(2); // Short ones.
        assert_eq!(visit(&pieces).answered, whole.answered, "cut into {} pieces", pieces.len());
        assert_eq!(self.house.clients(), 0, "somebody stayed");
    }
}

/// A request, as far as the input is one.
struct Sent {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Sent {
    fn read(input: &[u8]) -> Option<Sent> {
        let mut lines = input.split(|byte| *byte == b'\n');
        let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
        let method = Method::from_bytes(first.next()?).ok()?;
        let uri = Uri::try_from(first.next()?).ok().filter(|uri| uri.path().starts_with('/'))?;
        let mut headers = HeaderMap::new();
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
            let value = parts.next().and_then(|value| HeaderValue::from_bytes(value.trim_ascii()).ok());
            if let (Some(name), Some(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        let body = lines.collect::<Vec<_>>().join(&b'\n');
        Some(Sent { method, uri, headers, body })
    }

    /// The messages in its body, where that is read.
    fn messages(&self) -> Vec<Frame> {
        if self.method != Method::POST {
            return vec![];
        }
        let whole = Frame::parse(Bytes::copy_from_slice(&self.body));
        whole.iter().flat_map(split_batch).flatten().collect()
    }
}
