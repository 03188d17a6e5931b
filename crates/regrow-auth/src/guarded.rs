//! The one HTTP client of all OAuth traffic. Metadata comes from strangers and names more addresses, so each is checked before
//! Regrow connects: https, no private networks, no redirects to others.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use hyper_util::client::proxy::matcher::Matcher;
use regrow::transport::http::{Masked, SetupError, client_tls, find_cause, retry_after, root_cause};
use regrow_protocol::text::escape;
use reqwest::{Client, ClientBuilder, RequestBuilder};
use url::form_urlencoded::{Serializer, byte_serialize};
use url::{Host, Position, Url};

use self::rules::{GuardedNames, Lookup, NameError, Rules, SystemLookup, canonical};
use crate::records::{AuthMethod, Registration};

mod rules;

/// Bodies may be this long.
pub const MAX_BODY: usize = 1024 * 1024;
/// How many redirects a GET follows, all within its origin.
const MAX_REDIRECTS: usize = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For a request with its whole response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP client of one MCP server's sign-in. Cheap to clone.
#[derive(Clone)]
pub struct Guarded {
    rules: Arc<Rules>,
    /// Without a proxy: looks names up through the rules.
    direct: Client,
    /// What clients for a proxy are built with.
    tls: rustls::ClientConfig,
    request_timeout: Duration,
    proxies: Arc<Proxies>,
}

/// Which proxy requests go through. A request over plain http stays on this computer and uses none.
#[derive(Clone)]
pub enum Proxy {
    /// The one that the environment names, if any.
    Environment,
    /// None.
    Off,
    /// This one. Its address may contain a password.
    At(String),
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proxy::Environment => "Environment",
            Proxy::Off => "Off",
            Proxy::At(_) => "At(..)",
        })
    }
}

/// What the operator decides about OAuth traffic.
#[derive(Clone, Debug)]
pub struct Network {
    /// A PEM file of certificates to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// The proxy.
    pub proxy: Proxy,
    /// Hosts that may be in a private network.
    pub private_hosts: Vec<String>,
    /// How long a request may take with its whole response.
    pub request_timeout: Duration,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            ca_file: None,
            proxy: Proxy::Environment,
            private_hosts: vec![],
            request_timeout: REQUEST_TIMEOUT,
        }
    }
}

/// Why there is no response. No text in it contains a query, which may hold a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The guard refuses the address. No connection was made.
    #[error("{url} is refused: {reason}")]
    Refused {
        /// Scheme, host and path.
        url: String,
        /// Which rule.
        reason: String,
    },
    /// The request failed on its way.
    #[error("{host}: {reason}")]
    Network {
        /// Whom Regrow tried to reach.
        host: String,
        /// What went wrong.
        reason: String,
    },
    /// The response is over [`MAX_BODY`].
    #[error("{host}: the response is longer than 1 MiB")]
    TooLarge {
        /// Whose response it is.
        host: String,
    },
}

