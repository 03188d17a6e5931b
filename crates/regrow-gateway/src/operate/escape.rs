//! JSON values whose texts are safe to show on a terminal.

use regrow_protocol::text::escape;
use serde_json::Value;

/// The value with every text in it escaped, member names too.
pub(super) fn escape_texts(value: Value) -> Value {
    match value {
        Value::String(text) => escape(&text).into(),
        Value::Array(values) => values.into_iter().map(escape_texts).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (escape(&name), escape_texts(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_acts_on_a_terminal_is_escaped_wherever_it_stands() {
        let value = json!({ "a\u{7}": ["\r", { "b": "\u{2066}" }, 1] });
        assert_eq!(escape_texts(value), json!({ "a\\u{7}": ["\\r", { "b": "\\u{2066}" }, 1] }));
    }
}
