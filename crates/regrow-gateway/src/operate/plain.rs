//! Text from outside without what could drive a terminal, forge a line or turn its direction.

use serde_json::Value;

/// The text with control characters, marks of direction and line separators escaped.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if acts(letter) { shown.extend(letter.escape_default()) } else { shown.push(letter) }
    }
    shown
}

/// The same for every text in a value.
pub(super) fn plain_value(value: Value) -> Value {
    match value {
        Value::String(text) => plain(&text).into(),
        Value::Array(values) => values.into_iter().map(plain_value).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (plain(&name), plain_value(value))).collect()
        }
        other => other,
    }
}

fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_acts_on_a_terminal_is_escaped_wherever_it_stands() {
        assert_eq!(plain("a\u{1b}[2J\nb\u{202e}c\u{9b}ü"), "a\\u{1b}[2J\\nb\\u{202e}c\\u{9b}ü");
        let value = json!({ "a\u{7}": ["\r", { "b": "\u{2066}" }, 1] });
        assert_eq!(plain_value(value), json!({ "a\\u{7}": ["\\r", { "b": "\\u{2066}" }, 1] }));
    }
}
