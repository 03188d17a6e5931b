//! What a server says on its own: a stream that is opened after the handshake, and again whenever it ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use regrow_core::Fault;
use tokio::time::Instant;

use super::link::HttpLink;
use super::request::HttpReply;
use super::response::Content;
use super::stream;
use crate::transport::ExchangeHandler;

/// A stream that lasted so long has not ended at once.
const LASTED: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Hears what the server says, for as long as the session lasts. Resolves with what ended that; with nothing where the server
/// has no such stream.
pub(super) async fn listen(link: &HttpLink, handler: &Arc<dyn ExchangeHandler>) -> Option<Fault> {
    if !link.has_session() {
        return std::future::pending().await; // Without a session nothing comes on its own.
    }
    let mut bookmark = link.heard();
    let mut short = 0;
    loop {
        let stream =
            match Box::pin(stream::open(link, bookmark.last.clone())).await {
                Ok(HttpReply::Good(response)) if response.content() == Ok(Content::Events) => Some(response),
                Ok(HttpReply::Refused(refusal)) if let Some(wait) = refusal.wait(SystemTime::now()) => {
                    tokio::time::sleep(wait.max(bookmark.retry)).await;
                    continue;
                }
                Ok(HttpReply::Refused(refusal)) if refusal.code >= 500 && refusal.code != 501 => {
                    return Some(refusal.fault());
                }
                // There was a stream, and now it is refused: the session may be gone. Only a POST tells, so the server is asked.
                Ok(HttpReply::Refused(refusal)) if link.had_stream() => {
                    link.set_had_stream(false); // Once: after that, this server has none.
                    let reason = format!("HTTP {} to a stream that was open", refusal.code);
                    return Some(Fault::Broken { reason });
                }
                // This server has no such stream; neither has one that sends us elsewhere. Many answer with 404 or 403 rather than 405.
                Ok(_) | Err(Fault::Redirected { .. } | Fault::Status { .. }) => None,
                Err(
                    Fault::Unauthorized { .. } | Fault::SignInNeeded { .. } | Fault::RefreshFailed { .. },
                ) if !link.had_stream() => None,
                Err(fault) => return Some(fault),
            };
        // Not within the match: what the server said would be kept for as long.
        let mut response = stream?;
        link.set_had_stream(true);
        let opened = Instant::now();
        let mut spoke = false;
        let read = stream::until(link, handler, None, &mut response, &mut bookmark, None, |event| {
            if let Some(line) = event.into_message() {
                spoke = true;
                handler.take(line); // Whatever it answers, nobody waits on this stream for it.
            }
            Ok(false)
        });
        let read = read.await;
        link.has_heard(bookmark.clone());
        if let Err(fault) = read {
            return Some(fault);
        }
        short = if spoke || opened.elapsed() >= LASTED { 0 } else { short + 1 };
        tokio::time::sleep(pause(bookmark.retry, short)).await;
    }
}

/// Longer and longer for a stream that ends at once again and again.
fn pause(retry: Duration, short: u32) -> Duration {
    retry.saturating_mul(1 << short.saturating_sub(1).min(8)).min(MAX_PAUSE)
}
