//! User and password in an address, which are sent as Basic authorization.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use url::Url;

/// Takes user and password out of the URL, as a header.
pub(super) fn take(url: &mut Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| percent_decoded(text.as_bytes());
    let mut pair = decoded(url.username());
    pair.push(b':');
    pair.extend(decoded(url.password().unwrap_or_default()));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    // An http URL has a host, and with a host both can be taken out.
    let taken = url.set_username("").and(url.set_password(None));
    taken.ok().map(|()| value)
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// The password in a value of Basic authorization.
pub(super) fn password(value: &str) -> Option<String> {
    let (scheme, packed) = value.split_once(' ')?;
    let pair = STANDARD.decode(packed.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let pair = String::from_utf8(pair).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}
