//! What the operator decides about the HTTP face, and the limits for clients.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regrow::{ErrorStyle, MAX_LINE};

use crate::audit::Audit;
use crate::config::Secret;
use crate::shares::Shares;

/// How the face is set up.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// The bearer tokens of clients: one with the token at index n is [`Principal::Client(n)`](crate::admit::Principal). Without any,
    /// `allow_users` says who is served.
    pub tokens: Vec<Secret>,
    /// The tokens of the operator. Commands need one of them.
    pub operator_tokens: Vec<Secret>,
    /// Which users of this machine are served without a token.
    pub allow_users: AllowUsers,
    /// Whether it may listen beyond loopback without a token.
    pub insecure: bool,
    /// Names under which it is reached besides loopback: `mcp.example`, of any port, or `mcp.example:8443`.
    pub hosts: Vec<String>,
    /// Web pages that may talk to it besides those of this machine: `https://app.example`.
    pub origins: Vec<String>,
    /// Whether the older HTTP+SSE is spoken, too.
    pub sse: bool,
    /// Certificate and key, where it is reached by https.
    pub tls: Option<Tls>,
    /// The audit log.
    pub audit: Audit,
    /// How failed tool calls are told.
    pub style: ErrorStyle,
    /// The limits for clients.
    pub limits: ClientLimits,
    /// The byte budget, and how it and the limits are divided between principals.
    pub shares: Arc<Shares>,
}

/// Users of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowUsers {
    /// The user who runs the gateway, and root.
    #[default]
    Own,
    /// All of them.
    Any,
}

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// The limits for clients. What is over them is refused with an error.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Connections at a time, of all principals.
    pub connections: usize,
    /// Legacy sessions at a time, of all principals.
    pub sessions: usize,
    /// Unanswered calls of all principals.
    pub calls: usize,
    /// Unanswered calls of one session; in the modern era of one principal at one endpoint.
    pub calls_per_session: usize,
    /// One body, in bytes.
    pub body: usize,
    /// Headers of one request, in bytes, at least 8192.
    pub header_bytes: usize,
    /// From the last request on a connection, or its start, to the end of the next one's headers.
    pub header_timeout: Duration,
    /// From the start of a connection to the first request on it that is let in.
    pub unauthenticated_timeout: Duration,
    /// For one body to arrive.
    pub body_timeout: Duration,
    /// For a TLS handshake.
    pub handshake_timeout: Duration,
    /// How long a response waits for its first message before it becomes a stream.
    pub hold: Duration,
    /// The same of a modern one, whose errors have a status of their own: a stream cannot have it any more.
    pub modern_hold: Duration,
    /// Between keep-alives on a silent stream.
    pub beat: Duration,
    /// After how long a legacy session that nobody uses is forgotten.
    pub session_idle: Duration,
    /// The same of what serves modern requests.
    pub modern_idle: Duration,
    /// Messages that a stream of a session keeps for a client that comes back for them,
    pub kept_messages: usize,
    /// their bytes, and those of all answers of a session that nobody has fetched,
    pub kept_bytes: usize,
    /// how many such answers,
    pub kept_streams: usize,
    /// and for how long.
    pub kept_time: Duration,
    /// While more than this waits for a client to read it, its servers are not read.
    pub unread: usize,
    /// For answers to finish at shutdown.
    pub drain: Duration,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            connections: 4096,
            sessions: 1024,
            calls: 8192,
            calls_per_session: 1024,
            body: MAX_LINE,
            header_bytes: 64 << 10,
            header_timeout: Duration::from_secs(30),
            unauthenticated_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            hold: Duration::from_millis(100),
            modern_hold: Duration::from_secs(10),
            beat: Duration::from_secs(20),
            session_idle: Duration::from_secs(30 * 60),
            modern_idle: Duration::from_secs(5 * 60),
            kept_messages: 256,
            kept_bytes: 4 << 20,
            kept_streams: 32,
            kept_time: Duration::from_secs(5 * 60),
            unread: 8 << 20,
            drain: Duration::from_secs(30),
        }
    }
}
