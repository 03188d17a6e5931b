//! Which gateway is meant: the one at the address that was given, or the one that runs on this machine.

use regrow_protocol::text::escape;
use reqwest::Url;

use super::failure::Failure;
use crate::arguments::{self, DEFAULT_URL};
use crate::running::{self, Running};

/// Where a gateway is, and which variable holds its token.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) url: Url,
    pub(super) token_env: Option<String>,
}

pub(super) fn of(options: &arguments::Gateway) -> Result<Place, Failure> {
    match &options.url {
        Some(url) => Ok(Place { url: address(url)?, token_env: options.token_env.clone() }),
        None => {
            among(&running::find(), options.token_env.as_deref(), |name| std::env::var_os(name).is_some())
        }
    }
}

fn among(
    running: &[Running],
    token_env: Option<&str>,
    is_set: impl Fn(&str) -> bool,
) -> Result<Place, Failure> {
    match running {
        // It may run for another user, or in a container.
        [] => Ok(Place { url: address(DEFAULT_URL)?, token_env: token_env.map(str::to_owned) }),
        [only] => {
            let its_own = || only.token_envs.iter().find(|name| is_set(name)).map(String::as_str);
            Ok(Place { url: address(&only.url)?, token_env: token_env.or_else(its_own).map(str::to_owned) })
        }
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
        ("http" | "https", ..) => return Err(wrong("it must not contain a secret; use --token-env")),
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

    fn running(port: u16, token_envs: &[&str]) -> Running {
        Running {
            url: format!("http://127.0.0.1:{port}"),
            pid: 7,
            token_envs: token_envs.iter().map(|name| (*name).to_owned()).collect(),
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
        let set = |name: &str| name == "B";
        let none = among(&[], None, set).unwrap();
        assert_eq!((none.url.as_str(), none.token_env), ("http://127.0.0.1:8732/", None));
        let one = among(&[running(1, &["A", "B"])], None, set).unwrap();
        assert_eq!((one.url.as_str(), one.token_env.as_deref()), ("http://127.0.0.1:1/", Some("B")));
        let named = among(&[running(1, &["B"])], Some("C"), set).unwrap();
        assert_eq!(named.token_env.as_deref(), Some("C"));
        let several = among(&[running(1, &[]), running(2, &[])], None, set).unwrap_err().to_string();
        let expected = "several gateways run on this machine; choose one with --url:\n  \
                        --url http://127.0.0.1:1  (process 7, /x/.mcp.json)\n  \
                        --url http://127.0.0.1:2  (process 7, /x/.mcp.json)";
        assert_eq!(several, expected);
    }
}
