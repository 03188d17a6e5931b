//! What a modern message says in its headers as well: both must say the same, or nobody knows what was let through.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, StatusCode};
use regrow::transport::http::MirroredArguments;
use regrow_protocol::frame::Frame;
use regrow_protocol::{error_code, header};
use serde_json::Value;

use super::refusal::Refusal;

/// Compares the headers of a message with its body.
pub(super) fn agree(headers: &HeaderMap, message: &Frame) -> Result<(), Refusal> {
    if let Some(version) = message.protocol_version() {
        same(headers, header::PROTOCOL_VERSION, &version)?;
    }
    let method = message.method().unwrap_or_default();
    same(headers, header::METHOD, method)?;
    if let Some(name) = header::name(message) {
        same(headers, header::NAME, &name)?;
    }
    Ok(())
}

fn same(headers: &HeaderMap, header: &str, wanted: &str) -> Result<(), Refusal> {
    let mut values = headers.get_all(header).iter();
    match (values.next(), values.next()) {
        (None, _) => Err(mismatch(header, "is missing")),
        (Some(value), None) if decoded(header, value)? == wanted => Ok(()),
        (Some(_), None) => Err(mismatch(header, "differs from the body")),
        (Some(_), Some(_)) => Err(mismatch(header, "is given twice")),
    }
}

/// Compares the headers that mirror arguments with the arguments. Which header mirrors which argument stands in the schema of the tool;
/// headers that it does not name are ignored.
pub(super) fn arguments_agree(
    headers: &HeaderMap,
    call: &Frame,
    mirrored: Option<&MirroredArguments>,
) -> Result<(), Refusal> {
    let Some(mirrored) = mirrored else { return some_argument_agrees(headers, call) };
    if mirrored.is_empty() {
        return Ok(());
    }
    for (header, value) in mirrored.values(&arguments(call)) {
        let name = header.as_str();
        let mut sent = headers.get_all(header).iter();
        match (value.filter(|value| !value.is_null()), sent.next(), sent.next()) {
            (_, Some(_), Some(_)) => return Err(mismatch(name, "is given twice")),
            (Some(value), Some(text), None) if says(value, &decoded(name, text)?) => {}
            (_, Some(_), None) => return Err(mismatch(name, "differs from the body")),
            (Some(value), None, _) if MirroredArguments::text(value).is_some() => {
                return Err(mismatch(name, "is missing"));
            }
            (_, None, _) => {}
        }
    }
    Ok(())
}

/// The schema of the tool is not known yet. But one of the arguments must have the value of the header.
fn some_argument_agrees(headers: &HeaderMap, call: &Frame) -> Result<(), Refusal> {
    let mut mirrored =
        headers.iter().filter(|(name, _)| name.as_str().starts_with(header::PARAMETER_PREFIX)).peekable();
    if mirrored.peek().is_none() {
        return Ok(());
    }
    let arguments = arguments(call);
    for (name, value) in mirrored {
        if !says(&arguments, &decoded(name.as_str(), value)?) {
            return Err(mismatch(name.as_str(), "differs from the body"));
        }
    }
    Ok(())
}

fn arguments(call: &Frame) -> Value {
    let params: Option<Value> = call.params().and_then(|params| serde_json::from_slice(params).ok());
    params.and_then(|mut params| params.get_mut("arguments").map(Value::take)).unwrap_or_default()
}

/// Whether one of these values reads so. Numbers are compared as numbers.
fn says(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Bool(truth) => truth.to_string() == text,
        Value::Number(number) => {
            number.to_string() == text
                || number.as_f64().is_some_and(|number| text.parse::<f64>().is_ok_and(|text| text == number))
        }
        Value::Array(values) => values.iter().any(|value| says(value, text)),
        Value::Object(values) => values.values().any(|value| says(value, text)),
        Value::Null => false,
    }
}

/// The value that a header carries.
fn decoded<'a>(header: &str, value: &'a HeaderValue) -> Result<Cow<'a, str>, Refusal> {
    let text =
        value.to_str().map_err(|_| mismatch(header, "has characters that are not valid in a header"))?;
    header::decode(text).ok_or_else(|| mismatch(header, "is not Base64 of a text"))
}

