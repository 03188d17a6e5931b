//! From a failure of the HTTP client to the fault that it is.

use std::error::Error;
use std::io;

use regrow_core::{Fault, seconds};
use regrow_protocol::text::escape;

use rustls::AlertDescription;
use url::Url;

use super::address::address;
use super::broken::{At, plain};
use super::causes::{find, root_cause};
use super::client::HttpClient;
use super::names::UnknownName;

/// Why there is no answer from this address.
pub(super) fn start(error: &reqwest::Error, url: &Url, client: &HttpClient) -> Fault {
    if !error.is_connect() {
        return fault(error, At::Start, url);
    }
    if error.is_dns() {
        return Fault::UnknownHost { host: host(url), reason: root_cause(error) };
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return Fault::Untrusted { host: host(url), reason: escape(&tls.to_string()) };
    }
    // A timeout of the system's own has its own words.
    let system = find::<io::Error>(error).and_then(io::Error::raw_os_error);
    let reason = match system {
        None if error.is_timeout() => late(client),
        _ => root_cause(error),
    };
    unreachable(reason, url, client)
}

/// Why there is no connection outside of the pool.
pub(super) fn unconnected(error: &(dyn Error + 'static), url: &Url, client: &HttpClient) -> Fault {
    let reason = root_cause(error);
    match find::<UnknownName>(error) {
        Some(_) => Fault::UnknownHost { host: host(url), reason },
        None => unreachable(reason, url, client),
    }
}

/// There is no connection to this address.
pub(super) fn unreachable(reason: String, url: &Url, client: &HttpClient) -> Fault {
    let address = match &client.proxy {
        Some(proxy) => format!("{} (through the proxy {proxy})", address(url)),
        None => address(url),
    };
    Fault::Unreachable { address, reason }
}

pub(super) fn late(client: &HttpClient) -> String {
    format!("connection timed out after {}", seconds(client.connect))
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// What failed on a connection to this address.
pub(super) fn fault(error: &reqwest::Error, at: At, url: &Url) -> Fault {
    let tls = find::<rustls::Error>(error);
    if let Some(rustls::Error::AlertReceived(alert)) = tls
        && is_refusal(*alert)
    {
        // In TLS 1.3 a server judges our certificate after we have begun to talk, but before it listens.
        return Fault::Untrusted {
            host: host(url),
            reason: format!("the server refused the TLS handshake ({alert:?})"),
        };
    }
    if let Some(how) = find::<h2::Error>(error).and_then(unprocessed).filter(|_| at == At::Start) {
        return Fault::Unprocessed { how };
    }
    plain(error, at)
}

/// How the server said that it did not process the request (RFC 9113, 8.7). A GOAWAY is the error of those streams alone that
/// came after the last one that the server took.
fn unprocessed(error: &h2::Error) -> Option<&'static str> {
    match error {
        _ if !error.is_remote() => None,
        _ if error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM) => Some("REFUSED_STREAM"),
        _ if error.is_go_away() => Some("GOAWAY"),
        _ => None,
    }
}

/// Whether a server that sends this alert turned us away at the handshake.
fn is_refusal(alert: AlertDescription) -> bool {
    use AlertDescription::*;
    matches!(
        alert,
        CertificateRequired
            | BadCertificate
            | UnsupportedCertificate
            | CertificateRevoked
            | CertificateExpired
            | CertificateUnknown
            | UnknownCA
            | AccessDenied
            | HandshakeFailure
            | NoCertificate
            | DecryptError
    )
}
