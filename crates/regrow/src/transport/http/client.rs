//! The HTTP client below all exchanges: its pool, its patience, and whom it trusts.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use regrow_core::Fault;
use url::{Position, Url};

use super::address::address;
use super::names::Names;
use super::plain_pool::{IDLE, MAX_IDLE, PlainPool};
use super::{Limits, SetupError, trust};

/// A pool of HTTP connections that any number of servers may share. Cheap to clone.
#[derive(Clone)]
pub struct HttpClient {
    /// For requests through TLS or a proxy. It has a pool of its own. Built when a server first needs it, since it reads the roots of the system.
    reqwest: Arc<OnceLock<reqwest::Client>>,
    builder: ClientBuilder,
    /// For all others: new connections,
    pub(super) tcp: HttpConnector<Names>,
    /// and those that can be used again.
    pub(super) pool: Arc<PlainPool>,
    /// How long a connection may take.
    pub(super) connect: Duration,
    /// Host and port of the proxy, where one was named.
    pub(super) proxy: Option<String>,
    /// The proxies that the environment names, where they are used.
    proxies: Option<Arc<Matcher>>,
}

/// What a client is to be like.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    connect: Duration,
    ca_file: Option<PathBuf>,
    certificate: Option<(PathBuf, PathBuf)>,
    proxy: Proxy,
}

/// Through what requests go.
#[derive(Clone)]
enum Proxy {
    Environment,
    None,
    /// This one. Its address may hold a password.
    At(String),
}

impl Proxy {
    fn address(&self) -> Option<String> {
        match self {
            Proxy::At(url) => Url::parse(url).ok().map(|url| address(&url)),
            Proxy::Environment | Proxy::None => None,
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proxy::Environment => "Environment",
            Proxy::None => "None",
            Proxy::At(_) => "At(_)",
        })
    }
}

const ALIVE_EVERY: Duration = Duration::from_secs(30);
const ALIVE_WITHIN: Duration = Duration::from_secs(10);
const ALIVE_RETRIES: u32 = 3;
/// Until a connection is given up whose other end does not confirm what was sent.
#[cfg(target_os = "linux")]
const UNCONFIRMED: Duration = Duration::from_secs(60);
pub(super) const OUR_NAME: &str = concat!("regrow/", env!("CARGO_PKG_VERSION"));

