//! Keys of `_meta`.

/// Every key of the specification begins with this, except [`PROGRESS_TOKEN`].
pub const PREFIX: &str = "io.modelcontextprotocol/";
/// The protocol version of a request; modern era.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who sends a request; modern era.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the client can do; modern era.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The log level that a request asks for; modern era.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who answers; modern era.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The subscription stream that a message belongs to: the id of its `subscriptions/listen`.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The token under which a request wants progress notifications.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// Regrow's report of a failed call.
pub const FAULT: &str = "dev.regrow/fault";
/// How old the lists of servers are that cannot be reached.
pub const FRESHNESS: &str = "dev.regrow/freshness";