/// A response.
#[derive(Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// Each `WWW-Authenticate`, in its order.
    pub challenges: Vec<HeaderValue>,
    /// The body. It may contain tokens.
    pub body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Guarded {
    /// The client for the sign-in at this MCP server.
    pub fn new(server: &Url, network: &Network) -> Result<Guarded, SetupError> {
        Guarded::with_lookup(server, network, Arc::new(SystemLookup))
    }

    fn with_lookup(server: &Url, network: &Network, lookup: Arc<dyn Lookup>) -> Result<Guarded, SetupError> {
        let tls = client_tls(network.ca_file.as_deref())?;
        let private_hosts = network.private_hosts.iter().map(|host| canonical(host)).collect();
        let rules = Arc::new(Rules { server: server.clone(), private_hosts, lookup });
        let direct = builder(&tls, network.request_timeout);
        let direct = direct.no_proxy().dns_resolver(GuardedNames(rules.clone()));
        let proxies = match &network.proxy {
            Proxy::Off => Proxies::None,
            Proxy::Environment => Proxies::Environment(Matcher::from_system()),
            Proxy::At(url) => Proxies::One(proxy(url)?),
        };
        let direct = direct.build().map_err(setup)?;
        let request_timeout = network.request_timeout;
        Ok(Guarded { rules, direct, tls, request_timeout, proxies: Arc::new(proxies) })
    }

    /// Checks an address without connecting: scheme, userinfo, and a literal host.
    pub fn check(&self, url: &Url) -> Result<(), HttpError> {
        self.rules.check(url).map_err(|reason| refused(url, reason))
    }

    /// Gets a document. Follows redirects within its origin.
    pub async fn get(&self, url: &Url) -> Result<Answer, HttpError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let client = self.client(&url).await?;
            let request = client.get(url.clone()).header(ACCEPT, "application/json");
            match exchange(&url, request).await? {
                Response::Answer(answer) => return Ok(answer),
                Response::Redirect(target) => {
                    let next = target.and_then(|target| url.join(&target).ok());
                    match next {
                        Some(next) if next.origin() == url.origin() => url = next,
                        Some(next) => {
                            return Err(refused(&url, format!("it redirects to {}", shown(&next))));
                        }
                        None => return Err(refused(&url, "it redirects to an address that is not valid")),
                    }
                }
            }
        }
        Err(refused(&url, "it redirects too often"))
    }

    /// Posts JSON. Follows no redirect.
    pub async fn post_json(&self, url: &Url, body: &serde_json::Value) -> Result<Answer, HttpError> {
        let request = self.client(url).await?.post(url.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        self.post(url, request).await
    }

    /// Posts a form as a client: adds its id and, the way it registered, its secret. Follows no redirect.
    pub async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        registration: &Registration,
    ) -> Result<Answer, HttpError> {
        let (body, authorization) = authenticated(form, registration);
        let mut request = self.client(url).await?.post(url.clone());
        if let Some(value) = authorization {
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| refused(url, "the client's id or secret does not fit into a header"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        self.post(url, request).await
    }

    async fn post(&self, url: &Url, request: RequestBuilder) -> Result<Answer, HttpError> {
        match exchange(url, request.header(ACCEPT, "application/json")).await? {
            Response::Answer(answer) => Ok(answer),
            Response::Redirect(_) => Err(refused(url, "it redirects a POST")),
        }
    }

    /// Checks an address, and picks the client for it.
    async fn client(&self, url: &Url) -> Result<Client, HttpError> {
        self.check(url)?;
        let proxy = match (url.scheme(), &*self.proxies) {
            ("https", Proxies::One(proxy)) => Some(proxy.clone()),
            ("https", Proxies::Environment(matcher)) => environment_proxy(matcher, url)?,
            _ => None,
        };
        let Some(proxy) = proxy else { return Ok(self.direct.clone()) };
        // The proxy looks the name up itself. What this computer can find out is checked all the same; behind many proxies
        // that is nothing, because only the proxy has a resolver for the internet.
        if let Some(Host::Domain(name)) = url.host() {
            match self.rules.addresses(name).await {
                Err(NameError::Refused(reason)) => return Err(refused(url, reason)),
                Err(NameError::NotFound(_)) | Ok(_) => {}
            }
        }
        let built = builder(&self.tls, self.request_timeout).no_proxy().proxy(proxy).build();
        built.map_err(|_| network(url, "the HTTP client for the proxy could not be set up"))
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("server", &shown(&self.rules.server)).finish_non_exhaustive()
    }
}

/// The body of a form with the client's id, and its secret there or in the value of an `Authorization` header.
fn authenticated(form: &[(&str, &str)], registration: &Registration) -> (String, Option<String>) {
    let mut body = Serializer::new(String::new());
    let id = registration.client_id.as_str();
    // Beside a header as well: servers of the official Python SDK look for it in the form.
    body.extend_pairs(form).append_pair("client_id", id);
    let authorization = match (registration.auth_method, &registration.client_secret) {
        (AuthMethod::Basic, Some(secret)) => {
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
            Some(format!("Basic {}", STANDARD.encode(pair)))
        }
        (AuthMethod::Post, Some(secret)) => {
            body.append_pair("client_secret", secret.expose());
            None
        }
        (AuthMethod::None, _) | (_, None) => None,
    };
    (body.finish(), authorization)
}

enum Proxies {
    None,
    Environment(Matcher),
    One(reqwest::Proxy),
}

fn proxy(url: &str) -> Result<reqwest::Proxy, SetupError> {
    // What reqwest says of it would quote the address.
    let wrong = |_| SetupError::Proxy { reason: "it is not the URL of a proxy".into() };
    reqwest::Proxy::all(url).map_err(wrong)
}

/// The proxy that the environment names for this address.
fn environment_proxy(matcher: &Matcher, url: &Url) -> Result<Option<reqwest::Proxy>, HttpError> {
    let wrong = || network(url, "the proxy that the environment names is not valid");
    let target = http::Uri::try_from(&url[..Position::AfterPort]).map_err(|_| wrong())?;
    let Some(found) = matcher.intercept(&target) else { return Ok(None) };
    let proxy = reqwest::Proxy::all(found.uri().to_string()).map_err(|_| wrong())?;
    Ok(Some(match found.basic_auth() {
        Some(auth) => proxy.custom_http_auth(auth.clone()),
        None => proxy,
    }))
}

fn builder(tls: &rustls::ClientConfig, request_timeout: Duration) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .user_agent(concat!("regrow/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(request_timeout)
}

fn setup(error: reqwest::Error) -> SetupError {
    SetupError::Tls { reason: root_cause(&error) }
}

enum Response {
    Answer(Answer),
    Redirect(Option<String>),
}

/// Sends a request, and reads its response.
async fn exchange(url: &Url, request: RequestBuilder) -> Result<Response, HttpError> {
    let mut response = request.send().await.map_err(|error| failed(url, &error))?;
    let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if response.status().is_redirection() {
        return Ok(Response::Redirect(header(LOCATION).map(str::to_owned)));
    }
    let asked = response.headers().get(RETRY_AFTER);
    let retry_after = asked.and_then(|value| retry_after(value, SystemTime::now()));
    let (status, challenges) = (response.status().as_u16(), challenges(response.headers()));
    let mut body = vec![];
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, &error))? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(HttpError::TooLarge { host: host(url) });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Response::Answer(Answer { status, retry_after, challenges, body }))
}

