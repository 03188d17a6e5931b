//! Which hosts and origins are ours: what keeps a web page from reaching us under a name of its own.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A host and perhaps a port, in one way of writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// In lower case, without the dot that a full name may end with.
    Name(String),
    Address(IpAddr),
}

impl Authority {
    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port`; nothing that carries a user, a zone, or a way to write an address that only
    /// some understand.
    pub(super) fn parse(text: &str) -> Option<Authority> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address = IpAddr::from(address.parse::<Ipv6Addr>().ok()?).to_canonical();
                let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
                (Host::Address(address), port)
            }
            None => {
                let (host, port) =
                    text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
                (Host::parse(host)?, port)
            }
        };
        let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            Some(port) if digits(port) => Some(port.parse().ok()?),
            Some(_) => return None,
            None => None,
        };
        Some(Authority { host, port })
    }

    fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Name(name) => name == "localhost",
            Host::Address(address) => address.is_loopback(),
        }
    }
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (!name.is_empty() && name.bytes().all(plain)).then_some(Host::Name(name))
    }
}

/// Under which hosts we are reached.
#[derive(Debug)]
pub(super) struct Hosts {
    ours: Vec<SocketAddr>,
    allowed: Vec<Authority>,
    /// The port that is meant where none is said.
    default_port: u16,
    /// Some of ours as clients usually write them, so that most need not be parsed.
    usual: Vec<String>,
}

impl Hosts {
    /// Of a face that listens at `ours`, and is known by the names in `allowed`. The error is the first that is not a valid name.
    pub(super) fn new(ours: Vec<SocketAddr>, allowed: &[String], secure: bool) -> Result<Hosts, String> {
        let read = |text: &String| Authority::parse(text).ok_or_else(|| text.clone());
        let allowed = allowed.iter().map(read).collect::<Result<_, _>>()?;
        let default_port = if secure { 443 } else { 80 };
        let mut hosts = Hosts { ours, allowed, default_port, usual: vec![] };
        let written = |ours: &SocketAddr| [ours.to_string(), format!("localhost:{}", ours.port())];
        hosts.usual = hosts.ours.iter().flat_map(written).filter(|host| hosts.has(host)).collect();
        Ok(hosts)
    }

    pub(super) fn has(&self, host: &str) -> bool {
        if self.usual.iter().any(|usual| usual == host) {
            return true;
        }
        let Some(found) = Authority::parse(host) else { return false };
        let port = found.port.unwrap_or(self.default_port);
        let is_ours = |ours: &SocketAddr| {
            let listens_there = found.host == Host::Address(ours.ip()) && !ours.ip().is_unspecified();
            ours.port() == port && (found.is_loopback() || listens_there)
        };
        let is_allowed = |allowed: &Authority| {
            allowed.host == found.host && allowed.port.is_none_or(|allowed| allowed == port)
        };
        self.ours.iter().any(is_ours) || self.allowed.iter().any(is_allowed)
    }
}

/// Which web pages may talk to us.
#[derive(Debug)]
pub(super) struct Origins {
    allowed: Vec<Origin>,
}

#[derive(Debug, PartialEq, Eq)]
struct Origin {
    secure: bool,
    authority: Authority,
}

/// What may be done for an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Foreign,
    /// It may talk to us.
    Local,
    /// The operator named it, so its browser is told that it may.
    Allowed,
}

impl Origins {
    /// The error is the first that is not a valid origin.
    pub(super) fn new(allowed: &[String]) -> Result<Origins, String> {
        let read = |text: &String| Origin::parse(text).ok_or_else(|| text.clone());
        Ok(Origins { allowed: allowed.iter().map(read).collect::<Result<_, _>>()? })
    }

    pub(super) fn standing(&self, origin: &str) -> Standing {
        match Origin::parse(origin) {
            Some(origin) if self.allowed.contains(&origin) => Standing::Allowed,
            Some(origin) if origin.authority.is_loopback() => Standing::Local,
            _ => Standing::Foreign,
        }
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Origin> {
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let mut authority = Authority::parse(rest)?;
        authority.port = Some(authority.port.unwrap_or(if secure { 443 } else { 80 }));
        Some(Origin { secure, authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(ours: &str, allowed: &[&str], secure: bool) -> Hosts {
        let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
        Hosts::new(vec![ours.parse().unwrap()], &allowed, secure).unwrap()
    }

    #[test]
    fn hosts_of_ours_are_known_however_they_are_written() {
        let hosts = hosts("127.0.0.1:8080", &["mcp.example", "other.example:99"], false);
        for ours in [
            "127.0.0.1:8080",
            "127.9.9.9:8080",
            "localhost:8080",
            "LocalHost.:8080",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]:8080",
            "[::ffff:127.0.0.1]:8080",
            "mcp.example",
            "MCP.example.:7",
            "other.example:99",
        ] {
            assert!(hosts.has(ours), "{ours}");
        }
    }

    #[test]
    fn hosts_that_are_not_ours_are_refused_however_they_are_written() {
        let hosts = hosts("127.0.0.1:8080", &["mcp.example", "other.example:99"], false);
        for foreign in [
            "",
            "localhost",
            "127.0.0.1",
            "localhost:8081",
            "localhost:",
            "localhost:+8080",
            "localhost:8080:8080",
            "localhost..:8080",
            "localhost.evil.example:8080",
            "evil.localhost:8080",
            "evil.example:8080",
            "user@localhost:8080",
            "localhost:8080@evil.example",
            "localhost:8080/x",
            "localhost:8080#",
            " localhost:8080",
            "localhost%00:8080",
            "127.0.0.1.:8080",
            "0177.0.0.1:8080",
            "2130706433:8080",
            "127.1:8080",
            "0.0.0.0:8080",
            "::1:8080",
            "[::1]8080",
            "[::1%lo]:8080",
            "[::2]:8080",
            "[::1",
            "10.0.0.1:8080",
            "other.example",
            "other.example:98",
            "xmcp.example",
            "mcp.example.evil",
        ] {
            assert!(!hosts.has(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_host_without_a_port_has_the_usual_one() {
        assert!(hosts("127.0.0.1:80", &[], false).has("localhost"));
        assert!(!hosts("127.0.0.1:80", &[], true).has("localhost"));
        assert!(hosts("127.0.0.1:443", &[], true).has("[::1]"));
        assert!(hosts("127.0.0.1:9", &["a.example:443"], true).has("a.example"));
    }

    #[test]
    fn an_address_that_we_listen_at_is_ours_unless_it_is_any() {
        assert!(hosts("10.0.0.1:80", &[], false).has("10.0.0.1"));
        assert!(!hosts("10.0.0.1:80", &[], false).has("10.0.0.2"));
        assert!(!hosts("0.0.0.0:80", &[], false).has("0.0.0.0"));
    }

    #[test]
    fn origins_are_of_this_machine_or_named() {
        let origins = Origins::new(&["https://App.example".into(), "http://b.example:81".into()]).unwrap();
        for (origin, standing) in [
            ("http://localhost:3000", Standing::Local),
            ("HTTPS://LOCALHOST.", Standing::Local),
            ("http://[::1]:5", Standing::Local),
            ("http://127.0.0.1", Standing::Local),
            ("https://app.example", Standing::Allowed),
            ("https://APP.example.:443", Standing::Allowed),
            ("http://b.example:81", Standing::Allowed),
            ("http://b.example", Standing::Foreign),
            ("http://app.example", Standing::Foreign),
            ("https://app.example:444", Standing::Foreign),
            ("https://app.example.evil", Standing::Foreign),
            ("https://localhost@evil.example", Standing::Foreign),
            ("https://evil@localhost", Standing::Foreign),
            ("http://localhost/", Standing::Foreign),
            ("file://localhost", Standing::Foreign),
            ("null", Standing::Foreign),
            ("localhost", Standing::Foreign),
            ("", Standing::Foreign),
        ] {
            assert_eq!(origins.standing(origin), standing, "{origin}");
        }
    }

    #[test]
    fn what_is_no_host_or_origin_in_the_options_is_named() {
        let listed = ["ok.example".to_owned(), "https://x".to_owned()];
        assert_eq!(Hosts::new(vec![], &listed, false).unwrap_err(), "https://x");
        assert_eq!(Origins::new(&listed).unwrap_err(), "ok.example");
    }
}
