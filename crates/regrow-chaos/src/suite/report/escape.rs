//! What programs under test say, made harmless for the place where it is shown.

use regrow_protocol::text::is_active;

/// For XML and HTML, in text and in attributes. What XML cannot hold is shown as a question mark.
pub(super) fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            letter if is_unfit(letter) => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// For a line on a terminal.
pub(super) fn line(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => ' ',
        letter if is_unfit(letter) => '?',
        letter => letter,
    };
    text.chars().map(shown).collect()
}

/// Control characters, marks that turn text around, and what XML 1.0 forbids.
fn is_unfit(letter: char) -> bool {
    is_active(letter) || matches!(letter, '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_where_it_is_shown() {
        assert_eq!(markup("<a href='x'>&\"\n\u{0}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot; ?");
        assert_eq!(line("a\u{1b}[2Jb\nc\u{202e}"), "a?[2Jb c?");
    }
}
