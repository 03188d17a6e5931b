//! What may be said of a URL: never its userinfo, query or fragment.

use std::fmt;

use regrow_protocol::text::Escaped;
use url::Url;

/// Scheme, host, port and path.
pub struct Masked<'a>(pub &'a Url);

impl fmt::Display for Masked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Masked(url) = self;
        write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", Escaped(url.path()))
    }
}

/// Host and port, as in `example.org:443`.
pub(super) fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether a request may go there with all that it carries.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn what_may_be_secret_is_not_said() {
        let masked = Masked(&url("https://ann:hunter2@example.org:8443/mcp?key=hunter2#x")).to_string();
        assert_eq!(masked, "https://example.org:8443/mcp");
        assert_eq!(address(&url("https://ann@example.org/mcp?a")), "example.org:443");
        assert_eq!(address(&url("http://[::1]:80/")), "[::1]:80");
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let here = url("https://example.org/mcp");
        assert!(same_origin(&here, &url("https://EXAMPLE.org:443/other?x=1")));
        for elsewhere in
            ["http://example.org/mcp", "https://example.org:444/mcp", "https://example.org.evil.com/mcp"]
        {
            assert!(!same_origin(&here, &url(elsewhere)), "{elsewhere}");
        }
    }
}