impl HttpClient {
    /// A client that trusts the roots of the system, and uses the proxy that the environment names.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            connect: Limits::default().connect,
            ca_file: None,
            certificate: None,
            proxy: Proxy::Environment,
        }
    }

    /// Whether a request goes to its server without TLS and without a proxy.
    pub(super) fn goes_straight(&self, url: &Url) -> bool {
        let proxied = |proxies: &Matcher| match Uri::try_from(&url[..Position::AfterPort]) {
            Ok(uri) => proxies.intercept(&uri).is_some(),
            Err(_) => true,
        };
        url.scheme() == "http" && self.proxy.is_none() && !self.proxies.as_deref().is_some_and(proxied)
    }

    /// The client for requests that do not go straight.
    pub(super) async fn reqwest(&self) -> Result<reqwest::Client, Fault> {
        if let Some(built) = self.reqwest.get() {
            return Ok(built.clone());
        }
        let client = self.clone();
        // The roots of the system are read from disk, so not on a thread that others wait for.
        let built = tokio::task::spawn_blocking(move || client.reqwest_now()).await;
        match built {
            Ok(Ok(built)) => Ok(built),
            Ok(Err(error)) => Err(Fault::Broken { reason: error.to_string() }),
            Err(error) => Err(Fault::Broken { reason: error.to_string() }),
        }
    }

    fn reqwest_now(&self) -> Result<reqwest::Client, SetupError> {
        let built = self.builder.reqwest()?;
        Ok(self.reqwest.get_or_init(|| built).clone())
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl ClientBuilder {
    /// How long a connection may take: name, TCP, TLS, proxy.
    pub fn connect(mut self, limit: Duration) -> ClientBuilder {
        self.connect = limit;
        self
    }

    /// A PEM file of certificates to trust besides those of the system.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> ClientBuilder {
        self.ca_file = Some(path.into());
        self
    }

    /// PEM files of a certificate chain and its key, to prove who we are.
    pub fn certificate(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> ClientBuilder {
        self.certificate = Some((chain.into(), key.into()));
        self
    }

    /// A proxy for all requests, in place of those in the environment.
    pub fn proxy(mut self, url: impl Into<String>) -> ClientBuilder {
        self.proxy = Proxy::At(url.into());
        self
    }

    /// No proxy, whatever the environment says.
    pub fn no_proxy(mut self) -> ClientBuilder {
        self.proxy = Proxy::None;
        self
    }

    /// Reads the files, and builds it. The roots of the system are read when a server first needs them.
    pub fn build(self) -> Result<HttpClient, SetupError> {
        let proxies = matches!(self.proxy, Proxy::Environment).then(|| Arc::new(Matcher::from_system()));
        let (tcp, pool, proxy) = (tcp(), Arc::default(), self.proxy.address());
        let may_be_wrong =
            self.ca_file.is_some() || self.certificate.is_some() || matches!(self.proxy, Proxy::At(_));
        let connect = self.connect;
        let client =
            HttpClient { reqwest: Arc::default(), builder: self, tcp, pool, connect, proxy, proxies };
        if may_be_wrong {
            client.reqwest_now()?; // What is wrong is reported here.
        }
        Ok(client)
    }

    fn reqwest(&self) -> Result<reqwest::Client, SetupError> {
        let identity = self.certificate.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
        let tls = trust::config(self.ca_file.as_deref(), identity)?;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(OUR_NAME)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.connect)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .tcp_nodelay(true)
            .tcp_keepalive(ALIVE_EVERY)
            .tcp_keepalive_interval(ALIVE_WITHIN)
            .tcp_keepalive_retries(ALIVE_RETRIES)
            .http2_keep_alive_interval(ALIVE_EVERY)
            .http2_keep_alive_timeout(ALIVE_WITHIN)
            .http2_keep_alive_while_idle(false);
        #[cfg(target_os = "linux")]
        {
            builder = builder.tcp_user_timeout(UNCONFIRMED);
        }
        builder = match &self.proxy {
            Proxy::Environment => builder,
            Proxy::None => builder.no_proxy(),
            // What reqwest says of it would quote the address, and that may hold a password.
            Proxy::At(url) => builder.proxy(
                reqwest::Proxy::all(url)
                    .map_err(|_| SetupError::Proxy { reason: "it is not the URL of a proxy".into() })?,
            ),
        };
        builder.build().map_err(|error| SetupError::Tls { reason: super::causes::root_cause(&error) })
    }
}

/// Connections like those of reqwest's pool.
fn tcp() -> HttpConnector<Names> {
    let mut tcp = HttpConnector::new_with_resolver(Names::new());
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(ALIVE_EVERY));
    tcp.set_keepalive_interval(Some(ALIVE_WITHIN));
    tcp.set_keepalive_retries(Some(ALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNCONFIRMED));
    tcp
}

/// The client for servers that have none of their own: one for all with the usual limit.
pub(super) fn of_limit(connect: Duration) -> Result<HttpClient, Fault> {
    static SHARED: OnceLock<HttpClient> = OnceLock::new();
    let build = || {
        let built = HttpClient::builder().connect(connect).build();
        built.map_err(|error| Fault::Broken { reason: error.to_string() })
    };
    if connect != Limits::default().connect {
        return build();
    }
    match SHARED.get() {
        Some(client) => Ok(client.clone()),
        None => build().map(|client| SHARED.get_or_init(|| client).clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport as _;
    use crate::transport::http::Http;

    #[tokio::test]
    async fn the_roots_of_the_system_are_read_only_for_a_server_behind_tls() {
        let client = HttpClient::builder().no_proxy().build().unwrap();
        let opened = async |url: &str| {
            let http = Http::new(url).unwrap().client(client.clone());
            drop(http.open(regrow_core::Epoch::default()).await.ok().unwrap());
            client.reqwest.get().is_some()
        };
        assert!(!opened("http://127.0.0.1:1/mcp").await);
        assert!(opened("https://127.0.0.1:1/mcp").await);
    }
}
