use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::{Value, json};

use super::StreamedResponse;
use crate::frame::{Frame, RawId};

const SERVERS: u64 = 17;
const CALLERS: &str = "\"a call\"";

/// Each is a response that can be streamed from some point on.
const RESPONSES: [&str; 7] = [
    r#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"some \"long\" text \ud83d\ude00 \u00e9 ä€😀 \\"}]}}"#,
    r#" { "result" : { "content" : [ {"type":"image","data":"AAAA","mimeType":"image/png"}, {"type":"text","text":""} ] , "_meta" : {} }, "id":17 , "jsonrpc":"2.0" } "#,
    r#"{"jsonrpc":"2.0","result":{"structuredContent":{"a":[1,-0.5e+10,0,[],{},null,true,false,{"b":{"c":[[[0]]]}}]},"content":[]},"id":17}"#,
    r#"{"id":17,"result":{"isError":true,"content":[{"type":"text","text":"it failed"},{"type":"text","text":"twice"}]},"jsonrpc":"2.0"}"#,
    r#"{"id":17,"result":{"_meta":{"a":1},"content":[{"type":"text","text":"x"}],"isError":false},"jsonrpc":"2.0"}"#,
    r#"{"id":17,"result":{"content":"not a list","isError":null}}"#,
    r#"{"result":{},"id":17}"#,
];

/// Reads all pieces. Returns what the caller has got.
fn stream(pieces: &[&[u8]]) -> Option<(StreamedResponse, Vec<u8>)> {
    let mut out = VecDeque::new();
    let caller = RawId::parse(CALLERS.as_bytes()).unwrap();
    let mut response = StreamedResponse::unread(RawId::from(SERVERS), caller);
    for piece in pieces {
        response.push(Bytes::copy_from_slice(piece), &mut out).ok()?;
    }
    Some((response, out.iter().flatten().copied().collect()))
}

fn parsed(bytes: &[u8]) -> Value {
    assert!(Frame::parse(Bytes::copy_from_slice(bytes)).is_ok(), "{}", String::from_utf8_lossy(bytes));
    serde_json::from_slice(bytes).unwrap()
}

fn failure() -> Frame {
    let result = json!({
        "content": [{ "type": "text", "text": "the server exited" }],
        "isError": true,
        "_meta": { "kind": "interrupted" },
    });
    Frame::built(crate::frame::response(&RawId::from(0), result.to_string().as_bytes()))
}

