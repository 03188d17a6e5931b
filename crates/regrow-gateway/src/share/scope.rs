//! Ids and progress tokens of one client among those of others: equal ones of two clients must differ on a shared connection.
//!
//! The number of the share goes in front: `1` of share 7 is `"7.1"`, `"a"` is `"7:a"`, and text that a server may write back in
//! another way, such as with other escapes, is spelt in digits: `"é"` is `"7~c3a9"`. So it comes back to the client to the byte, and nothing
//! has to be remembered.

use regrow_protocol::frame::RawId;

/// A client's id or token, as the shared connection knows it.
pub(super) fn scoped(share: u64, raw: &RawId) -> RawId {
    let raw = raw.as_bytes();
    let mut scoped = format!("\"{share}").into_bytes();
    match raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")) {
        None => {
            scoped.push(b'.');
            scoped.extend_from_slice(raw);
        }
        Some(text) if text.iter().all(is_plain) => {
            scoped.push(b':');
            scoped.extend_from_slice(text);
        }
        Some(text) => {
            scoped.push(b'~');
            scoped.extend(
                text.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)]),
            );
        }
    }
    scoped.push(b'"');
    RawId::parse(&scoped).expect("nothing in it needs an escape")
}

/// Whose it is, and what its client knows it by; none if it is no client's.
pub(super) fn unscoped(scoped: &[u8]) -> Option<(u64, RawId)> {
    let scoped = scoped.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let at = scoped.iter().position(|byte| !byte.is_ascii_digit())?;
    let share = std::str::from_utf8(&scoped[..at]).ok()?.parse().ok()?;
    let (mark, inside) = scoped[at..].split_first()?;
    let raw = match mark {
        b'.' => RawId::parse(inside)?,
        b':' => RawId::parse(&[b"\"", inside, b"\""].concat())?,
        b'~' => RawId::parse(&[b"\"", &spelt_out(inside)?[..], b"\""].concat())?,
        _ => return None,
    };
    Some((share, raw))
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Nobody writes this in another way.
fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.: ".contains(byte)
}

fn spelt_out(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let pairs =
        digits.chunks(2).map(|pair| Some((value(*pair.first()?)? * 16 + value(*pair.get(1)?)?) as u8));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_as_it_was_written_to_the_share_that_wrote_it() {
        for raw in
            ["1", r#""1""#, "-0.50e+3", r#""""#, r#""a\"/#\\ \u00e9é""#, r#""8:1""#, r#""8.1""#, r#""~""#]
        {
            let id = RawId::parse(raw.as_bytes()).unwrap();
            let wire = scoped(7, &id);
            let text: String = serde_json::from_slice(wire.as_bytes()).unwrap();
            assert_eq!(wire.as_bytes(), format!("\"{text}\"").as_bytes(), "there is one way to write it");
            assert!(text.starts_with('7') && !text.contains('/') && text.is_ascii(), "{text}");
            assert_eq!(unscoped(wire.as_bytes()), Some((7, id)), "{raw}");
        }
    }

    #[test]
    fn ids_of_two_clients_or_of_two_types_never_meet() {
        let ids = [
            "1",
            r#""1""#,
            r#"".1""#,
            r#"":1""#,
            r#""1:1""#,
            r#""~1""#,
            r#""é""#,
            r#""\u00e9""#,
            r#""c3a9""#,
        ];
        let scoped = |share| ids.map(|raw| scoped(share, &RawId::parse(raw.as_bytes()).unwrap()));
        let all: std::collections::HashSet<_> = [1, 2, 11].into_iter().flat_map(scoped).collect();
        assert_eq!(all.len(), 3 * ids.len());
    }

    #[test]
    fn what_no_share_has_written_is_no_clients() {
        for raw in [
            "1",
            r#""x""#,
            r#""regrow-listen-1""#,
            r#""7""#,
            r#""a:1""#,
            r#""7.x""#,
            r#""7~c""#,
            r#""7~xy""#,
            "\"",
        ] {
            assert_eq!(unscoped(raw.as_bytes()), None, "{raw}");
        }
    }
}
