//! Scans JSON without building values: where each value is, and whether it is valid, UTF-8 included.
//!
//! It takes what serde_json takes (a test and a fuzz target compare the two), and does not recurse, so deep nesting uses no stack. serde_json can skip values as
//! well, but says where they stand only at three times the cost, and every message of every connection is read here.

use super::span::Span;

/// The byte that cannot be right.
#[derive(Debug)]
pub(super) struct NotJson(pub(super) usize);

// Each of these starts at a place before which everything is JSON, and gives the place after what it has read.

/// A value of any kind that is the whole message, and whitespace around it.
pub(super) fn whole(bytes: &[u8]) -> Result<(), NotJson> {
    end(bytes, value(bytes, after_space(bytes, 0), &mut Seen::default())?)
}

/// Nothing but whitespace.
pub(super) fn end(bytes: &[u8], at: usize) -> Result<(), NotJson> {
    let at = after_space(bytes, at);
    if at < bytes.len() { Err(NotJson(at)) } else { Ok(()) }
}

/// The elements of an array that is the whole message, each as it is found.
pub(super) fn elements(bytes: &[u8], mut found: impl FnMut(Span)) -> Result<(), NotJson> {
    let mut at = after_space(bytes, token(bytes, 0, b'[')?);
    if bytes.get(at) == Some(&b']') {
        return end(bytes, at + 1);
    }
    loop {
        let start = at;
        at = value(bytes, start, &mut Seen::default())?;
        found(Span::new(start, at));
        at = after_space(bytes, at);
        if bytes.get(at) != Some(&b',') {
            return end(bytes, token(bytes, at, b']')?);
        }
        at = after_space(bytes, at + 1);
    }
}

/// Whitespace, and this byte.
#[inline]
pub(super) fn token(bytes: &[u8], at: usize, byte: u8) -> Result<usize, NotJson> {
    let at = after_space(bytes, at);
    if bytes.get(at) == Some(&byte) { Ok(at + 1) } else { Err(NotJson(at)) }
}

#[inline]
pub(super) fn after_space(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'\0'..=b' ') => after_spaces(bytes, at),
        _ => at, // As in most messages.
    }
}

#[cold]
fn after_spaces(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// What was seen on the way through values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// `"isError": true`, in any object.
    pub(super) is_error: bool,
}

/// A value of any kind.
#[inline]
pub(super) fn value(bytes: &[u8], at: usize, seen: &mut Seen) -> Result<usize, NotJson> {
    match bytes.get(at) {
        Some(b'"') => string(bytes, at),
        Some(b'{' | b'[') => nested(bytes, at, seen),
        _ => scalar(bytes, at, seen),
    }
}

fn scalar(bytes: &[u8], at: usize, seen: &mut Seen) -> Result<usize, NotJson> {
    match bytes.get(at) {
        Some(b'"') => string(bytes, at),
        Some(b'-' | b'0'..=b'9') => number(bytes, at),
        Some(b't') => {
            seen.is_error |= follows_is_error(&bytes[..at]);
            word(bytes, at, b"true")
        }
        Some(b'f') => word(bytes, at, b"false"),
        Some(b'n') => word(bytes, at, b"null"),
        _ => Err(NotJson(at)),
    }
}

/// Whether the value after this is that of a member `isError`. Looks back, because few values are true.
#[cold]
fn follows_is_error(before: &[u8]) -> bool {
    let name = before.trim_ascii_end().strip_suffix(b":").map(<[u8]>::trim_ascii_end);
    name.is_some_and(|name| name.ends_with(b"\"isError\""))
}

/// An object or an array, and what is in it.
#[inline(never)] // Or every value pays for the registers that this needs.
fn nested(bytes: &[u8], mut at: usize, seen: &mut Seen) -> Result<usize, NotJson> {
    let mut open = Open::default();
    loop {
        // A value starts here.
        at = match bytes.get(at) {
            Some(b'[') => {
                at = after_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    open.push(false);
                    continue;
                }
                at + 1
            }
            Some(b'{') => {
                at = after_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    open.push(true);
                    at = key(bytes, at)?;
                    continue;
                }
                at + 1
            }
            _ => scalar(bytes, at, seen)?,
        };
        // It ended, and with it perhaps those that it is in.
        loop {
            let Some(is_object) = open.innermost() else { return Ok(at) };
            at = after_space(bytes, at);
            match bytes.get(at) {
                Some(b',') => {
                    at = after_space(bytes, at + 1);
                    if is_object {
                        at = key(bytes, at)?;
                    }
                    break;
                }
                Some(b'}') if is_object => {}
                Some(b']') if !is_object => {}
                _ => return Err(NotJson(at)),
            }
            at += 1;
            open.pop();
        }
    }
}

