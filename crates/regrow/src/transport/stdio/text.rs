//! Makes what a server wrote safe to show: no control characters, no terminal escapes, no reordering marks.

/// The bytes as text. What a terminal or a log would act upon is written as `\u{..}`, what is no UTF-8 as `�`.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).chars() {
        if acts(character) {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

/// Whether a character does something other than to stand there.
fn acts(character: char) -> bool {
    match character {
        '\t' => false,
        // Marks of writing direction, and the two line breaks that are no control characters.
        '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn plain_text_stays_and_what_acts_is_spelt_out() {
        assert_eq!(escape("für\talle \\ 日本 🌱".as_bytes()), "für\talle \\ 日本 🌱");
        assert_eq!(escape(b"\x1b[2J\0\x07\r"), "\\u{1b}[2J\\u{0}\\u{7}\\r");
        assert_eq!(escape("a\u{202e}b\u{9b}c".as_bytes()), "a\\u{202e}b\\u{9b}c");
        assert_eq!(escape(b"\xff\xfe ok"), "\u{fffd}\u{fffd} ok");
    }
}
