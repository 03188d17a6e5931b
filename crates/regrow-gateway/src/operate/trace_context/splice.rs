//! Puts a `traceparent` into a request: one value is replaced, or the least that is missing is put in.

use bytes::Bytes;
use regrow_protocol::frame::Frame;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct CurrentMeta<'a> {
    #[serde(borrow)]
    traceparent: Option<&'a RawValue>,
}

pub(super) fn with_traceparent(request: &Frame, traceparent: &str) -> Frame {
    let bytes = request.bytes();
    let value = format!("\"{traceparent}\"");
    let member = format!("\"traceparent\":{value}");
    let meta = request.meta().map(|meta| (meta, serde_json::from_slice::<CurrentMeta<'_>>(meta)));
    let line = match (meta, request.params()) {
        (Some((_, Ok(CurrentMeta { traceparent: Some(old) }))), _) => {
            replace(bytes, old.get().as_bytes(), &value)
        }
        (Some((meta, Ok(_))), _) => open(bytes, meta, &member),
        (None, Some(params)) => open(bytes, params, &format!("\"_meta\":{{{member}}}")),
        (None, None) => open(bytes, bytes, &format!("\"params\":{{\"_meta\":{{{member}}}}}")),
        (Some((_, Err(_))), _) => None, // `_meta` is no object, or says it twice: the server shall judge.
    };
    let spliced = line.and_then(|line| Frame::parse(Bytes::from(line)).ok());
    spliced.unwrap_or_else(|| request.clone())
}

/// Another value in the place of this part.
fn replace(all: &[u8], part: &[u8], value: &str) -> Option<Vec<u8>> {
    let start = offset(all, part)?;
    Some([&all[..start], value.as_bytes(), &all[start + part.len()..]].concat())
}

/// One more member, the first, in the object that is this part.
fn open(all: &[u8], object: &[u8], member: &str) -> Option<Vec<u8>> {
    let inner = object.strip_prefix(b"{")?;
    let comma = if inner.trim_ascii_start().starts_with(b"}") { "" } else { "," };
    replace(all, &inner[..0], &format!("{member}{comma}"))
}

/// Where a part stands in the whole that it was borrowed from.
fn offset(all: &[u8], part: &[u8]) -> Option<usize> {
    let start = (part.as_ptr() as usize).checked_sub(all.as_ptr() as usize)?;
    (start + part.len() <= all.len()).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::trace_context::{TraceContext, TraceParent};

    const NEW: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn no_other_byte_is_touched() {
        let old = "00-11111111111111111111111111111111-2222222222222222-00";
        let parent: TraceParent = NEW.parse().unwrap();
        for (before, after) in [
            (
                format!(
                    r#"{{"id":1, "method":"a","params":{{"_meta":{{"x": 1,"traceparent" : "{old}","tracestate":"a=b"}} ,"y":2.0}}}}"#
                ),
                format!(
                    r#"{{"id":1, "method":"a","params":{{"_meta":{{"x": 1,"traceparent" : "{NEW}","tracestate":"a=b"}} ,"y":2.0}}}}"#
                ),
            ),
            (
                r#"{"id":1,"method":"a","params":{"_meta":{ "x":1}}}"#.to_owned(),
                format!(r#"{{"id":1,"method":"a","params":{{"_meta":{{"traceparent":"{NEW}", "x":1}}}}}}"#),
            ),
            (
                r#"{"id":1,"method":"a","params":{"_meta":{ }}}"#.to_owned(),
                format!(r#"{{"id":1,"method":"a","params":{{"_meta":{{"traceparent":"{NEW}" }}}}}}"#),
            ),
            (
                r#"{"id":1,"method":"a","params":{"y":1e3}}"#.to_owned(),
                format!(r#"{{"id":1,"method":"a","params":{{"_meta":{{"traceparent":"{NEW}"}},"y":1e3}}}}"#),
            ),
            (
                r#"{"id":1,"method":"a"}"#.to_owned(),
                format!(r#"{{"params":{{"_meta":{{"traceparent":"{NEW}"}}}},"id":1,"method":"a"}}"#),
            ),
            // Nothing that could be written into: it stays.
            (
                r#"{"id":1,"method":"a","params":[1]}"#.to_owned(),
                r#"{"id":1,"method":"a","params":[1]}"#.to_owned(),
            ),
        ] {
            let request = parent.put_into(&frame(&before));
            assert_eq!(std::str::from_utf8(request.bytes()).unwrap(), after);
            let context = TraceContext::of(&request).map(|context| context.parent);
            assert_eq!(context, (before != after).then_some(parent));
        }
    }

    #[test]
    fn what_others_noted_is_read_along() {
        let text = format!(
            r#"{{"id":1,"method":"a","params":{{"_meta":{{"traceparent":"{NEW}","tracestate":"a=b"}}}}}}"#
        );
        let context = TraceContext::of(&frame(&text)).unwrap();
        assert_eq!((context.parent.to_string().as_str(), context.state.as_deref()), (NEW, Some("a=b")));
        assert_eq!(TraceContext::of(&frame(&text.replace("00-4", "00_4"))), None);
        let odd = TraceContext::of(&frame(&text.replace("\"a=b\"", "7"))).unwrap();
        assert_eq!(odd, TraceContext { state: None, ..context });
    }
}
