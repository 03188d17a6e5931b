//! What a message of the modern era says in its headers as well, so that those in between need not read it.

use http::{HeaderName, HeaderValue};
use regrow_protocol::frame::Frame;
use regrow_protocol::{header, method};

use super::parameters::Parameters;
use super::request::PROTOCOL_VERSION;

const METHOD: HeaderName = HeaderName::from_static(header::METHOD);
const NAME: HeaderName = HeaderName::from_static(header::NAME);

/// Puts the headers of a message there.
pub(super) fn headers(
    message: &Frame,
    parameters: &Parameters,
    headers: &mut Vec<(HeaderName, HeaderValue)>,
) {
    let method = message.method().unwrap_or_default();
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(&header::encode(value)) {
            headers.push((name, value));
        }
    };
    if let Some(version) = message.protocol_version() {
        put(PROTOCOL_VERSION, &version);
    }
    put(METHOD, method);
    let name = header::name(message);
    if let Some(name) = &name {
        put(NAME, name);
    }
    if method == method::TOOLS_CALL {
        for (header, value) in parameters.headers(message, name.as_deref().unwrap_or_default()) {
            put(header, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn of(message: &str) -> Vec<(String, String)> {
        let message = Frame::parse(Bytes::copy_from_slice(message.as_bytes())).unwrap();
        let mut all = vec![];
        headers(&message, &Parameters::default(), &mut all);
        all.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn the_envelope_stands_in_the_headers() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let expected = |method: &str, name: Option<&str>| {
            let mut all = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
            all.extend(name.map(|name| ("mcp-name", name)));
            all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        for (method, member, name) in [
            ("tools/call", r#""name":"pay","uri":"no""#, Some("pay")),
            ("prompts/get", r#""name":"gr\u00fcn""#, Some("=?base64?Z3LDvG4=?=")),
            ("resources/read", r#""uri":"file:///a b","name":"no""#, Some("file:///a b")),
            ("tools/list", r#""name":"no""#, None),
        ] {
            let message = format!(r#"{{"id":1,"method":"{method}","params":{{{member},{meta}}}}}"#);
            assert_eq!(of(&message), expected(method, name));
        }
    }
}
