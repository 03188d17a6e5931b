//! The relay that Regrow is compared with: it forwards messages in all four shapes, and supervises nothing.
//!
//! It does what a relay must: it cuts the stream into messages, reads each once, gives calls of many HTTP clients ids of its own where they
//! share a pipe, reuses connections and buffers, and writes what is ready at once. It has no deadlines, limits, restarts or checks.

mod http;
mod outbox;
mod stdio;

use std::io;

use crate::options::Relay;

pub(crate) async fn run(options: &Relay) -> io::Result<()> {
    match (options.http, options.url.clone()) {
        (false, None) => stdio::to_stdio(&options.server).await,
        (false, Some(url)) => stdio::to_http(url).await,
        (true, None) => http::to_stdio(&options.server).await,
        (true, Some(url)) => http::to_http(url).await,
    }
}
