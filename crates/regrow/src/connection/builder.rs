//! How a connection is made.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use regrow_core::Policy;
use regrow_protocol::version::Era;
use serde_json::json;
use tokio::sync::broadcast;

use super::era::Greeting;
use super::owner::Owner;
use super::settings::{IsSafeTool, Settings, StderrInErrors};
use super::shared::Shared;
use super::wire_ids::WireIds;
use super::{Connection, Handle};
use crate::approval::Approver;
use crate::eras::EraFile;
use crate::inbox::{Inbox, Queue};
use crate::mask::Mask;
use crate::transport::{MAX_LINE, Transport};
use crate::upstream::ClientParams;
use crate::watch;

/// Observers may fall behind by so many notices.
const NOTICES: usize = 64;

/// How a connection is made.
pub struct Builder {
    name: Arc<str>,
    transport: Arc<dyn Transport>,
    policy: Policy,
    max_line: usize,
    mask: Mask,
    stderr_in_errors: StderrInErrors,
    is_safe_tool: Option<IsSafeTool>,
    approver: Option<Arc<dyn Approver>>,
    inbox: Option<Arc<dyn Inbox>>,
    greets: bool,
    era: Era,
    era_file: Option<(EraFile, String)>,
    client_params: ClientParams,
    seed: u64,
    hides_ids: bool,
}

impl Builder {
    pub(super) fn new(name: Arc<str>, transport: Arc<dyn Transport>) -> Builder {
        Builder {
            name,
            transport,
            policy: Policy::default(),
            max_line: MAX_LINE,
            mask: Mask::default(),
            stderr_in_errors: StderrInErrors::AtStart,
            is_safe_tool: None,
            approver: None,
            inbox: None,
            greets: true,
            era: Era::Auto,
            era_file: None,
            client_params: ClientParams {
                client_info: json!({ "name": "regrow", "version": env!("CARGO_PKG_VERSION") }),
                capabilities: json!({}),
                legacy_version: None,
            },
            seed: std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0),
            hides_ids: false,
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The numbers that decisions depend on.
    pub fn policy(mut self, policy: Policy) -> Builder {
        self.policy = policy;
        self
    }

    /// Longer lines of the server are refused.
    pub fn max_line(mut self, bytes: usize) -> Builder {
        self.max_line = bytes;
        self
    }

    /// Secrets to take out of every text.
    pub fn mask(mut self, mask: Mask) -> Builder {
        self.mask = mask;
        self
    }

    /// Lets the first and last lines of the server's stderr into every error, not only into those of a failed start.
    pub fn stderr_in_errors(mut self, allowed: bool) -> Builder {
        self.stderr_in_errors = if allowed { StderrInErrors::Always } else { StderrInErrors::AtStart };
        self
    }

    /// Keeps the server's stderr out of every error: those who share the connection must not read what it says about one of them.
    pub fn no_stderr_in_errors(mut self) -> Builder {
        self.stderr_in_errors = StderrInErrors::Never;
        self
    }

    /// Tools that may be called again although an earlier call may have run.
    pub fn safe_tools(mut self, is_safe: impl Fn(&str) -> bool + Send + Sync + 'static) -> Builder {
        self.is_safe_tool = Some(Arc::new(is_safe));
        self
    }

    /// Shows the tools and prompts of each session that we greet ourselves to this before calls go there, and asks it before each call is sent.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Builder {
        self.approver = Some(approver);
        self
    }

    /// The era to greet the server in.
    pub fn era(mut self, era: Era) -> Builder {
        self.era = era;
        self
    }

    /// Remembers the era of this server, known by its address, over starts.
    pub fn era_file(mut self, file: EraFile, address: impl Into<String>) -> Builder {
        self.era_file = Some((file, address.into()));
        self
    }

    /// Who we say we are, and what we can do for the server.
    pub fn client_params(mut self, params: ClientParams) -> Builder {
        self.client_params = params;
        self
    }

    /// Relays for a client that greets the server itself. What the server sends on its own goes to this inbox.
    pub fn relay_to(mut self, inbox: Arc<dyn Inbox>) -> Builder {
        self.inbox = Some(inbox);
        self.greets = false;
        self
    }

    /// Like [`Builder::relay_to`], but we greet the server ourselves, in its own era. A client's `initialize` or
    /// `server/discover` is then answered with the server's [`HandshakeResult`](crate::HandshakeResult), once there is a session.
    pub fn bridge_to(mut self, inbox: Arc<dyn Inbox>) -> Builder {
        self.inbox = Some(inbox);
        self.greets = true;
        self
    }

    /// Equal seeds give equal pauses and ids.
    pub fn seed(mut self, seed: u64) -> Builder {
        self.seed = seed;
        self
    }

    /// The ids of calls towards the server cannot be guessed: several clients share the connection, and none may name another's call.
    pub fn unguessable_ids(mut self) -> Builder {
        self.hides_ids = true;
        self
    }

    /// Makes the connection and starts its owner. The server is started with the first call, or by [`Connection::start`].
    ///
    /// Must be called inside a tokio runtime.
    pub fn build(self) -> Connection {
        let auto = self.era == Era::Auto && self.greets;
        let era_file = self.era_file.filter(|_| auto);
        let greeting = match self.era {
            _ if !self.greets => Greeting::ByClient,
            Era::Auto => Greeting::Unknown(self.client_params),
            Era::Legacy => Greeting::legacy(&self.client_params),
            Era::Modern => Greeting::modern(&self.client_params),
        };
        let queue = self.inbox.is_none().then(|| Arc::new(Queue::new()));
        let inbox = self.inbox.or_else(|| queue.clone().map(|queue| queue as Arc<dyn Inbox>));
        let inbox = inbox.expect("one of the two was made above");
        let mut policy = self.policy;
        policy.probe_while_busy |= self.transport.is_remote();
        let settings = Settings {
            name: self.name,
            policy,
            max_line: self.max_line,
            mask: self.mask,
            stderr_in_errors: self.stderr_in_errors,
            is_safe_tool: self.is_safe_tool,
            approver: self.approver,
            greets: self.greets,
            wire_ids: if self.hides_ids { WireIds::Keyed(self.seed) } else { WireIds::Counted },
            era: self.era,
            era_file,
        };
        let shared = Arc::new(Shared::new(settings, inbox, greeting, self.seed));
        let (status, status_seen) = watch::channel(shared.lock().status(shared.now()));
        let (notices, _) = broadcast::channel(NOTICES);
        let (closed, closed_seen) = watch::channel(None);
        let weak_notices = notices.downgrade();
        let owner = Owner::new(shared.clone(), self.transport, status, notices, closed);
        tokio::spawn(owner.run());
        let handle = Handle {
            shared: shared.clone(),
            status: status_seen,
            notices: weak_notices,
            closed: closed_seen,
            queue,
            requests: AtomicU64::new(0),
        };
        Connection { shared, handle: Arc::new(handle) }
    }
}
