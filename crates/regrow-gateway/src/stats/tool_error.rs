//! Whether an answer is a tool's own error. Nearly free for all others, since every answer is looked at.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

const MEMBER: &[u8] = b"\"isError\"";
/// Made once: making it takes longer than the search in a short result.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));

/// Whether a result says `"isError": true`. Only one that contains these words is parsed.
pub(super) fn is_tool_error(result: &[u8]) -> bool {
    let is_said = FINDER.find_iter(result).any(|at| {
        let rest = result[at + MEMBER.len()..].trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"true"))
    });
    is_said && serde_json::from_slice::<ToolResult>(result).is_ok_and(|result| result.is_error)
}

#[derive(Deserialize)]
struct ToolResult {
    #[serde(rename = "isError", default)]
    is_error: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_of_the_result_itself_counts() {
        assert!(is_tool_error(br#"{"content":[],"isError" : true}"#));
        assert!(!is_tool_error(br#"{"content":[],"isError":false}"#));
        assert!(!is_tool_error(br#"{"structuredContent":{"isError":true}}"#));
        assert!(!is_tool_error(br#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#));
        assert!(!is_tool_error(b"17"));
    }
}
