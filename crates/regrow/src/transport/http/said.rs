//! What a server says in words: errors for people, and that it does not know a session.

use regrow_protocol::frame::Frame;
use regrow_protocol::text::Escaped;

const MAX_EXCERPT: usize = 200;

/// `: text`, escaped and cut.
pub(super) fn excerpt(text: &str) -> String {
    let cut: String = text.chars().take(MAX_EXCERPT).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!(": {}{more}", Escaped(&cut))
}

/// `error.message` of a response.
pub(super) fn error_message(response: &Frame) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct ErrorObject {
        message: String,
    }
    Some(serde_json::from_slice::<ErrorObject>(response.error()?).ok()?.message)
}

/// Whether a text says that there is no such session (any more).
pub(super) fn tells_of_lost_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let lost = ["not found", "expired", "invalid", "unknown", "terminated", "does not exist", "no longer"];
    text.contains("no valid session")
        || text.contains("server not initialized")
        || text.contains("session") && lost.iter().any(|word| text.contains(word))
}

pub(super) fn tells_of_missing_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let named = text.contains("session id") || text.contains("session-id");
    named && (text.contains("missing") || text.contains("required"))
}
