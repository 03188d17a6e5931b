//! Names that some readers take for others.

use unicode_normalization::UnicodeNormalization;

/// Which of these names this one could be taken for, without being it: they differ in case, in compatible forms of letters (`ｉd`, `ᵢd`, `ſ`), or in
/// characters that cannot be seen.
pub(super) fn resembles(name: &[u8], known: &[&'static str]) -> Option<&'static str> {
    let mut known = known.iter().copied();
    if name.iter().all(u8::is_ascii_graphic) {
        let is_other = |known: &str| known.as_bytes() != name;
        return known.find(|known| known.as_bytes().eq_ignore_ascii_case(name) && is_other(known));
    }
    let name = String::from_utf8_lossy(name);
    // No name of ours is longer than this.
    let visible = name.chars().filter(|character| !is_invisible(*character));
    let folded: String = visible
        .nfkc()
        .filter(|character| !is_invisible(*character))
        .flat_map(char::to_lowercase)
        .take(LONGEST + 1)
        .collect();
    known.find(|known| known.eq_ignore_ascii_case(&folded))
}

const LONGEST: usize = 64;

/// Control characters, and those that Unicode says are ignored where they are not understood; also spaces.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || character.is_whitespace()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = ["id", "method", "progressToken", "uri", "io.modelcontextprotocol/logLevel"];

    #[test]
    fn a_name_that_some_readers_take_for_another_is_found() {
        for (name, of) in [
            ("ID", "id"),
            ("Id", "id"),
            ("METHOD", "method"),
            ("progresstoken", "progressToken"),
            ("progreſsToken", "progressToken"),
            ("progressTo\u{212a}en", "progressToken"),
            ("\u{ff49}\u{ff44}", "id"),
            ("\u{2170}d", "id"),
            ("i\u{200b}d", "id"),
            ("id\0", "id"),
            ("\u{feff}id", "id"),
            (" id", "id"),
            ("i\u{ad}d", "id"),
            ("id\u{e0001}", "id"),
            ("\u{1d4be}\u{1d4b9}", "id"),
            ("IO.modelcontextprotocol/loglevel", "io.modelcontextprotocol/logLevel"),
        ] {
            assert_eq!(resembles(name.as_bytes(), &KNOWN), Some(of), "{name:?}");
        }
    }

    #[test]
    fn other_names_resemble_nothing_and_a_name_is_no_lookalike_of_itself() {
        let long = "i\u{200b}d".repeat(100_000);
        for name in ["", "i", "idd", "identity", "íd", "日本", "ids", "__proto__", "uris", &long] {
            assert_eq!(resembles(name.as_bytes(), &KNOWN), None, "{name:?}");
        }
        for name in KNOWN {
            assert_eq!(resembles(name.as_bytes(), &KNOWN), None);
        }
        assert!(KNOWN.iter().all(|known| known.len() <= LONGEST));
    }
}
