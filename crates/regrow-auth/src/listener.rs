//! Listens on this computer for the browser that returns from a sign-in.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

use crate::authorize::Callback;
use crate::records::Secret;

/// Longer requests are not of a browser that returns.
const MAX_HEAD: usize = 32 * 1024;
/// How long a browser may take to send its request.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to read the page.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// At most this many connections are open at once. Browsers open some in advance.
const MAX_CONNECTIONS: usize = 32;

/// Runs in each page, so that the tab keeps the code neither in its address bar nor in its history.
const FORGET_QUERY: &str = "history.replaceState(null,'',location.pathname)";

/// How the redirect names this computer. Some authorization servers accept only one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallbackHost {
    /// `127.0.0.1`
    #[default]
    Loopback,
    /// `localhost`
    Localhost,
}

/// Why Regrow cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on 127.0.0.1:{port} for the browser's return: {error}")]
pub struct ListenError {
    port: u16,
    error: io::Error,
}

/// Waits for the browser. It ends when it is dropped.
pub struct Listener {
    tcp: TcpListener,
    redirect_uri: String,
    path: String,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens for this path, on this port or on a free one.
    pub async fn bind(path: &str, host: CallbackHost, port: Option<u16>) -> Result<Listener, ListenError> {
        let failed = |error| ListenError { port: port.unwrap_or(0), error };
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await.map_err(failed)?;
        let port = tcp.local_addr().map_err(failed)?.port();
        let host = match host {
            CallbackHost::Loopback => "127.0.0.1",
            CallbackHost::Localhost => "localhost",
        };
        Ok(Listener { tcp, redirect_uri: format!("http://{host}:{port}{path}"), path: path.to_owned() })
    }

    /// Where the browser must return to.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits for the browser with this state. Everything else gets an error page.
    pub async fn callback(&self, state: &Secret) -> io::Result<Return> {
        let (sender, mut returns) = mpsc::channel(1);
        let mut connections = JoinSet::new();
        loop {
            let accepts = connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                Some(found) = returns.recv() => return Ok(found),
                _ = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.tcp.accept(), if accepts => {
                    let (stream, _) = accepted?;
                    let (path, state, sender) = (self.path.clone(), state.clone(), sender.clone());
                    connections.spawn(async move {
                        if let Some(found) = serve(stream, &path, &state).await {
                            // Nobody waits any more if another one was faster.
                            let _ = sender.send(found).await;
                        }
                    });
                }
            }
        }
    }
}

/// The path of the redirect for a client ID metadata document. A document lists its redirects, so they cannot differ by server as those of
/// [`path_of`] do; only the port may differ (RFC 8252, section 7.3).
///
/// What keeps sign-ins apart without it: each has a listener, a random `state` and a PKCE verifier of its own, so a response that belongs
/// to another one gets 400. That does not stop a hostile authorization server that sends the browser on to an honest one to get its code;
/// `iss` does. It is checked whenever it is sent, and must be sent where the metadata says so. That leaves honest ones that send no `iss`:
/// there a person must consent, and the operator must have set the document for the hostile one's server.
pub const DOCUMENT_PATH: &str = "/callback";

/// The path of the redirect otherwise: another one for each MCP server, so that no server's response is taken for another's.
pub fn path_of(server: &Url) -> String {
    let hash = digest(&SHA256, server.as_str().as_bytes());
    format!("/callback/{}", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..12]))
}

/// How a redirect that was registered before names this computer.
pub(crate) fn host_of(redirect_uri: &str) -> CallbackHost {
    match Url::parse(redirect_uri).is_ok_and(|url| url.host_str() == Some("localhost")) {
        true => CallbackHost::Localhost,
        false => CallbackHost::Loopback,
    }
}

/// The port in a redirect that was registered before.
pub(crate) fn port_of(redirect_uri: &str) -> Option<u16> {
    Url::parse(redirect_uri).ok()?.port()
}

/// What the person sees in the browser.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The heading.
    pub title: &'a str,
    /// What happened.
    pub text: &'a str,
    /// What to do now.
    pub next: &'a str,
}

/// A browser that has returned, and waits for its page.
#[derive(Debug)]
pub struct Return {
    /// What it brought.
    pub callback: Callback,
    stream: TcpStream,
}

impl Return {
    /// Shows this page.
    pub async fn show(mut self, page: &Page<'_>) {
        respond(&mut self.stream, "200 OK", page).await;
    }
}

/// Reads one request. Returns it if it is the one that is waited for, and answers it otherwise.
async fn serve(mut stream: TcpStream, path: &str, state: &Secret) -> Option<Return> {
    let head = tokio::time::timeout(READ_TIMEOUT, head(&mut stream)).await.ok()??;
    let mut line = head.lines().next()?.split(' ');
    let (method, target) = (line.next()?, line.next()?);
    let (found_path, query) = target.split_once('?').unwrap_or((target, ""));
    let callback = Callback::new(query);
    if method == "GET" && found_path == path && callback.has_state(state) {
        return Some(Return { callback, stream });
    }
    let page = Page {
        title: "Not the expected address",
        text: "This address belongs to no sign-in that is under way.",
        next: "Start the sign-in again.",
    };
    respond(&mut stream, "400 Bad Request", &page).await;
    None
}

/// The head of a request.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = vec![];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// Writes a page. A browser that does not read it misses it; the sign-in does not depend on it.
async fn respond(stream: &mut TcpStream, status: &str, page: &Page<'_>) {
    let (page, script) = (page.html(), STANDARD.encode(digest(&SHA256, FORGET_QUERY.as_bytes())));
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; \
         frame-ancestors 'none'\r\n\
         Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    let written = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(WRITE_TIMEOUT, written).await;
}

impl Page<'_> {
    fn html(&self) -> String {
        let [title, text, next] = [self.title, self.text, self.next].map(escape_html);
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title} - Regrow</title><style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;\
             max-width:36rem;margin:15vh auto;padding:0 1rem;overflow-wrap:anywhere}}</style>\
             <h1>{title}</h1><p>{text}</p><p>{next}</p><script>{FORGET_QUERY}</script></html>"
        )
    }
}

fn escape_html(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, letter| {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
        safe
    })
}
