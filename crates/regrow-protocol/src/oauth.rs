//! What Regrow's OAuth requests require of settings, wherever those are read.

/// The parameters of an authorization request that only Regrow sets.
pub const OWN_PARAMETERS: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "request_uri",
    "scope",
];

/// Whether this is the address of a client ID metadata document: https, with a path, and written as the document itself must write it,
/// because the two are compared letter by letter.
pub fn is_metadata_document(address: &str) -> bool {
    let Some((host, path)) = address.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:".contains(&byte);
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/?".contains(&byte);
    !host.is_empty()
        && host.bytes().all(is_host)
        && !path.is_empty()
        && path.bytes().all(is_path)
        && path.split('/').all(|segment| segment != "." && segment != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metadata_document_is_https_with_a_path() {
        for good in ["https://a.example/client.json", "https://a.example:8443/x/y?z=1", "https://a/b/"] {
            assert!(is_metadata_document(good), "{good}");
        }
        for bad in [
            "",
            "http://a.example/x",
            "https://a.example",
            "https://a.example/",
            "https:///x",
            "https://A.example/x",
            "https://ann@a.example/x",
            "https://a.example/x#y",
            "https://a.example/x y",
            "https://a.example/x/../y",
            "https://a.example/..",
        ] {
            assert!(!is_metadata_document(bad), "{bad}");
        }
    }
}
