//! How a proxy under test is told where the server is, and where itself to listen.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::port;

/// Where a proxy listens for us.
pub(super) struct Near {
    pub(super) address: SocketAddr,
    pub(super) path: String,
}

impl Near {
    /// From a URL such as `http://127.0.0.1:{port}/mcp`, where the port is any that is free.
    pub(super) fn new(url: &str) -> Result<Near, String> {
        let free = port::bind_any().and_then(|listener| listener.local_addr());
        let free = free.map_err(|error| format!("there is no free port: {error}"))?.port();
        let url = url.replace("{port}", &free.to_string());
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("not an http:// URL: {url}"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut found = host.to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        let address = found.find(SocketAddr::is_ipv4).ok_or_else(|| format!("{host}: no address"))?;
        Ok(Near { address, path: format!("/{path}") })
    }
}

/// The proxy's command with the server in it: `{}` is replaced by the words of the server's command, `{command}` inside
/// a word by the same for a shell, `{url}` by its URL, `{port}` by the port to listen on. Without any of `{}`,
/// `{command}`, `{url}` the server is put at the end.
pub(super) fn fill(
    command: &[String],
    server: &[String],
    url: Option<&str>,
    port: Option<u16>,
) -> Vec<String> {
    let target: Vec<String> = url.map_or_else(|| server.to_vec(), |url| vec![url.to_owned()]);
    let quoted =
        server.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ");
    let placed =
        command.iter().any(|word| word == "{}" || word.contains("{command}") || word.contains("{url}"));
    let mut filled = vec![];
    for word in command {
        if word == "{}" {
            filled.extend(target.iter().cloned());
            continue;
        }
        let mut word = word.replace("{command}", &quoted).replace("{url}", url.unwrap_or_default());
        if let Some(port) = port {
            word = word.replace("{port}", &port.to_string());
        }
        filled.push(word);
    }
    if !placed {
        filled.extend(target);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_server_goes_where_the_command_says_or_to_its_end() {
        let server = words("env A=b server");
        assert_eq!(fill(&words("wrap --"), &server, None, None), words("wrap -- env A=b server"));
        assert_eq!(fill(&words("p {} -x"), &server, None, None), words("p env A=b server -x"));
        assert_eq!(
            fill(&words("p --port {port} {url}"), &server, Some("http://h/"), Some(7)),
            words("p --port 7 http://h/")
        );
        assert_eq!(fill(&words("wrap"), &server, Some("http://h/"), None), words("wrap http://h/"));
        assert_eq!(
            fill(&words("p --stdio={command}"), &words("it's"), None, None),
            [r"p", r"--stdio='it'\''s'"]
        );
    }

    #[test]
    fn a_url_gets_a_free_port() {
        let near = Near::new("http://127.0.0.1:{port}/mcp/x").unwrap();
        assert_ne!(near.address.port(), 0);
        assert_eq!(near.path, "/mcp/x");
        assert!(Near::new("https://host/").is_err());
    }
}
