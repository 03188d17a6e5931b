//! Messages of a subscription stream, which name it by the id of the request that opened it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};

use super::{Frame, RawId, notification, response};
use crate::meta;

type RawObject = BTreeMap<String, Box<RawValue>>;

/// The response that ends the stream of the request `id`, made from one that ends it under another id: it names the stream in its `_meta`, too.
/// `None` where it does not: an error, or a result without `_meta`.
pub fn stream_end(end: &Frame, id: &RawId) -> Option<Bytes> {
    let mut result: RawObject = serde_json::from_slice(end.result()?).ok()?;
    let mut meta: RawObject = serde_json::from_str(result.get("_meta")?.get()).ok()?;
    meta.insert(meta::SUBSCRIPTION_ID.to_owned(), serde_json::from_slice(id.as_bytes()).ok()?);
    result.insert("_meta".to_owned(), to_raw_value(&meta).ok()?);
    Some(response(id, &serde_json::to_vec(&result).ok()?))
}

/// A notification on the stream of the request `id`, without parameters of its own.
pub fn stream_notification(method: &str, id: &RawId) -> Bytes {
    notification(method, Some(&[b"{", &meta_of(id)[..], b"}"].concat()))
}

/// The response that ends the stream of the request `id` in the regular way.
pub fn stream_complete(id: &RawId) -> Bytes {
    response(id, &[b"{\"resultType\":\"complete\",", &meta_of(id)[..], b"}"].concat())
}

fn meta_of(id: &RawId) -> Vec<u8> {
    [b"\"_meta\":{\"", meta::SUBSCRIPTION_ID.as_bytes(), b"\":", id.as_bytes(), b"}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(end: &str, id: &str) -> Option<Bytes> {
        let end = Frame::parse(Bytes::copy_from_slice(end.as_bytes())).unwrap();
        stream_end(&end, &RawId::parse(id.as_bytes()).unwrap())
    }

    #[test]
    fn only_the_ids_change() {
        let end =
            r#"{"id":7,"result":{"n":1.50,"_meta":{"io.modelcontextprotocol/subscriptionId":7,"x":[]}}}"#;
        let expected = r#"{"jsonrpc":"2.0","id":"\u0061","result":{"_meta":{"io.modelcontextprotocol/subscriptionId":"\u0061","x":[]},"n":1.50}}"#;
        assert_eq!(ended(end, r#""\u0061""#).unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn what_names_no_stream_is_left_alone() {
        for end in
            [r#"{"id":7,"result":{}}"#, r#"{"id":7,"result":{"_meta":1}}"#, r#"{"id":7,"error":{"code":1}}"#]
        {
            assert_eq!(ended(end, "1"), None, "{end}");
        }
    }

    #[test]
    fn a_stream_is_named_as_its_client_wrote_its_id() {
        for id in ["7", "\"a\u{200b}\""] {
            let id = RawId::parse(id.as_bytes()).unwrap();
            let changed = Frame::built(stream_notification("notifications/tools/list_changed", &id));
            assert_eq!(changed.subscription_id(), Some(id.clone()));
            let complete = Frame::built(stream_complete(&id));
            assert_eq!(complete.id(), Some(id.clone()));
            let result: serde_json::Value = serde_json::from_slice(complete.result().unwrap()).unwrap();
            assert_eq!(
                result["_meta"][meta::SUBSCRIPTION_ID].to_string(),
                String::from_utf8_lossy(id.as_bytes())
            );
        }
    }
}
