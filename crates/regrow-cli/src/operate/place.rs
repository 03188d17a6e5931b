//! Which gateway is meant: the one at the address that was given, or the one that runs on this machine.

use regrow_protocol::text::escape;
use reqwest::Url;

use super::failure::Failure;
use crate::arguments::{self, DEFAULT_URL};
use crate::running::{self, OperatorToken, Running};

/// Where a gateway is, and its operator token if it is our own on this machine.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) url: Url,
    pub(super) token: Option<OperatorToken>,
}

pub(super) fn of(options: &arguments::GatewayArguments) -> Result<Place, Failure> {
    let running = running::find();
    match &options.url {
        Some(url) => Ok(at(address(url)?, &running)),
        None => among(&running),
    }
}

/// All that run on this machine for this user.
pub(super) fn all() -> Result<Vec<Place>, Failure> {
    let place = |Running { url, operator_token, .. }: Running| -> Result<Place, Failure> {
        Ok(Place { url: address(&url)?, token: Some(operator_token) })
    };
    running::find().into_iter().map(place).collect()
}

/// A token is sent only to the gateway that wrote it down. Another user may listen on the same port of another loopback address, and
/// `localhost` may mean that one; so over plain HTTP the address that the gateway wrote down replaces it.
fn at(url: Url, running: &[Running]) -> Place {
    for Running { url: own, operator_token, .. } in running {
        let Ok(own) = address(own) else { continue };
        let token = Some(operator_token.clone());
        if own.origin() == url.origin() {
            return Place { url, token };
        }
        let is_localhost = url.host_str() == Some("localhost") && is_loopback(&own);
        let is_same_port = own.port_or_known_default() == url.port_or_known_default();
        if is_localhost && is_same_port && own.scheme() == url.scheme() {
            let url = if url.scheme() == "http" { own } else { url };
            return Place { url, token };
        }
    }
    Place { url, token: None }
}

fn among(running: &[Running]) -> Result<Place, Failure> {
    match running {
        // It may run for another user, or in a container.
        [] => Ok(Place { url: address(DEFAULT_URL)?, token: None }),
        [only] => Ok(Place { url: address(&only.url)?, token: Some(only.operator_token.clone()) }),
        several => {
            let lines: String = several.iter().map(line).collect();
            let text = format!("several gateways run on this machine; choose one with --url:\n{lines}");
            Err(Failure::Usage(text.trim_end().to_owned()))
        }
    }
}

fn line(running: &Running) -> String {
    let Running { url, pid, config_files, .. } = running;
    let files =
        if config_files.is_empty() { String::new() } else { format!(", {}", config_files.join(", ")) };
    format!("  --url {}  (process {pid}{})\n", escape(url), escape(&files))
}

pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    })
}

/// As people write it: with the path that `regrow serve` printed, or without a scheme.
fn address(text: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("--url: {why}; it looks like {DEFAULT_URL}"));
    let whole = match text.contains("://") {
        true => text.to_owned(),
        // `:8732` is a port of this machine.
        false if text.starts_with(':') => format!("http://127.0.0.1{text}"),
        false => format!("http://{text}"),
    };
    let mut url = Url::parse(&whole).map_err(|error| wrong(&error.to_string()))?;
    match (url.scheme(), url.username(), url.password()) {
        ("http" | "https", "", None) => {}
        ("http" | "https", ..) => return Err(wrong("it must not contain a secret; use --admin-token-env")),
        _ => return Err(wrong("it is neither http nor https")),
    }
    url.set_query(None);
    url.set_fragment(None);
    let root = root(url.path()).to_owned();
    url.set_path(&root);
    Ok(url)
}

/// Without the end of a path that is one of a gateway's own: a proxy may have put something before it.
fn root(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let Some((before, last)) = path.rsplit_once('/') else { return path };
    match last {
        "mcp" | "sse" => match before.rsplit_once("/servers/") {
            Some((root, name)) if !name.contains('/') => root,
            _ => before,
        },
        "status" | "metrics" | "livez" | "readyz" => before,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(port: u16) -> Running {
        Running {
            url: format!("http://127.0.0.1:{port}"),
            pid: 7,
            operator_token: serde_json::from_value(port.to_string().into()).unwrap(),
            config_files: vec!["/x/.mcp.json".into()],
        }
    }

    #[test]
    fn an_address_is_taken_as_people_have_it() {
        let table = [
            ("http://127.0.0.1:8732", "http://127.0.0.1:8732/"),
            ("http://127.0.0.1:8732/", "http://127.0.0.1:8732/"),
            ("http://127.0.0.1:8732/mcp", "http://127.0.0.1:8732/"),
            ("http://127.0.0.1:8732/mcp/", "http://127.0.0.1:8732/"),
            ("https://h/servers/git/mcp?x=1#y", "https://h/"),
            ("https://h/team/mcp", "https://h/team"),
            ("https://h/team/servers/git/mcp", "https://h/team"),
            ("https://h/team/", "https://h/team"),
            ("http://h/status", "http://h/"),
            ("127.0.0.1:8732", "http://127.0.0.1:8732/"),
            ("localhost:8732/mcp", "http://localhost:8732/"),
            ("[::1]:8732", "http://[::1]:8732/"),
            (":9000", "http://127.0.0.1:9000/"),
            ("gateway", "http://gateway/"),
        ];
        for (text, expected) in table {
            assert_eq!(address(text).unwrap().as_str(), expected, "{text}");
        }
        for wrong in ["", "ftp://h", "http://u:p@h", "http://", "host:port"] {
            assert!(matches!(address(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn the_one_that_runs_is_meant_and_of_several_one_must_be_named() {
        let none = among(&[]).unwrap();
        assert_eq!((none.url.as_str(), none.token), ("http://127.0.0.1:8732/", None));
        let one = among(&[running(1)]).unwrap();
        assert_eq!((one.url.as_str(), one.token.unwrap().reveal()), ("http://127.0.0.1:1/", "1"));
        let several = among(&[running(1), running(2)]).unwrap_err().to_string();
        let expected = "several gateways run on this machine; choose one with --url:\n  \
                        --url http://127.0.0.1:1  (process 7, /x/.mcp.json)\n  \
                        --url http://127.0.0.1:2  (process 7, /x/.mcp.json)";
        assert_eq!(several, expected);
    }

    #[test]
    fn a_token_goes_only_to_the_gateway_that_it_belongs_to() {
        let of = |url: &str| {
            let place = at(address(url).unwrap(), &[running(1), running(2)]);
            (place.url.to_string(), place.token.map(|token| token.reveal().to_owned()))
        };
        assert_eq!(of("http://127.0.0.1:2/mcp"), ("http://127.0.0.1:2/".into(), Some("2".into())));
        // Somebody else may have the same port on ::1.
        assert_eq!(of("localhost:1"), ("http://127.0.0.1:1/".into(), Some("1".into())));
        let others = [
            "http://[::1]:1/",
            "http://127.0.0.2:1/",
            "http://localhost:3/",
            "https://localhost:1/",
            "http://h:1/",
        ];
        for other in others {
            assert_eq!(of(other), (other.into(), None));
        }
    }
}