/// A key, its colon, and whitespace.
fn key(bytes: &[u8], at: usize) -> Result<usize, NotJson> {
    Ok(after_space(bytes, token(bytes, string(bytes, at)?, b':')?))
}

/// Most strings are short, so these are read without a call.
pub(super) fn string(bytes: &[u8], mut at: usize) -> Result<usize, NotJson> {
    if bytes.get(at) != Some(&b'"') {
        return Err(NotJson(at));
    }
    at += 1;
    for _ in 0..SHORT / 8 {
        let Some(eight) = bytes[at..].first_chunk() else { break };
        let odd = odd_bytes::<false>(u64::from_le_bytes(*eight));
        if odd == 0 {
            at += 8;
            continue;
        }
        at += odd.trailing_zeros() as usize / 8;
        match bytes[at] {
            b'"' => return Ok(at + 1),
            b'\\' => at = escape(bytes, at + 1)?,
            _ => break,
        }
    }
    rest_of_string(bytes, at)
}

#[inline(never)] // Or every short string pays for the registers that this needs.
fn rest_of_string(bytes: &[u8], start: usize) -> Result<usize, NotJson> {
    let mut at = start;
    loop {
        at = after_text::<false>(bytes, at)?;
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(0x80..) => {
                let checked = utf8(bytes, at, at - start)?;
                at = after_text::<true>(checked, at)?;
            }
            _ => return Err(NotJson(at)),
        }
    }
}

// In these, text beyond ASCII is plain if it was CHECKED, and odd otherwise.

/// After plain text and escapes.
fn after_text<const CHECKED: bool>(bytes: &[u8], mut at: usize) -> Result<usize, NotJson> {
    let mut looked_at = at; // As far as blocks were tried.
    loop {
        at += plain::<CHECKED>(&bytes[at..]);
        if bytes.get(at) != Some(&b'\\') {
            return Ok(at);
        }
        at = match escape(bytes, at + 1) {
            // What was checked may end inside of it.
            Err(NotJson(end)) if CHECKED && end == bytes.len() => return Ok(at),
            after => after?,
        };
        if at >= looked_at {
            at = after_usual_text::<CHECKED>(bytes, at);
            looked_at = at + BLOCK;
        }
    }
}

/// After as many blocks as have only plain text and escapes of one character: one who writes an escape mostly writes more of them.
fn after_usual_text<const CHECKED: bool>(bytes: &[u8], mut at: usize) -> usize {
    let mut has_escapes = false;
    loop {
        // Where the last block had escapes, this one most likely has some as well.
        if !has_escapes {
            at += plain_blocks::<CHECKED>(&bytes[at..]);
        }
        let Some(block) = bytes[at..].first_chunk() else { return at };
        let found = look_at::<CHECKED>(block);
        if found.unusual {
            return at;
        }
        // The last may be a backslash, before what it escapes.
        at += BLOCK + usize::from(block[BLOCK - 1] == b'\\');
        has_escapes = found.escapes;
    }
}

/// What follows a backslash.
fn escape(bytes: &[u8], mut at: usize) -> Result<usize, NotJson> {
    match bytes.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(at + 1),
        Some(b'u') => at += 1,
        _ => return Err(NotJson(at)),
    }
    for _ in 0..4 {
        if !bytes.get(at).is_some_and(u8::is_ascii_hexdigit) {
            return Err(NotJson(at));
        }
        at += 1;
    }
    Ok(at)
}

