//! What can be made of a line that is not one proper message: several messages, or one with several ids.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::RawId;

/// More ids than this of one message are not looked at.
const MAX_IDS: usize = 16;

/// Takes the first JSON value off a line that goes on after it; none where the line is one value, or does not start with one.
pub fn split_first(line: &Bytes) -> Option<(Bytes, Bytes)> {
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<&RawValue>();
    let first = values.next()?.ok()?.get().as_bytes();
    let rest = line[values.byte_offset()..].trim_ascii();
    (!rest.is_empty()).then(|| (line.slice_ref(first), line.slice_ref(rest)))
}

/// The ids of a message whose envelope has members that stand there twice. None of a request or a notification.
pub fn repeated_ids(message: &[u8]) -> Vec<RawId> {
    let found = serde_json::from_slice::<Ids>(message).unwrap_or_default();
    if found.method { vec![] } else { found.ids }
}

#[derive(Default)]
struct Ids {
    ids: Vec<RawId>,
    method: bool,
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ids, D::Error> {
        struct IdsVisitor;

        impl<'de> Visitor<'de> for IdsVisitor {
            type Value = Ids;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Ids, M::Error> {
                let mut found = Ids::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let value = map.next_value::<&'de RawValue>()?.get();
                    found.method |= key == "method";
                    if key == "id" && found.ids.len() < MAX_IDS {
                        found.ids.extend(RawId::from_value(value.as_bytes()));
                    }
                }
                Ok(found)
            }
        }

        deserializer.deserialize_map(IdsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_value_by_value() {
        let split = |line: &'static str| split_first(&Bytes::from_static(line.as_bytes()));
        let parts = |first: &'static str, rest: &'static str| Some((first.into(), rest.into()));
        assert_eq!(split(r#"{"id":1}{"id":2} "#), parts(r#"{"id":1}"#, r#"{"id":2}"#));
        assert_eq!(split("{\"a\":\"}{\"}\t [1] x"), parts("{\"a\":\"}{\"}", "[1] x"));
        assert_eq!(split(r#"{"id":1} \xff"#), parts(r#"{"id":1}"#, "\\xff"));
        for whole in [r#"{"id":1}"#, "", "hello {}", r#"{"id":1"#, "{]}"] {
            assert_eq!(split(whole), None, "{whole}");
        }
    }

    #[test]
    fn all_ids_of_a_response_are_found_and_none_of_a_request() {
        let ids = |message: &str| -> Vec<String> {
            repeated_ids(message.as_bytes()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(ids(r#"{"id":1,"result":{"id":5},"\u0069d":"x"}"#), ["1", "\"x\""]);
        assert_eq!(ids(r#"{"result":1,"result":2,"id":7}"#), ["7"]);
        assert!(ids(r#"{"id":1,"id":2,"method":"ping"}"#).is_empty());
        assert!(ids("[]").is_empty());
    }
}
