//! Which lines of a log are new.

/// What comes after the last line that was seen; everything, if that is gone or nothing was seen.
pub(super) fn new_lines<'a>(seen: &[String], lines: &'a [String]) -> impl Iterator<Item = &'a String> {
    let last = seen.last().and_then(|last| lines.iter().rposition(|line| line == last));
    lines.iter().skip(last.map_or(0, |last| last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_once_however_the_log_moves_on() {
        let log = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        let new = |seen: &str, now: &str| new_lines(&log(seen), &log(now)).cloned().collect::<Vec<_>>();
        assert_eq!(new("", "a b"), ["a", "b"]);
        assert_eq!(new("a b", "a b c"), ["c"]);
        assert_eq!(new("a b c", "a c d"), ["d"], "what is dropped in between changes nothing");
        assert_eq!(new("a b", "a b"), [""; 0]);
        assert_eq!(new("a b", "x y"), ["x", "y"]);
    }
}
