//! How a client gets in: what the faces need of the gateway, and nothing more.

use std::fmt;
use std::sync::Arc;

use regrow::transport::http::MirroredArguments;
use regrow::{Inbox, Upstream};

/// Who makes a request. It is decided once for each request, from its token and the user at the other end of its connection, and
/// passed on as this plain value. Clients of different principals never share a client session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Principal {
    /// The user who runs the gateway, or root: over stdio, or over loopback where no client token is configured.
    #[default]
    LocalUser,
    /// A client that the operator lets in without a token (`--insecure`, `--allow-users any`).
    Anonymous,
    /// A client with the client token at this index.
    Client(u32),
    /// The operator: sees everything and gives commands, and is no MCP client.
    Operator,
}

impl Principal {
    /// Whether it may see the status, the metrics and the logs.
    pub fn may_read(self) -> bool {
        matches!(self, Principal::LocalUser | Principal::Operator)
    }

    /// Whether it may change something.
    pub fn may_command(self) -> bool {
        self == Principal::Operator
    }

    /// Whether its clients share the session that keeps a server's catalog, so that the server need not run once more for them. All clients
    /// without a token do, or those with the first one: a gateway has either kind.
    pub(crate) fn shares_catalog_session(self) -> bool {
        !matches!(self, Principal::Client(1..))
    }
}

/// Which servers a client talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerScope {
    /// All of them, at `/mcp` and over stdio.
    All,
    /// The one of this name, at `/servers/NAME/mcp`.
    One(String),
}

/// A client that was admitted. What it writes goes in here; dropping it is leaving: its calls are cancelled.
pub trait ClientHandle: Upstream + Send + Sync + 'static {}

impl<G: Upstream + Send + Sync + 'static> ClientHandle for G {}

/// Lets clients in.
pub trait Admit: Send + Sync + 'static {
    /// A client comes. Everything that servers tell it on their own goes into its inbox, with the call it belongs to where that is
    /// known; [`regrow::Incoming::epoch`] is unique among all servers.
    fn admit(
        &self,
        scope: &ServerScope,
        principal: Principal,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<dyn ClientHandle>, AdmitError>;

    /// The arguments of this tool, by the name that clients of this scope call it, that a request must also carry in headers. None if
    /// the tool is not known.
    fn mirrored(&self, scope: &ServerScope, tool: &str) -> Option<MirroredArguments>;
}

/// Why a client was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitError {
    /// There is no server of that name.
    NoSuchServer,
    /// There are too many clients.
    Full,
    /// The gateway is ending.
    Closing,
}

impl fmt::Display for AdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdmitError::NoSuchServer => "no server has this name",
            AdmitError::Full => "too many clients",
            AdmitError::Closing => "the gateway is shutting down",
        })
    }
}

impl std::error::Error for AdmitError {}
