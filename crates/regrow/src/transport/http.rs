//! Servers that are reached over HTTP: each message is a POST, and its answer JSON or a stream of events.
//!
//! Both eras are spoken, and the older HTTP+SSE. Nothing is retried below the lifecycle, and what went wrong is told as a fault
//! where it is learnt.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use regrow_core::{Epoch, Fault};
use url::Url;

use self::access::Access;
use self::link::HttpLink;
use super::{BoxFuture, Link, Transport};
use crate::mask::Mask;

mod access;
mod address;
mod answer;
mod bookmark;
mod broken;
mod causes;
mod client;
mod credential;
mod departure;
mod diagnose;
mod ending;
mod exchange;
pub(crate) mod fuzzing;
mod header_file;
mod http_exchange;
mod link;
mod listen;
mod lookup;
mod mirror;
mod names;
mod older;
mod parameters;
mod plain_connection;
mod plain_pool;
mod plain_request;
mod refusal;
mod request;
mod response;
mod said;
mod stream;
mod streamed;
mod trust;
mod userinfo;

#[doc(hidden)]
pub use self::{address::Masked, causes::find as find_cause, causes::root_cause, refusal::retry_after};
pub use client::{ClientBuilder, HttpClient};
pub use credential::{BearerEnv, Credential, Headers, Rejected};
pub use header_file::HeaderFile;
pub use parameters::MirroredArguments;

/// TLS as [`HttpClient`] speaks it, perhaps with more certificates to trust, for other clients of the same program.
#[doc(hidden)]
pub fn client_tls(ca_file: Option<&std::path::Path>) -> Result<rustls::ClientConfig, SetupError> {
    trust::config(ca_file, None)
}

/// How to reach a server over HTTP. To be opened inside a tokio runtime that has I/O and time enabled.
///
/// ```no_run
/// # fn main() -> Result<(), regrow::transport::http::SetupError> {
/// use regrow::transport::http::{BearerEnv, Http, HttpClient};
/// use std::sync::Arc;
///
/// let server = Http::new("https://mcp.example/mcp")?
///     .credential(Arc::new(BearerEnv::new("MCP_TOKEN")?))
///     .client(HttpClient::builder().ca_file("/etc/our-authority.pem").build()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Http {
    /// Without userinfo.
    url: Url,
    headers: HeaderMap,
    access: Arc<Access>,
    limits: Limits,
    client: Option<HttpClient>,
    /// Whether the server was found to speak the first version of the protocol.
    older: Arc<AtomicBool>,
}

/// Limits for a server. A call's own deadline takes precedence over all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// From nothing to a connection: name, TCP, TLS, proxy. A client that was [given](Http::client) has its own.
    pub connect: Duration,
    /// From a request to the first of its answer.
    pub header: Option<Duration>,
    /// Between two pieces of an answer.
    pub idle: Option<Duration>,
    /// One message, in bytes.
    pub max_message: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connect: Duration::from_secs(10), header: None, idle: None, max_message: super::MAX_LINE }
    }
}

/// What people write instead of `http` or `https`.
const HARMLESS_SCHEMES: [&str; 9] = ["file", "ftp", "localhost", "mcp", "sse", "stdio", "unix", "ws", "wss"];

