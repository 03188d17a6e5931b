//! What an operator sees and does: status, metrics, health, and commands to servers.
//!
//! [`Operate`] is what the gateway offers for it, [`routes`] what it looks like over HTTP.

mod command;
mod escape;
mod html;
mod metrics;
mod readiness;
mod report;
mod routes;
pub mod trace_context;
pub mod traces;

pub use command::{CommandError, LogLevel, ServerCommand};
pub use metrics::{METRICS, Metric};
pub use report::{
    CallReport, CatalogReport, FaultReport, GatewayReport, ListReport, MemoryReport, OddityReport, Overview,
    ServerInfo, ServerReport, ServerState, Spread, ToolsReport,
};
pub use routes::routes;
pub(crate) use routes::{PASSWORD_CHALLENGE, is_browser};

/// Where the gateway listens unless told otherwise.
pub const DEFAULT_PORT: u16 = 8732;

/// What can be seen of a gateway, and done to it. Nothing here waits: a command is begun, not awaited.
pub trait Operate: Send + Sync + 'static {
    /// Where each server stands, in the order of the configuration.
    fn servers(&self) -> Vec<ServerReport>;

    /// Has a server do something.
    fn command(&self, server: &str, command: ServerCommand) -> Result<(), CommandError>;

    /// Logs more or less from now on.
    fn log_level(&self, level: LogLevel) -> Result<(), CommandError>;

    /// The last things that happened to a server, a line each; none where no server has this name.
    fn logs(&self, server: &str) -> Option<Vec<String>>;

    /// Where the gateway itself stands.
    fn gateway(&self) -> GatewayReport;
}