#[test]
fn a_response_arrives_as_it_is_under_its_callers_id_however_it_is_cut() {
    for text in RESPONSES {
        let mut expected: Value = serde_json::from_str(text).unwrap();
        expected["id"] = serde_json::from_str(CALLERS).unwrap();
        let bytes = text.as_bytes();
        for first in 0..bytes.len() {
            for second in [first, first + 1, first + 2, bytes.len()] {
                let second = second.min(bytes.len());
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let (response, out) = stream(&pieces).unwrap();
                assert!(response.is_complete(), "{text}");
                assert_eq!(parsed(&out), expected);
                assert_eq!(response.is_tool_error(), text.contains(r#""isError":true"#));
            }
        }
    }
}

#[test]
fn a_response_that_is_cut_anywhere_ends_as_an_error() {
    let mut ended = 0;
    for text in RESPONSES {
        for cut in 0..text.len() {
            let (response, mut out) = stream(&[&text.as_bytes()[..cut]]).unwrap();
            assert!(!response.is_complete() || cut + 1 == text.len());
            let Some(rest) = response.end_as(&failure()) else { continue };
            out.extend_from_slice(&rest);
            let message = parsed(&out);
            let result = &message["result"];
            assert_eq!(message["id"], serde_json::from_str::<Value>(CALLERS).unwrap(), "{message}");
            assert_eq!(result["isError"], true, "{message}");
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            for member in ["_meta", "content", "isError", "id", "jsonrpc", "result"] {
                let repeated = String::from_utf8_lossy(&out).matches(&format!("{member:?}")).count();
                assert_eq!(repeated, 1, "{message}");
            }
            // What has come stands before the error.
            if let Some(blocks) = result["content"].as_array() {
                assert_eq!(blocks.last().unwrap()["text"], "the server exited", "{message}");
            }
            ended += 1;
        }
    }
    assert!(ended > 400, "only {ended} cuts were tried");
}

#[test]
fn what_is_cut_in_a_long_text_is_that_text_and_the_error() {
    let start = br#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"one two thr"#;
    let (response, mut out) = stream(&[start]).unwrap();
    out.extend_from_slice(&response.end_as(&failure()).unwrap());
    let blocks =
        json!([{ "type": "text", "text": "one two thr" }, { "type": "text", "text": "the server exited" }]);
    assert_eq!(
        parsed(&out),
        json!({ "jsonrpc": "2.0", "id": "a call", "result": { "content": blocks, "isError": true, "_meta": { "kind": "interrupted" } } })
    );
}

#[test]
fn an_error_has_no_structured_content_and_none_is_given_on_before_all_has_come() {
    let start = r#"{"id":17,"result":{"content":[{"type":"text","text":"one"}]"#;
    let structured =
        r#","structuredContent":{"a":["two","three"]},"_meta":{},"isError":false},"jsonrpc":"2.0"}"#;
    let whole = [start, structured].concat();
    let error = json!({ "jsonrpc": "2.0", "id": "a call", "result": {
        "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "the server exited" }],
        "isError": true, "_meta": { "kind": "interrupted" },
    } });
    for cut in start.len()..whole.len() {
        let (response, mut out) = stream(&[&whole.as_bytes()[..cut]]).unwrap();
        assert_eq!(String::from_utf8_lossy(&out) + "]", start.replace("17", CALLERS));
        out.extend_from_slice(&response.end_as(&failure()).unwrap());
        assert_eq!(parsed(&out), error);
    }
    let first = r#"{"id":17,"result":{"structuredContent":{"a":1},"content":[{"type":"text","te"#;
    let (response, mut out) = stream(&[first.as_bytes()]).unwrap();
    out.extend_from_slice(&response.end_as(&failure()).unwrap());
    let expected: Value = serde_json::from_slice(failure().result().unwrap()).unwrap();
    assert_eq!(parsed(&out)["result"], expected);
}

#[test]
fn what_has_said_that_the_tool_did_not_fail_cannot_end_as_an_error() {
    for start in [
        r#"{"id":17,"result":{"isError":false,"content":["#,
        r#"{"id":17,"result":{"isError":fal"#,
        r#"{"id":17,"result":{"isError":false}"#,
        r#"{"id":17,"result":{}}"#,
        r#"{"id":17,"result":"#,
        r#"{"id":17"#,
        "",
    ] {
        let (response, _) = stream(&[start.as_bytes()]).unwrap();
        assert_eq!(response.end_as(&failure()), None, "{start}");
    }
    let (response, _) = stream(&[br#"{"result":{"#]).unwrap();
    assert_eq!(response.end_as(&Frame::built(crate::frame::method_not_found(&RawId::from(0)))), None);
}

#[test]
fn what_is_no_response_to_the_call_is_seen_as_soon_as_it_shows() {
    for text in [
        "[",
        "1",
        "\"",
        "x",
        "{x",
        "{\"id\":18,",
        "{\"id\":\"17\"",
        "{\"id\":17.0,",
        "{\"id\":17,\"id\":1",
        "{\"id\":{",
        "{\"id\":[",
        "{\"result\":1",
        "{\"result\":[",
        "{\"result\":{},\"result\":{",
        "{\"error\":{",
        "{\"method\":\"",
        "{\"result\":{\"a\":01",
        "{\"result\":{\"a\":1.}",
        "{\"result\":{\"a\":-}",
        "{\"result\":{\"a\":tru}",
        "{\"result\":{\"a\":\"\n",
        "{\"result\":{\"a\":\"\\x",
        "{\"result\":{\"a\":\"\\u12g",
        "{\"result\":{\"a\":[}",
        "{\"result\":{\"a\":[1 2",
        "{\"result\":{\"a\":[,",
        "{\"result\":{\"a\":[1,]",
        "{\"result\":{,",
        "{\"result\":{\"a\",",
        "{\"result\":{\"a\":1,}",
        "{\"result\":{\"a\":1,\"a\":2",
        "{\"result\":{\"isErro\\u0072\":f",
        "{\"result\":{}}{",
        "{\"result\":{}],",
        "{\"jsonrpc\":{",
    ] {
        assert!(stream(&[text.as_bytes()]).is_none(), "{text}");
    }
    let not_utf8: [&[u8]; 3] = [
        b"{\"result\":{\"a\":\"\xff",
        b"{\"result\":{\"a\":\"\xe2\x82\"",
        b"{\"result\":{\"a\":\"\xed\xa0\x80",
    ];
    for text in not_utf8 {
        for cut in 0..text.len() {
            assert!(stream(&[&text[..cut], &text[cut..]]).is_none(), "{text:?}");
        }
    }
    let deep = format!("{{\"result\":{{\"a\":{}", "[".repeat(2_000));
    assert!(stream(&[deep.as_bytes()]).is_none());
    let spaces = format!("{{\"result\":{{\"a\":1,{}", " ".repeat(5_000));
    assert!(stream(&[spaces.as_bytes()]).is_none());
}

#[test]
fn it_is_not_streamed_before_its_result_has_begun_or_once_that_is_over() {
    let begin = |text: &str| {
        let id = RawId::from(SERVERS);
        StreamedResponse::begin(id.clone(), id, Bytes::copy_from_slice(text.as_bytes()), &mut VecDeque::new())
            .is_some()
    };
    assert!(begin(r#"{"id":17,"result":{"content":[{"type":"text","text":"x"#));
    assert!(begin(r#"{"result":{"content":["#));
    for text in [
        r#"{"id":17"#,
        r#"{"id":17,"result":"#,
        r#"{"result":{"content":[]"#,
        r#"{"result":{"structuredContent":{"#,
        r#"{"result":{}"#,
        r#"{"result":{},"id":1"#,
        r#"{"result":{"isError":false,"content":["#,
    ] {
        assert!(!begin(text), "{text}");
    }
}
