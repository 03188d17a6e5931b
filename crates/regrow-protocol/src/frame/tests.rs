//! What is read of a message.

use super::*;

fn parse(text: &str) -> Result<Frame, ParseError> {
    Frame::parse(Bytes::copy_from_slice(text.as_bytes()))
}

fn frame(text: &str) -> Frame {
    parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn id(raw: &str) -> RawId {
    RawId::parse(raw.as_bytes()).unwrap()
}

fn raw(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.map(|bytes| std::str::from_utf8(bytes).unwrap())
}

fn why(text: &str) -> (Option<String>, Invalid) {
    match parse(text) {
        Err(ParseError::NotRpc { id, why }) => (id.map(|id| id.to_string()), why),
        other => panic!("{other:?}: {text}"),
    }
}

fn is_not_json(text: impl AsRef<[u8]>) -> bool {
    matches!(Frame::parse(Bytes::copy_from_slice(text.as_ref())), Err(ParseError::NotJson { .. }))
}

#[test]
fn structure_decides_what_a_message_is() {
    let request = frame(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(request.kind(), Kind::Request { id: id("1"), method: "ping" });
    let notification = frame(r#"{"method":"notifications/initialized"}"#);
    assert_eq!(notification.kind(), Kind::Notification { method: "notifications/initialized" });
    let answer = frame(r#"{"result":{"a":1},"id":"x"}"#);
    assert_eq!(answer.kind(), Kind::Response { id: Some(id(r#""x""#)) });
    assert_eq!(
        (raw(answer.result()), answer.is_error(), answer.error_code()),
        (Some(r#"{"a":1}"#), false, None)
    );
    let error = frame(r#"{"id":null,"error":{"code":-32700,"message":"?"}}"#);
    assert_eq!(error.kind(), Kind::Response { id: None });
    assert_eq!((error.result(), error.is_error(), error.error_code()), (None, true, Some(-32700)));
    assert_eq!(frame(r#"[{"id":1,"method":"ping"}]"#).kind(), Kind::Batch);
}

#[test]
fn the_version_of_json_rpc_is_not_our_business() {
    for jsonrpc in [r#""1.0""#, "2", "null", "{}"] {
        let text = format!(r#"{{"jsonrpc":{jsonrpc},"id":1,"method":"ping"}}"#);
        assert_eq!(frame(&text).kind(), Kind::Request { id: id("1"), method: "ping" });
    }
}

#[test]
fn null_members_are_absent_members() {
    let notification = frame(r#"{"id":null,"method":"a","params":null,"result":null,"error":null}"#);
    assert_eq!(notification.kind(), Kind::Notification { method: "a" });
    assert_eq!(raw(notification.params()), Some("null"));
    let answer = frame(r#"{"id":1,"method":null,"result":{},"error":null}"#);
    assert_eq!((raw(answer.result()), answer.is_error()), (Some("{}"), false));
    let error = frame(r#"{"id":1,"result":null,"error":{"code":1}}"#);
    assert_eq!((error.result(), error.error_code()), (None, Some(1)));
    let nothing = frame(r#"{"id":1,"result":null,"error":null}"#);
    assert_eq!((raw(nothing.result()), nothing.is_error()), (Some("null"), false));
}

#[test]
fn what_is_no_message_is_refused_and_its_sender_told() {
    let one = || Some("1".to_owned());
    assert_eq!(why(r#"{"id":1,"method":5}"#), (one(), Invalid::BadMethod));
    assert_eq!(why(r#"{"id":1,"method":"\ud800"}"#), (one(), Invalid::BadMethod));
    assert_eq!(why(r#"{"id":1}"#), (one(), Invalid::Shapeless));
    assert_eq!(why(r#"{"id":1,"method":"a","result":1}"#), (one(), Invalid::Ambiguous));
    assert_eq!(why(r#"{"id":1,"result":1,"error":{}}"#), (one(), Invalid::Ambiguous));
    assert_eq!(why(r#"{"result":1}"#), (None, Invalid::NoId));
    assert_eq!(why(r#"{"result":1,"id":null}"#), (None, Invalid::NoId));
    for bad in ["true", "{}", "[1]"] {
        assert_eq!(why(&format!(r#"{{"id":{bad},"method":"a"}}"#)), (None, Invalid::BadId));
    }
    for scalar in ["1", "null", r#""{}""#, "true"] {
        assert_eq!(why(scalar), (None, Invalid::NotAnObject));
    }
    assert_eq!(parse("{}").unwrap_err().code(), -32600);
    assert_eq!(parse("{").unwrap_err().code(), -32700);
    assert_eq!(parse(r#"{"id":"a","id2":1}"#).unwrap_err().id(), Some(&id(r#""a""#)));
}

#[test]
fn a_member_of_the_envelope_may_stand_there_once() {
    assert_eq!(why(r#"{"id":1,"id":2,"method":"a"}"#), (None, Invalid::Repeated));
    assert_eq!(why(r#"{"id":1,"\u0069d":1,"method":"a"}"#), (None, Invalid::Repeated));
    for member in ["jsonrpc", "method", "params", "result", "error"] {
        let text = format!(r#"{{"{member}":"a","id":7,"{member}":"a"}}"#);
        assert_eq!(why(&text), (Some("7".to_owned()), Invalid::Repeated));
    }
    assert_eq!(
        why(r#"{"jsonrpc":"2.0","id":1,"jsonrpc":"2.0","method":"a"}"#),
        (Some("1".to_owned()), Invalid::Repeated)
    );
}

#[test]
fn only_members_of_an_envelope_are_carried() {
    let odd =
        frame(r#" {"extension":1, "jsonrpc" : "2.0","extension":2,"params":{ "a":1 },"id":1,"method":"a"} "#);
    assert_eq!(odd.bytes(), r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{ "a":1 }}"#);
    assert_eq!(odd.dropped_members(), 2);
    assert_eq!((odd.id(), odd.method(), raw(odd.params())), (Some(id("1")), Some("a"), Some(r#"{ "a":1 }"#)));
    let plain = frame(r#"{ "id":1,"method":"a"}"#);
    assert_eq!(
        (plain.dropped_members(), plain.bytes()),
        (0, &Bytes::from_static(br#"{ "id":1,"method":"a"}"#))
    );
    assert_eq!(why(r#"{"id":7,"x":1}"#), (Some("7".to_owned()), Invalid::Shapeless));
}

#[test]
fn a_member_that_some_readers_take_for_another_is_refused() {
    assert_eq!(why(r#"{"id":1,"ID":2,"method":"a"}"#), (None, Invalid::Lookalike));
    assert_eq!(why(r#"{"id":1,"method":"a","i\u0000d":2}"#), (None, Invalid::Lookalike));
    let seven = || Some("7".to_owned());
    for member in [r#""METHOD":"b""#, r#""Params":{}"#, r#""\uff45rror":{}"#] {
        assert_eq!(why(&format!(r#"{{"id":7,"method":"a",{member}}}"#)), (seven(), Invalid::Lookalike));
    }
    for params in [
        r#""NAME":"b""#,
        r#""name":"a","Name":"b""#,
        r#""_META":{}"#,
        r#""progresstoken":1"#,
        r#""taskid":1"#,
    ] {
        let text = format!(r#"{{"id":7,"method":"a","params":{{{params}}}}}"#);
        assert_eq!(why(&text), (seven(), Invalid::Lookalike), "{params}");
    }
    let text = r#"{"id":7,"method":"a","params":{"_meta":{"ProgressToken":1}}}"#;
    assert_eq!(why(text), (seven(), Invalid::Lookalike));
    frame(r#"{"id":7,"method":"a","params":{"arguments":{"NAME":1,"name":2,"name":3}}}"#);
}

#[test]
fn a_member_of_params_may_stand_there_once() {
    for params in [
        r#""name":"x","name":"y""#,
        r#""_meta":{},"_meta":{}"#,
        r#""_meta":{"b":2,"b":3}"#,
        r#""_meta":{"progressToken":2,"progressToken":2}"#,
        r#""_meta":{"io.modelcontextprotocol/clientInfo":1,"io.modelcontextprotocol/clientInfo":1}"#,
        r#""_meta":{"io.modelcontextprotocol/logLevel":1,"io.modelcontextprotocol/logLevel":1}"#,
        r#""\ud800":1,"\ud800":1"#,
        r#""\u00e9":1,"é":1"#,
        r#""arguments":{},"arguments":{}"#,
        r#""1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"10":0,"9":0"#,
    ] {
        let text = format!(r#"{{"id":7,"method":"a","params":{{{params}}}}}"#);
        assert_eq!(why(&text), (Some("7".to_owned()), Invalid::Repeated), "{params}");
    }
}

#[test]
fn an_id_is_kept_as_it_was_written() {
    for written in
        ["1", "1.0", "1e0", "-0", r#""1""#, r#""\u0031""#, "123456789012345678901234567890", r#""\ud800""#]
    {
        let text = format!(r#"{{"id" : {written} ,"method":"a"}}"#);
        assert_eq!(frame(&text).id().unwrap().as_bytes(), written.as_bytes());
    }
    assert_ne!(id("1"), id("1.0"));
    assert_ne!(id("1"), id(r#""1""#));
    assert_eq!(RawId::from(u64::MAX), id("18446744073709551615"));
    assert_eq!(RawId::from(0), id("0"));
    for len in [36, 37, 100] {
        let long = format!("\"{}\"", "x".repeat(len));
        assert_eq!(id(&long).as_bytes(), long.as_bytes());
    }
    for no_id in ["null", "true", "[1]", "{}", "", "1 2", "\"", "NaN"] {
        assert_eq!(RawId::parse(no_id.as_bytes()), None);
    }
}

#[test]
fn the_members_that_the_relay_needs_are_found() {
    let request = frame(concat!(
        r#" { "params" : { "name" : "a\/b" , "_meta" : { "x" : [ {} ] , "progressToken" : "t" , "#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/subscriptionId":7 } , "#,
        r#""uri":"file:\/\/é","cursor":null,"level":"info","requestId":"r","progressToken":3.0,"task":{}, "#,
        r#""arguments" : {"name":"no","_meta":{"progressToken":0}} } , "method" : "tools\/call" , "id":1 } "#,
    ));
    assert_eq!(request.kind(), Kind::Request { id: id("1"), method: "tools/call" });
    assert_eq!(request.name().as_deref(), Some("a/b"));
    assert_eq!(request.uri().as_deref(), Some("file://é"));
    assert_eq!(raw(request.cursor()), Some("null"));
    assert_eq!(request.level().as_deref(), Some("info"));
    assert_eq!(request.request_id(), Some(id(r#""r""#)));
    assert_eq!(raw(request.progress_token()), Some("3.0"));
    assert!(request.has_task());
    assert_eq!(raw(request.meta_progress_token()), Some(r#""t""#));
    assert_eq!(request.protocol_version().as_deref(), Some("2026-07-28"));
    assert_eq!(request.subscription_id(), Some(id("7")));
    let meta = raw(request.meta()).unwrap();
    assert!(meta.starts_with(r#"{ "x""#) && meta.ends_with("7 }"), "{meta}");
    let params = raw(request.params()).unwrap();
    assert!(params.starts_with(r#"{ "name""#) && params.ends_with(r#"0}} }"#), "{params}");
}

#[test]
fn a_tool_has_failed_if_the_result_itself_says_so() {
    let is_tool_error =
        |member: &str, value: &str| frame(&format!(r#"{{"id":1,"{member}":{value}}}"#)).is_tool_error();
    assert!(is_tool_error("result", r#"{"content":[],"isError" : true}"#));
    assert!(is_tool_error("result", r#"{"isError":true,"structuredContent":{"isError":false}}"#));
    for result in [
        r#"{"content":[],"isError":false}"#,
        r#"{"structuredContent":{"isError":true}}"#,
        r#"{"structuredContent":{"isError":true},"isError":false}"#,
        r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#,
        r#"{"isError":"true"}"#,
        r#"[{"isError":true}]"#,
        "17",
    ] {
        assert!(!is_tool_error("result", result), "{result}");
    }
    assert!(!is_tool_error("error", r#"{"code":1,"message":"","isError":true}"#));
}

#[test]
fn params_may_be_anything() {
    for params in [
        "[1,{}]",
        r#""\ud800""#,
        "1e999",
        "null",
        "false",
        "{}",
        "{ }",
        r#"{"_meta":[{}],"name":5,"uri":"\udead"}"#,
    ] {
        let frame = frame(&format!(r#"{{"id":1,"params":{params},"method":"a"}}"#));
        assert_eq!(raw(frame.params()), Some(params));
        assert_eq!((frame.name(), frame.uri(), frame.meta_progress_token()), (None, None, None));
        assert!(!frame.has_task());
    }
    assert_eq!(frame(r#"{"id":1,"method":"a"}"#).params(), None);
}

#[test]
fn an_escaped_key_is_the_key_it_spells_and_no_other() {
    let request = frame(
        r#"{"\u0069d":1,"meth\u006fd":"a","p\u0061rams" : {"n\u0061me":"n","_m\u0065ta":{}},"i\\u0064":2}"#,
    );
    assert_eq!(request.kind(), Kind::Request { id: id("1"), method: "a" });
    assert_eq!((request.name().as_deref(), raw(request.meta())), (Some("n"), Some("{}")));
    let odd = frame(r#"{"\ud800":1,"id\ud800":2,"":4,"method":"a"}"#);
    assert_eq!(odd.kind(), Kind::Notification { method: "a" });
}

#[test]
fn lone_surrogates_pass_untouched() {
    let text = r#"{"id":1,"result":{"\udfff":"\ud800","a":["\uDC00"]}}"#;
    let frame = frame(text);
    assert_eq!(raw(frame.result()), Some(r#"{"\udfff":"\ud800","a":["\uDC00"]}"#));
    assert_eq!(frame.to_line(), format!("{text}\n"));
}

#[test]
fn a_byte_order_mark_and_a_carriage_return_are_dropped() {
    let bytes = Bytes::from_static("\u{feff}{\"id\":1,\"method\":\"a\"}\r".as_bytes());
    let frame = Frame::parse(bytes).unwrap();
    assert_eq!(frame.bytes(), r#"{"id":1,"method":"a"}"#);
    assert_eq!(frame.id(), Some(id("1")));
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[",
        "[1,]",
        "hello",
        "{\"id\":1,}",
        "{\"id\" 1}",
        "{\"jsonrpc\":\"2.0\",",
        "{\"jsonrpc\":\"2.0\",}",
        "{\"jsonrpc\":\"2.0\",,\"id\":1}",
        "{\"id\":}",
        "{\"params\":",
        "{\"params\":{",
        "{\"params\":{\"_meta\":{}",
        "{\"params\" {}}",
        "{\"id\":1}{}",
        "{\"id\":1} x",
        "{'id':1}",
        "{id:1}",
        "{\"id\":01}",
        "{\"result\":NaN,\"id\":1}",
        "{\"result\":Infinity,\"id\":1}",
        "{\"result\":\"\0\",\"id\":1}",
        "{\"id\":1\0}",
        "{\"result\":\"\\x\",\"id\":1}",
        "{\"result\":[}],\"id\":1}",
        "\u{feff}\u{feff}{}",
    ] {
        assert!(is_not_json(text), "{text}");
    }
    assert!(is_not_json(b"{\"id\":1,\"result\":\"\xff\"}"));
    assert!(is_not_json(b"{\"id\":1,\"result\":\"\xed\xa0\x80\"}"));
    assert!(is_not_json(b"\xff\xfe{\0}\0"));
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let nested = format!("{}1{}", "{\"_meta\":".repeat(1_000_000), "}".repeat(1_000_000));
    for member in ["params", "result", "x"] {
        for value in [&deep, &nested] {
            let text = format!(r#"{{"{member}":{value},"id":1,"method":"a"}}"#);
            match parse(&text) {
                Ok(frame) => assert_eq!(frame.id(), Some(id("1"))),
                Err(error) => assert_eq!((member, error.id()), ("result", Some(&id("1")))),
            }
        }
    }
    assert_eq!(frame(&format!(r#"{{"id":1,"error":{{"data":{deep},"code":5}}}}"#)).error_code(), Some(5));
    assert_eq!(split_batch(&frame(&deep)).len(), 1);
    assert!(is_not_json("[".repeat(1_000_000)));
    assert!(is_not_json("{\"params\":".repeat(1_000_000)));
}

#[test]
fn keys_may_be_long() {
    let long = "k".repeat(1_000_000);
    let frame =
        frame(&format!(r#"{{"{long}":1,"id":1,"params":{{"{long}":2,"name":"n"}},"method":"{long}"}}"#));
    assert_eq!(frame.method(), Some(long.as_str()));
    assert_eq!(frame.name().as_deref(), Some("n"));
}

#[test]
fn a_compact_frame_lets_its_buffer_go() {
    let buffer = Bytes::from(r#"        {"id":"a","method":"b"}        "#.to_owned());
    let mut frame = Frame::parse(buffer.clone()).unwrap();
    assert!(!buffer.is_unique());
    let id = frame.id();
    frame.compact();
    assert!(buffer.is_unique());
    assert_eq!((frame.id(), frame.method()), (id, Some("b")));

    let buffer = Bytes::from(format!(r#"{{"id":1,"method":"{}"}}"#, "b".repeat(LONG)));
    let mut frame = Frame::parse(buffer.clone()).unwrap();
    frame.compact();
    assert!(!buffer.is_unique(), "a long message stays where it is");
}

#[test]
fn what_is_no_message_stays_where_it_is() {
    let mut line = Bytes::from_static(br#" {"id":1} "#);
    assert!(Frame::take_from(&mut line).is_err());
    assert_eq!(line, r#"{"id":1}"#);
    let mut line = Bytes::from_static(br#"{"id":1,"method":"ping"}"#);
    assert!(Frame::take_from(&mut line).is_ok());
    assert!(line.is_empty());
}

#[test]
fn debug_shows_no_content() {
    let frame = frame(r#"{"id":1,"method":"a","params":{"token":"hunter2"}}"#);
    assert_eq!(format!("{frame:?}"), r#"Frame { kind: Request { id: RawId(1), method: "a" }, bytes: 50 }"#);
    assert_eq!(id("\"\u{7f}[31m\u{202e}\"").to_string(), r#""\u{7f}[31m\u{202e}""#);
}