/// It quotes nothing: values may be secret.
fn mismatch(header: &str, problem: &str) -> Refusal {
    Refusal::new(
        StatusCode::BAD_REQUEST,
        error_code::HEADER_MISMATCH,
        format!("header mismatch: {header} {problem}"),
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderName;
    use serde_json::json;

    use super::*;

    const CALL: &str = r#"{"id":1,"method":"tools/call","params":{"name":"gr\u00fcn","arguments":{"a":{"region":"eu"},"n":42,"b":true},
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    const GOOD: [(&str, &str); 3] = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?Z3LDvG4=?="),
    ];

    fn check(body: &str, headers: &[(&str, &str)]) -> bool {
        check_as(None, body, headers)
    }

    fn check_as(schema: Option<Value>, body: &str, headers: &[(&str, &str)]) -> bool {
        let mirrored = schema.map(|schema| MirroredArguments::of(&schema).unwrap());
        let frame = Frame::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        agree(&map, &frame).and_then(|()| arguments_agree(&map, &frame, mirrored.as_ref())).is_ok()
    }

    #[test]
    fn headers_that_say_what_the_body_says_pass() {
        assert!(check(CALL, &GOOD));
        for (name, value) in [
            ("mcp-param-region", "eu"),
            ("mcp-param-region", "=?base64?ZXU=?="),
            ("mcp-param-n", "42"),
            ("mcp-param-n", "42.0"),
            ("mcp-param-b", "true"),
            ("mcp-other", "anything"),
        ] {
            assert!(check(CALL, &[&GOOD[..], &[(name, value)]].concat()), "{name}: {value}");
        }
    }

    #[test]
    fn headers_that_are_missing_differ_or_stand_there_twice_do_not() {
        for left_out in 0..GOOD.len() {
            let mut headers = GOOD.to_vec();
            let (name, value) = headers.remove(left_out);
            assert!(!check(CALL, &headers), "without {name}");
            headers.push((name, "other"));
            assert!(!check(CALL, &headers), "{name}: other");
            headers.pop();
            headers.extend([(name, value), (name, value)]);
            assert!(!check(CALL, &headers), "{name} twice");
        }
        for (name, value) in [
            ("mcp-param-region", "us"),
            ("mcp-param-region", "=?base64?ZX?="),
            ("mcp-param-region", "=?base64?/w==?="),
            ("mcp-param-region", "\u{fc}"),
            ("mcp-param-n", "43"),
        ] {
            assert!(!check(CALL, &[&GOOD[..], &[(name, value)]].concat()), "{name}: {value}");
        }
    }
    #[test]
    fn the_schema_of_a_tool_says_which_argument_each_header_mirrors() {
        let property = |kind: &str, header: &str| json!({ "type": kind, "x-mcp-header": header });
        let schema = json!({ "properties": {
            "a": { "properties": { "region": property("string", "Region") } },
            "n": property("integer", "Limit"),
            "absent": property("string", "Absent"),
            "b": { "type": "boolean" },
        } });
        let passes =
            |sent: &[(&str, &str)]| check_as(Some(schema.clone()), CALL, &[&GOOD[..], sent].concat());
        let region = ("mcp-param-region", "eu");
        for limit in ["42", "42.0", "=?base64?NDI=?="] {
            assert!(passes(&[region, ("mcp-param-limit", limit)]), "{limit}");
        }
        let limit = ("mcp-param-limit", "42");
        assert!(passes(&[region, limit, ("mcp-param-other", "anything")]), "it is no header of this tool");
        for wrong in [
            &[region][..],
            &[limit],
            &[],
            &[("mcp-param-region", "42"), ("mcp-param-limit", "eu")],
            &[("mcp-param-region", "true"), limit],
            &[region, ("mcp-param-limit", "42x")],
            &[region, limit, limit],
            &[region, limit, ("mcp-param-absent", "eu")],
        ] {
            assert!(!passes(wrong), "{wrong:?}");
        }
        assert!(check_as(Some(json!({})), CALL, &GOOD));
    }

    #[test]
    fn an_argument_that_is_null_or_that_no_header_can_carry_needs_none() {
        let schema = json!({ "properties": { "x": { "type": "integer", "x-mcp-header": "X" } } });
        for value in ["null", "9007199254740993", "[1]"] {
            let call = CALL.replace("\"n\":42", &format!("\"x\":{value}"));
            assert!(check_as(Some(schema.clone()), &call, &GOOD), "{value}");
            let sent = [&GOOD[..], &[("mcp-param-x", "7")]].concat();
            assert!(!check_as(Some(schema.clone()), &call, &sent), "{value}");
        }
    }
}