/// Why a server cannot be reached as it was described. It quotes no value that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Not a URL at all.
    #[error("the address of the server is not a URL: {reason}")]
    NotAUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// A URL, but not one of HTTP.
    #[error("the address of the server must begin with http:// or https://, not {scheme}:")]
    Scheme {
        /// What it begins with.
        scheme: String,
    },
    /// Not the name or the value of a header.
    #[error("{name:?} cannot be sent as a header: {reason}")]
    Header {
        /// The name as it was written.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A variable of the environment that is not there.
    #[error("the environment variable {name:?} is not set")]
    NoVariable {
        /// Its name.
        name: String,
    },
    /// A file that cannot be read, or does not hold what it should.
    #[error("the file {path:?} cannot be used: {reason}")]
    File {
        /// As the operator wrote it.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The proxy's address.
    #[error("the address of the proxy cannot be used: {reason}")]
    Proxy {
        /// What is wrong with it.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("TLS cannot be set up: {reason}")]
    Tls {
        /// What is wrong.
        reason: String,
    },
}

impl Http {
    /// The server at this URL. A user and a password in it are sent as Basic authorization.
    pub fn new(url: &str) -> Result<Http, SetupError> {
        let url = Url::parse(url).map_err(|error| SetupError::NotAUrl { reason: error.to_string() })?;
        Http::at(url)
    }

    /// The same, of a URL that was already read.
    pub fn at(mut url: Url) -> Result<Http, SetupError> {
        if !matches!(url.scheme(), "http" | "https") {
            // Any other word before a colon may be part of a secret in the wrong place.
            let known = HARMLESS_SCHEMES.iter().find(|known| **known == url.scheme());
            let scheme = known.copied().unwrap_or("another word").to_owned();
            return Err(SetupError::Scheme { scheme });
        }
        let mut headers = HeaderMap::new();
        if let Some(basic) = userinfo::take(&mut url) {
            headers.insert(AUTHORIZATION, basic);
        }
        url.set_fragment(None);
        Ok(Http {
            url,
            headers,
            access: Arc::new(Access::none()),
            limits: Limits::default(),
            client: None,
            older: Arc::default(),
        })
    }

    /// Headers for every request. Their values are held to be secret.
    pub fn headers(mut self, headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> Http {
        for (name, mut value) in headers {
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        self
    }

    /// What proves to the server who we are. Its headers stand above those of [`Http::headers`].
    pub fn credential(mut self, credential: Arc<dyn Credential>) -> Http {
        self.access = Arc::new(Access::new(credential));
        self
    }

    /// Other limits.
    pub fn limits(mut self, limits: Limits) -> Http {
        self.limits = limits;
        self
    }

    /// A client of its own kind, to be shared by several. Without it all share one, unless their connect limit is another.
    pub fn client(mut self, client: HttpClient) -> Http {
        self.client = Some(client);
        self
    }

    /// The server's host, to name it by.
    pub fn host(&self) -> String {
        self.url.host_str().unwrap_or_default().to_owned()
    }

    /// The server's address without what may be secret in it, but for its path.
    pub fn address(&self) -> String {
        Masked(&self.url).to_string()
    }

    /// Masks the values that must not be seen, also those that the credential gets later.
    pub fn mask(&self) -> Mask {
        let mask = Mask::new(self.secrets());
        self.access.mask_later(mask.clone());
        mask
    }

    /// The values that must not be seen now.
    pub fn secrets(&self) -> Vec<String> {
        let texts = self.headers.values().filter_map(|value| value.to_str().ok());
        let mut secrets: Vec<String> = texts.flat_map(credential::spoken).collect();
        secrets.extend(self.url.query_pairs().map(|(_, value)| value.into_owned()));
        secrets.extend(self.url.query().map(str::to_owned));
        secrets.extend(self.access.secrets());
        secrets
    }
}

impl Transport for Http {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let http = self.clone();
        Box::pin(async move {
            let client = match &http.client {
                Some(client) => client.clone(),
                None => client::of_limit(http.limits.connect)?,
            };
            if !client.goes_straight(&http.url) {
                client.reqwest().await?; // Here it is not part of a request's time.
            }
            let link = HttpLink::new(http, client);
            let process = Arc::new(ending::Ending::new(link.clone()));
            Ok(Link::Exchanges { exchanges: link, process })
        })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn mended(&self) -> BoxFuture<()> {
        self.access.changed()
    }
}

/// Without header values, userinfo and query, which may be secrets.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("url", &format_args!("{}", Masked(&self.url)))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
