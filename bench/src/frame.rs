//! One pass over a JSON-RPC message: where its id and its method are.

use std::ops::Range;

use memchr::{memchr2, memmem};

/// Where the members of a message are that a relay needs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Members {
    pub(crate) id: Option<Range<usize>>,
    /// With its quotes.
    pub(crate) method: Option<Range<usize>>,
}

/// None if this is not one JSON object.
pub(crate) fn scan(text: &[u8]) -> Option<Members> {
    let mut members = Members::default();
    let mut at = skip_space(text, 0);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = skip_space(text, at);
        match *text.get(at)? {
            b'}' => return Some(members),
            b',' => at += 1,
            b'"' => {
                let key_end = string_end(text, at)?;
                let key = &text[at..key_end];
                at = skip_space(text, key_end);
                if text.get(at) != Some(&b':') {
                    return None;
                }
                at = skip_space(text, at + 1);
                let end = value_end(text, at)?;
                match key {
                    b"\"id\"" => members.id = Some(at..end),
                    b"\"method\"" => members.method = Some(at..end),
                    _ => {}
                }
                at = end;
            }
            _ => return None,
        }
    }
}

/// The first string member of this name, at any depth, as it is written between its quotes.
pub(crate) fn string_member<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let key = format!("\"{name}\":\"");
    let quote = memmem::find(text, key.as_bytes())? + key.len() - 1;
    Some(&text[quote + 1..string_end(text, quote)? - 1])
}

/// The same message with another id. `id` is where the old one is.
pub(crate) fn with_id(text: &[u8], id: &Range<usize>, new: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + new.len() + 1);
    out.extend_from_slice(&text[..id.start]);
    out.extend_from_slice(new);
    out.extend_from_slice(&text[id.end..]);
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Behind the string whose opening quote is at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match *text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => container_end(text, at),
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            Some(at + text[at..].iter().position(ends)?)
        }
    }
}

fn container_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match *text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_that_of_the_message_and_not_one_in_its_params() {
        let text =
            br#" {"params":{"id":1,"a":["}",{"id":2}],"text":"\"id\":3\\"}, "id" : "x" ,"method":"m"}"#;
        let members = scan(text).unwrap();
        assert_eq!(&text[members.id.clone().unwrap()], b"\"x\"");
        assert_eq!(&text[members.method.unwrap()], b"\"m\"");
        assert_eq!(string_member(text, "text").unwrap(), br#"\"id\":3\\"#);
        let mut out = vec![];
        with_id(text, &members.id.unwrap(), b"7", &mut out);
        assert!(out.ends_with(br#""id" : 7 ,"method":"m"}"#));
    }

    #[test]
    fn what_is_no_complete_object_is_refused() {
        for text in ["", "[]", "{", r#"{"id""#, r#"{"id":1"#, r#"{"id":"1}"#, r#"{"a":[}"#] {
            assert_eq!(scan(text.as_bytes()), None, "{text}");
        }
    }
}
