//! The protocol version that a request's headers name.

use http::{HeaderMap, HeaderName, StatusCode};
use regrow_protocol::{error_code, header, version};

use super::refusal::Refusal;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);

/// The version that the headers name; one that is not spoken here is refused.
pub(super) fn requested_version(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(PROTOCOL_VERSION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let found = value.to_str().unwrap_or_default();
            if version::ALL.contains(&found) {
                Ok(Some(found))
            } else {
                Err(Refusal::unsupported_version(found, &version::ALL))
            }
        }
        (Some(_), Some(_)) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            error_code::HEADER_MISMATCH,
            "MCP-Protocol-Version is given twice",
        )),
    }
}
