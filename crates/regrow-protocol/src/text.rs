//! Text from servers, clients and files, made safe to show on a terminal or in a log.

use std::fmt::{self, Write};

/// Displays a text with every character escaped that would act on a terminal, start a new line or reorder the text.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

/// The text as [`Escaped`] displays it.
pub fn escape(text: &str) -> String {
    Escaped(text).to_string()
}

/// The same, but tabs stay: for lines that people indent or align with them.
pub fn escape_except_tabs(text: &str) -> String {
    text.split('\t').map(escape).collect::<Vec<_>>().join("\t")
}

/// Whether a character does more than show itself: control characters, line and paragraph separators, and marks of writing direction.
pub fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match is_active(character) {
                true => write!(f, "{}", character.escape_default())?,
                false => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "für alle \\ \"日本\" 🌱", "a\u{301}"] {
            assert_eq!(escape(text), text);
        }
    }

    #[test]
    fn active_characters_are_escaped() {
        assert_eq!(escape("\x1b[2J\0\x07\r\n\t"), "\\u{1b}[2J\\u{0}\\u{7}\\r\\n\\t");
        assert_eq!(escape("a\u{202e}b\u{9b}c\u{7f}"), "a\\u{202e}b\\u{9b}c\\u{7f}");
        for mark in
            ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{2066}', '\u{2069}']
        {
            assert_eq!(escape(&mark.to_string()), format!("\\u{{{:x}}}", u32::from(mark)));
        }
    }

    #[test]
    fn tabs_can_stay() {
        assert_eq!(escape_except_tabs("a\tb\u{1b}\t"), "a\tb\\u{1b}\t");
    }
}
