//! How a text is laid out around a place, so that what is put in looks as if it had been there.

/// What stands between this place and what comes before it, if that begins a line: the line break and the indentation.
/// Otherwise a space.
pub(super) fn separator(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let is_indentation = line > 0 && text[line..at].chars().all(|letter| letter == ' ' || letter == '\t');
    match is_indentation {
        true if text[..line].ends_with("\r\n") => &text[line - 2..at],
        true => &text[line - 1..at],
        false => " ",
    }
}

/// Whether nothing but white space and these characters stand in the text.
pub(super) fn is_only(text: &str, characters: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_whitespace() || characters.contains(letter))
}

/// The text in JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_around_is_taken_over() {
        assert_eq!(separator("{\n\t\"a\"", 3), "\n\t");
        assert_eq!(separator("{\r\n  \"a\"", 5), "\r\n  ");
        assert_eq!(separator("{ \"a\"", 2), " ");
        assert_eq!(separator("{\n/* x */ \"a\"", 10), " ");
        assert_eq!(quoted("/opt/\"a\\b\"\u{1}"), "\"/opt/\\\"a\\\\b\\\"\\u0001\"");
    }
}