fn challenges(headers: &HeaderMap) -> Vec<HeaderValue> {
    headers.get_all(WWW_AUTHENTICATE).iter().cloned().collect()
}

/// What became of a request without a response. A refusal of the resolver is told as one.
fn failed(url: &Url, error: &reqwest::Error) -> HttpError {
    if error.is_timeout() {
        return network(url, "timed out");
    }
    match find_cause(error) {
        Some(NameError::Refused(reason)) => refused(url, reason.clone()),
        _ => network(url, root_cause(error)),
    }
}

fn refused(url: &Url, reason: impl Into<String>) -> HttpError {
    HttpError::Refused { url: shown(url), reason: reason.into() }
}

fn network(url: &Url, reason: impl Into<String>) -> HttpError {
    HttpError::Network { host: host(url), reason: reason.into() }
}

fn host(url: &Url) -> String {
    escape(url.host_str().unwrap_or_default())
}

/// What may be shown of an address: scheme, host, port and path.
pub(crate) fn shown(url: &Url) -> String {
    Masked(url).to_string()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::IpAddr;
    use std::sync::Mutex;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::rules::BoxFuture;
    use super::*;

    /// Answers lookups in this order, then finds nothing.
    struct Script {
        answers: Mutex<Vec<Vec<IpAddr>>>,
        asked: Mutex<Vec<String>>,
    }

    impl Lookup for Script {
        fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            self.asked.lock().unwrap().push(name.to_owned());
            let answer = self.answers.lock().unwrap().pop();
            Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
        }
    }

    fn guard(server: &str, network: &Network, answers: &[&[&str]]) -> (Guarded, Arc<Script>) {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        let answers = answers.iter().rev().map(parse).collect();
        let script = Arc::new(Script { answers: Mutex::new(answers), asked: Mutex::default() });
        (Guarded::with_lookup(&Url::parse(server).unwrap(), network, script.clone()).unwrap(), script)
    }

    fn off() -> Network {
        Network { proxy: Proxy::Off, ..Network::default() }
    }

    #[tokio::test]
    async fn a_name_that_leads_into_a_private_network_is_refused_without_a_connection() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let url = Url::parse(&format!("https://auth.example:{port}/")).unwrap();
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0"] {
            let (http, _) = guard("https://mcp.example/", &off(), &[&[address]]);
            let error = http.get(&url).await.unwrap_err();
            assert!(matches!(error, HttpError::Refused { .. }), "{address}: {error:?}");
        }
        let accepted = tokio::time::timeout(Duration::ZERO, tcp.accept()).await;
        assert!(accepted.is_err(), "somebody connected");
    }

    #[tokio::test]
    async fn the_host_of_the_server_may_be_anywhere() {
        let (http, _) = guard("https://mcp.example/mcp", &off(), &[&["10.0.0.1"], &["10.0.0.1"]]);
        assert!(http.rules.addresses("MCP.example.").await.is_ok());
        assert!(http.rules.addresses("auth.example").await.is_err());
    }

    #[tokio::test]
    async fn a_name_with_private_and_public_addresses_has_only_its_public_ones() {
        let (http, _) = guard("https://mcp.example/mcp", &off(), &[&["10.0.0.1", "1.1.1.1"]]);
        let found = http.rules.addresses("auth.example").await.unwrap();
        assert_eq!(found, ["1.1.1.1".parse::<IpAddr>().unwrap()]);
    }

    #[tokio::test]
    async fn regrow_connects_to_the_address_that_it_checked() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let network = Network { private_hosts: vec!["Auth.example.".into()], ..off() };
        // The name changes after the first lookup.
        let (http, script) = guard("https://mcp.example/", &network, &[&["127.0.0.1"], &["192.0.2.1"]]);
        let url = Url::parse(&format!("https://auth.example:{port}/")).unwrap();
        let served = async {
            let (mut stream, _) = tcp.accept().await.unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).await.unwrap();
            first[0]
        };
        let (result, first) = tokio::join!(http.get(&url), served);
        assert!(matches!(result, Err(HttpError::Network { .. })), "{result:?}");
        assert_eq!(first, 22, "a TLS handshake");
        assert_eq!(*script.asked.lock().unwrap(), ["auth.example"]);
    }

    #[tokio::test]
    async fn localhost_is_not_looked_up() {
        let (http, script) = guard("http://localhost:1/", &off(), &[&["8.8.8.8"]]);
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://auth.localhost:{port}/")).unwrap();
        let (result, accepted) = tokio::join!(http.get(&url), async { tcp.accept().await.map(drop) });
        assert!(result.is_err() && accepted.is_ok());
        assert_eq!(*script.asked.lock().unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_proxy_gets_https_only_and_no_name_that_is_known_to_be_private() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let proxy = Proxy::At(format!("http://127.0.0.1:{port}"));
        let network = Network { proxy, ..Network::default() };
        let (http, _) = guard("https://mcp.example/", &network, &[&["10.0.0.1"]]);
        let url = Url::parse("https://auth.example/token").unwrap();
        assert!(matches!(http.get(&url).await, Err(HttpError::Refused { .. })));
        // A name that only the proxy can look up goes there.
        let served = async {
            let (mut stream, _) = tcp.accept().await.unwrap();
            let mut first = [0; 24];
            stream.read_exact(&mut first).await.unwrap();
            String::from_utf8_lossy(&first).into_owned()
        };
        let (result, first) = tokio::join!(http.get(&url), served);
        assert!(matches!(result, Err(HttpError::Network { .. })), "{result:?}");
        assert_eq!(first, "CONNECT auth.example:443");
        assert!(!format!("{network:?}").contains("127.0.0.1"), "a proxy's address may hold a password");
    }
}
