//! The end of a subscription stream.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};

use super::{Frame, RawId, response};
use crate::meta;

type Object = BTreeMap<String, Box<RawValue>>;

/// The response that ends the stream of the request `id`, made from one that ends it under another id: it names the stream in its `_meta`, too.
/// `None` where it does not: an error, or a result without `_meta`.
pub fn stream_end(end: &Frame, id: &RawId) -> Option<Bytes> {
    let mut result: Object = serde_json::from_slice(end.result()?).ok()?;
    let mut meta: Object = serde_json::from_str(result.get("_meta")?.get()).ok()?;
    meta.insert(meta::SUBSCRIPTION_ID.to_owned(), serde_json::from_slice(id.as_bytes()).ok()?);
    result.insert("_meta".to_owned(), to_raw_value(&meta).ok()?);
    Some(response(id, &serde_json::to_vec(&result).ok()?))
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
}