/// Checks that what follows is UTF-8, and gives the message as far as that is so. Text beyond ASCII seldom comes alone, so this looks ahead twice as far as the
/// string goes already: of a string that is long, at most three times its length is looked at.
fn utf8(bytes: &[u8], at: usize, before: usize) -> Result<&[u8], NotJson> {
    let end = bytes.len().min(at + 2 * before.max(BLOCK / 2));
    let right = match simdutf8::compat::from_utf8(&bytes[at..end]) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    if right == 0 { Err(NotJson(at)) } else { Ok(&bytes[..at + right]) }
}

fn number(bytes: &[u8], mut at: usize) -> Result<usize, NotJson> {
    at += usize::from(bytes.get(at) == Some(&b'-'));
    at = match bytes.get(at) {
        Some(b'0') => at + 1,
        _ => digits(bytes, at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        at = digits(bytes, at)?;
    }
    Ok(at)
}

/// One digit or more.
fn digits(bytes: &[u8], start: usize) -> Result<usize, NotJson> {
    let mut at = start;
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    if at == start { Err(NotJson(at)) } else { Ok(at) }
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, NotJson> {
    if bytes[at..].starts_with(word) { Ok(at + word.len()) } else { Err(NotJson(at)) }
}

/// How many bytes at the start of these may stand in a string as they are.
fn plain<const CHECKED: bool>(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk() {
        let odd = odd_bytes::<CHECKED>(u64::from_le_bytes(*eight));
        if odd != 0 {
            return at + odd.trailing_zeros() as usize / 8;
        }
        // Blocks not before: many texts are short, or what is left of them.
        at = if at == 0 { plain_blocks::<CHECKED>(bytes).max(8) } else { at + 8 };
    }
    at + bytes[at..].iter().take_while(|byte| !is_odd::<CHECKED>(**byte)).count()
}

/// The same in whole blocks.
fn plain_blocks<const CHECKED: bool>(bytes: &[u8]) -> usize {
    bytes.chunks_exact(BLOCK).take_while(|block| !has_odd::<CHECKED>(block)).count() * BLOCK
}

const SHORT: usize = 64;
const BLOCK: usize = 64;

/// Whether one of these ends a string, or needs a closer look. Without a branch for each, so that the compiler looks at many together.
fn has_odd<const CHECKED: bool>(block: &[u8]) -> bool {
    block.iter().fold(false, |has, byte| has | is_odd::<CHECKED>(*byte))
}

/// What a block has.
struct Found {
    /// Something that ends a string, or needs a closer look than an escape of one character. A backslash that is escaped itself counts, too.
    unusual: bool,
    escapes: bool,
}

/// As [`has_odd`]. By index, since a zip is a call for each block where nothing is inlined between compilation units.
fn look_at<const CHECKED: bool>(block: &[u8; BLOCK + 1]) -> Found {
    let (all_before, all) = (&block[..BLOCK], &block[1..]);
    let mut found = Found { unusual: is_odd::<CHECKED>(block[0]) && block[0] != b'\\', escapes: false };
    for at in 0..BLOCK {
        let (before, byte) = (all_before[at], all[at]);
        let is_escaped = before == b'\\';
        // `b` and `f` differ in one bit.
        let is_usual = (byte | 4 == b'f') | (byte == b'n') | (byte == b'r') | (byte == b't') | (byte == b'/');
        // A quote is right where it is escaped, these anywhere, and all else where it is not escaped.
        let is_wrong = (is_escaped ^ (byte == b'"')) & !is_usual;
        found.unusual |= is_refused::<CHECKED>(byte) | is_wrong;
        found.escapes |= is_escaped;
    }
    found
}

fn is_odd<const CHECKED: bool>(byte: u8) -> bool {
    is_refused::<CHECKED>(byte) | (byte == b'"') | (byte == b'\\')
}

/// A control character, or one byte of text beyond ASCII: with a sign, they are both below the space.
fn is_refused<const CHECKED: bool>(byte: u8) -> bool {
    if CHECKED { byte < b' ' } else { byte.cast_signed() < b' '.cast_signed() }
}

/// Sets the highest bit of the first byte that is odd, and none if there is no such byte. What it says of later bytes may be wrong.
fn odd_bytes<const CHECKED: bool>(eight: u64) -> u64 {
    let each = |byte: u8| u64::from_le_bytes([byte; 8]);
    // For ASCII, a subtraction sets the highest bit only of a byte that is smaller, and then borrows from the bytes above.
    let below = |bytes: u64, limit: u8| bytes.wrapping_sub(each(limit));
    let equal = |byte: u8| below(eight ^ each(byte), 1);
    let odd = below(eight, b' ') | equal(b'"') | equal(b'\\');
    each(0x80) & if CHECKED { odd & !eight } else { odd | eight }
}

/// The objects and arrays that a value is in: a bit for each, 64 of them without allocation.
#[derive(Default)]
struct Open {
    innermost: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Open {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.innermost >>= 1;
        self.depth -= 1;
        if self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }

    /// Whether that is an object; none if there is neither an object nor an array.
    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.innermost & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;
    use serde_json::value::RawValue;

    /// The value, if the text is one value.
    fn scanned(text: &str) -> Option<String> {
        whole(text.as_bytes()).ok()?;
        let start = after_space(text.as_bytes(), 0);
        let end = value(text.as_bytes(), start, &mut Seen::default()).ok()?;
        Some(text[start..end].to_owned())
    }

    fn same_as_serde(text: &str) -> bool {
        let theirs = serde_json::from_str::<&RawValue>(text).ok().map(|raw| raw.get().to_owned());
        assert_eq!(scanned(text), theirs, "{text:?}");
        theirs.is_some()
    }

    #[test]
    fn single_values_are_read_as_serde_json_reads_them() {
        let right = [
            "0",
            "-0",
            "-1",
            "10",
            "1.0",
            "1e5",
            "1E-05",
            "0.10e+1",
            "true",
            " false ",
            "null\n",
            r#""""#,
            r#""\"\\\/\b\f\n\r\t\u00eF\ud800""#,
            "\"\u{7f}é\"",
            "[]",
            "[ ]",
            "{}",
            "{ }",
            r#"[1,"a",[],{}]"#,
            r#"{"a":{"b":[{"c":null}]},"":0}"#,
        ];
        let wrong = [
            "",
            " ",
            "-",
            "01",
            "-01",
            "1.",
            ".5",
            "+1",
            "1e",
            "1e+",
            "1.e1",
            "0x1",
            "1 2",
            "tru",
            "truex",
            "nul",
            "True",
            "NaN",
            "\"",
            r#""\"#,
            r#""\x""#,
            r#""\u12"#,
            r#""\u12g4""#,
            "\"\n\"",
            "\"\u{1f}\"",
            "\"\0\"",
            "[",
            "]",
            "[1",
            "[1,",
            "[1,]",
            "[,]",
            "[1 2]",
            "[1}",
            "{",
            "}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1]"#,
            "{1:1}",
            "{,}",
            r#"{"a" 1}"#,
            r#"{"a":1 "b":2}"#,
            "\u{feff}1",
            "\u{a0}1",
            "'a'",
            "1,",
        ];
        for text in right {
            assert!(same_as_serde(text), "{text}");
        }
        for text in wrong {
            assert!(!same_as_serde(text), "{text}");
        }
    }

    #[test]
    fn a_string_ends_where_it_ends_whatever_its_length() {
        for length in 0..120 {
            let filler = "x".repeat(length);
            for end in ["\"", "\\n\"", "\\", "\n\"", "\u{1f}\"", "", "é\"", "\" "] {
                same_as_serde(&format!("\"{filler}{end}"));
                same_as_serde(&format!("\"{filler}{end}{filler}\""));
            }
        }
    }

    #[test]
    fn an_escape_is_read_as_one_wherever_it_stands_in_a_long_text() {
        let pieces =
            [r#"\""#, r"\n", r"\\", r"\/", r"\u00e9", r"\q", r"\u00e", r"\", "\"", "\n", "\u{7f}", "é"];
        let mut right = 0;
        for start in 0..2 * BLOCK + 2 {
            for piece in pieces {
                for next in ["", r#"\""#, r"\\", r"\t", " "] {
                    for first in ["", r"\n", r"\n-\t", "é"] {
                        let dashes = ["-".repeat(start), "-".repeat(BLOCK + 8)];
                        let text = format!("\"{first}{}{piece}{next}{}\"", dashes[0], dashes[1]);
                        right += usize::from(same_as_serde(&text));
                    }
                }
            }
        }
        assert!(right > 16_000, "{right}");
    }

    #[test]
    fn brackets_match_at_every_depth() {
        for depth in [1, 2, 63, 64, 65, 127, 128, 129, 200] {
            // Objects and arrays in an order that does not repeat with the words of bits.
            let kinds: Vec<bool> = (0..depth).map(|level| level % 3 == 0 || level % 7 == 2).collect();
            let opening: String = kinds.iter().map(|object| if *object { "{\"a\":" } else { "[" }).collect();
            let closing: Vec<u8> =
                kinds.iter().rev().map(|object| if *object { b'}' } else { b']' }).collect();
            let text = |closing: &[u8]| format!("{opening}1{}", str::from_utf8(closing).unwrap());
            // serde_json has a limit of its own for how deep it goes in a value, but not when it skips one.
            assert!(same_as_serde(&text(&closing)));
            for level in 0..depth {
                let mut other = closing.clone();
                other[level] = if other[level] == b'}' { b']' } else { b'}' };
                assert_eq!(scanned(&text(&other)), None, "depth {depth}, level {level}");
            }
            assert_eq!(scanned(&text(&closing[1..])), None);
        }
    }

    #[test]
    fn random_values_and_broken_ones_are_read_as_serde_json_reads_them() {
        let mut right = 0;
        for seed in 0..20_000 {
            let random = &mut Random::new(seed);
            let mut text = random.value(5).into_bytes();
            for _ in 0..4 {
                if let Ok(text) = str::from_utf8(&text) {
                    right += usize::from(same_as_serde(text));
                }
                let at = random.below(text.len());
                let odd = random
                    .pick(&["\"", "\\", "{", "}", "[", "]", ",", ":", "\0", " ", "1", "e", "-", "u", "t"]);
                text[at] = odd.as_bytes()[0];
            }
        }
        assert!((20_000..70_000).contains(&right), "{right} of them were JSON");
    }

    /// The byte that cannot be right, if there is one.
    fn wrong(bytes: &[u8]) -> Option<usize> {
        let theirs = serde_json::from_slice::<&RawValue>(bytes);
        let ours = whole(bytes);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}", String::from_utf8_lossy(bytes));
        ours.err().map(|NotJson(at)| at)
    }

    #[test]
    fn text_beyond_ascii_is_utf8_or_refused_where_it_is_wrong() {
        for length in 0..100 {
            let filler = "x".repeat(length);
            for right in ["é", "日本", "é\\n日", "😀\\u00e9é", "é\\\"é", "\u{7f}\u{80}"] {
                assert_eq!(wrong(format!("\"{filler}{right}{filler}\"").as_bytes()), None);
            }
            // How many bytes of it are right.
            for (bytes, right) in [
                (&b"\x80"[..], 0),
                (b"\xff", 0),
                (b"\xc3", 0),
                (b"\xc0\xaf", 0),
                (b"\xed\xa0\x80", 0),
                (b"\xf4\x90\x80\x80", 0),
                (b"\xc3\xa9\xc3", 2),
                (b"\xc3\xa9x\x1f\xff", 3),
                (b"\xc3\xa9\\n\xe6\x97", 4),
                (b"\xc3\xa9\\x", 3),
                (b"\xc3\\n\xa9", 0),
            ] {
                let text = [b"\"", filler.as_bytes(), bytes, filler.as_bytes(), b"\""].concat();
                assert_eq!(wrong(&text), Some(1 + length + right), "{bytes:?} after {length}");
            }
            let open = format!("\"{filler}é{filler}");
            assert_eq!(wrong(open.as_bytes()), Some(open.len()));
        }
        assert_eq!(wrong(b"[1,\xc3\xa9]"), Some(3));
    }

    #[test]
    fn random_bytes_in_values_are_refused_where_serde_json_refuses_them() {
        let mut right = 0;
        for seed in 0..20_000 {
            let random = &mut Random::new(seed);
            let mut bytes = random.value(5).into_bytes();
            for _ in 0..4 {
                right += usize::from(wrong(&bytes).is_none());
                let at = random.below(bytes.len());
                bytes[at] = 0x70 + random.below(0x90) as u8;
            }
        }
        assert!((20_000..60_000).contains(&right), "{right} of them were JSON");
    }
}
