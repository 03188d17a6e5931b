//! What resources and templates are called that several servers have.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

const OURS: &str = "regrow:";
const START: &str = "regrow://";

/// A URI for each pair of a server and its URI: its own if no other server has it, else one apart, whichever comes first. What is
/// given twice by one server gets one.
pub(super) fn together<'a>(
    pairs: &[(&str, &'a str)],
    apart: impl Fn(&str, &str) -> String,
) -> Vec<Option<Cow<'a, str>>> {
    let mut of_one: HashMap<&str, Option<&str>> = HashMap::with_capacity(pairs.len());
    for (server, uri) in pairs {
        let owner = of_one.entry(uri).or_insert(Some(server));
        *owner = owner.filter(|owner| owner == server);
    }
    let mut given = HashSet::with_capacity(pairs.len());
    let uri = |(server, uri): &(&str, &'a str)| {
        let name = match !is_ours(uri) && of_one.get(uri).is_some_and(Option::is_some) {
            true => Cow::Borrowed(*uri),
            false => Cow::Owned(apart(server, uri)),
        };
        given.insert(name.clone()).then_some(name)
    };
    pairs.iter().map(uri).collect()
}

/// Names in this space name a server, so no server can have them for itself.
fn is_ours(uri: &str) -> bool {
    uri.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

/// A resource of one server, apart from that of another.
pub(super) fn apart(server: &str, uri: &str) -> String {
    format!("{START}{}/{}", encode(server), encode(uri))
}

/// A template of one server, apart from that of another. What clients put into it must reach the server as they wrote it.
pub(super) fn template_apart(server: &str, template: &str) -> String {
    format!("{START}{}/{template}", encode(server))
}

/// The server and its own URI.
pub(super) fn split(uri: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (server, rest) = uri.strip_prefix(START)?.split_once('/')?;
    // A colon would be encoded in a resource, and every URI from a template has one.
    let original = if rest.contains(':') { Cow::Borrowed(rest) } else { decode(rest)? };
    Some((decode(server)?, original))
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte as char),
            _ => write!(encoded, "%{byte:02X}").expect("a text takes everything"),
        }
    }
    encoded
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_of_one_server_can_be_told_from_that_of_another_and_back() {
        let one = apart("my server", "file:///a%20b?c#ü");
        assert_eq!(one, "regrow://my%20server/file%3A%2F%2F%2Fa%2520b%3Fc%23%C3%BC");
        assert_eq!(split(&one), Some(("my server".into(), "file:///a%20b?c#ü".into())));
    }

    #[test]
    fn what_a_client_puts_into_a_template_stays_as_it_is() {
        let template = template_apart("b", "file:///{path}");
        assert_eq!(split(&template.replace("{path}", "a%20b")), Some(("b".into(), "file:///a%20b".into())));
    }

    #[test]
    fn a_uri_that_two_have_is_kept_by_none_and_nobody_takes_ours() {
        let pairs = [
            ("a", "x:1"),
            ("b", "x:1"),
            ("b", "y:1"),
            ("b", "y:1"),
            ("a", "regrow://b/x%3A1"),
            ("a", "REGROW:z"),
        ];
        let uris: Vec<_> = together(&pairs, apart).into_iter().flatten().collect();
        assert_eq!(
            uris,
            [
                "regrow://a/x%3A1",
                "regrow://b/x%3A1",
                "y:1",
                "regrow://a/regrow%3A%2F%2Fb%2Fx%253A1",
                "regrow://a/REGROW%3Az"
            ]
        );
    }

    #[test]
    fn what_is_no_uri_of_ours_is_not_taken_for_one() {
        for uri in [
            "file:///a",
            "regrow://",
            "regrow://a",
            "regrow://a/%",
            "regrow://a/%zz",
            "regrow://%ff/a",
            "regrow://a/%ü",
        ] {
            assert_eq!(split(uri), None, "{uri}");
        }
    }
}
