//! Where servers and the gateway stand, as JSON tells it.
//!
//! What a reader of another version does not find in it takes its default.

mod build;
mod lengths;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::AuditReport;
use crate::stats::Buckets;

/// Everything.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Overview {
    /// The gateway itself.
    pub gateway: GatewayReport,
    /// Its servers, in the order of the configuration.
    pub servers: Vec<ServerReport>,
}

/// Where the gateway stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayReport {
    /// The version of Regrow.
    pub version: String,
    /// How long it has run.
    #[serde(rename = "uptimeMs", with = "lengths")]
    pub uptime: Duration,
    /// How many clients are there.
    pub clients: u64,
    /// How many sessions of clients are kept, also of those that are away for the moment.
    pub sessions: u64,
    /// How many tasks of the program have not ended.
    pub tasks: u64,
    /// The memory that clients make it hold.
    pub memory: MemoryReport,
    /// The files that it was configured by.
    pub config_files: Vec<String>,
    /// What became of the lines of the audit log, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditReport>,
    /// Why a newer version of these files is not in use, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_problem: Option<String>,
    /// Whether it takes no new clients any more.
    pub shutting_down: bool,
}

/// The memory that clients make the gateway hold: bodies, calls that wait, and responses that are not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryReport {
    /// The most bytes that may be held.
    pub budget: u64,
    /// The bytes that are held.
    pub held: u64,
    /// Bodies and responses that were refused.
    pub refused: u64,
    /// Bodies and responses that were dropped for the sake of another principal.
    pub dropped: u64,
}

/// Where one server stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// The state of its connection.
    pub state: ServerState,
    /// How long it has been in this state.
    #[serde(rename = "inStateMs", with = "lengths")]
    pub in_state: Duration,
    /// Whether it is wanted from the start, rather than with the first call.
    pub eager: bool,
    /// Whether it was stopped on purpose: by a command, or because it was idle.
    pub stopped: bool,
    /// The number of the newest session or attempt.
    pub epoch: u64,
    /// Which era it speaks: `legacy` or `modern`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// What it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<ServerInfo>,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Faults left before it parks.
    pub budget_left: u32,
    /// Why the last session or attempt failed, if one ever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<FaultReport>,
    /// What is wrong with its entry in the configuration, where something is: where, and what to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What has changed since it was approved: `tool NAME`, `prompt NAME`, `command`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unapproved: Vec<String>,
    /// Which of its tools clients get, where the configuration filters or renames them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsReport>,
    /// What the system does not enforce of its sandbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_gaps: Vec<String>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// How often it was started again, by reason.
    pub restarts: BTreeMap<String, u64>,
    /// How calls ended.
    pub calls: Vec<CallReport>,
    /// How long calls took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Spread>,
    /// How long it took until a lost session was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Spread>,
    /// Calls in flight.
    pub in_flight: u64,
    /// Calls that wait to be sent.
    pub queue: u64,
    /// Sessions that belong to one client each.
    pub private_sessions: u64,
    /// What it offers, as it last said.
    pub catalog: CatalogReport,
    /// What it sent that could not be used.
    pub oddities: OddityReport,
    /// For the metrics: how long calls took.
    #[serde(skip)]
    pub latency_buckets: Buckets,
    /// For the metrics: how long recoveries took.
    #[serde(skip)]
    pub recovery_buckets: Buckets,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Nothing was asked of it yet.
    #[default]
    Idle,
    /// An attempt is under way.
    Connecting,
    /// A session serves calls.
    Ready,
    /// Calls may finish, new ones wait.
    Draining,
    /// The session is being hung up.
    Closing,
    /// Waiting before the next attempt.
    Backoff,
    /// Stopped trying at pace.
    Parked,
    /// Over.
    Closed,
    /// Never tried: its entry in the configuration has problems.
    Broken,
}

/// What a server calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerInfo {
    /// Its own name.
    pub name: String,
    /// Its own version.
    pub version: String,
}

/// Why a session or an attempt failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultReport {
    /// The fault's name for machines.
    pub kind: String,
    /// The same for people.
    pub text: String,
    /// Whether trying again cannot mend it.
    pub permanent: bool,
    /// The exit code of the process, where that is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the process, where that is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The HTTP status, where that is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

/// How many calls ended in this way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CallReport {
    /// What happened to them.
    pub outcome: String,
    /// How far they got: `not-sent`, `unknown`, `answered`.
    pub delivery: String,
    /// How many.
    pub count: u64,
}

/// How long things took, since the gateway was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spread {
    /// How many there were.
    pub count: u64,
    /// One half took at most this long.
    #[serde(rename = "p50Ms", with = "lengths")]
    pub p50: Duration,
    /// Nine in ten.
    #[serde(rename = "p90Ms", with = "lengths")]
    pub p90: Duration,
    /// 99 in a hundred.
    #[serde(rename = "p99Ms", with = "lengths")]
    pub p99: Duration,
    /// All.
    #[serde(rename = "maxMs", with = "lengths")]
    pub max: Duration,
}

/// Which tools of a server clients get: the rules of the configuration, and what came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolsReport {
    /// Only tools that match one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// No tools that match one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Other names, by the server's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// What stands before each name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Only tools that declare that they are.
    pub read_only: bool,
    /// How many tools clients get,
    pub offered: u64,
    /// and how many they do not.
    pub hidden: u64,
    /// The rules to which no tool fits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
}

/// The lists of a server by name: `tools`, `prompts`, `resources`, `templates`.
pub type CatalogReport = BTreeMap<String, ListReport>;

/// One list of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListReport {
    /// How long it is.
    pub count: u64,
    /// How long ago the server told it.
    #[serde(rename = "ageMs", with = "lengths")]
    pub age: Duration,
    /// Why it may not be what the server has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// Which items are left out, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// What a server sent that could not be used, since its connection was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OddityReport {
    /// Lines that are not messages.
    pub garbage: u64,
    /// Lines over the cap.
    pub too_long: u64,
    /// Answers that nobody waits for.
    pub stray: u64,
    /// Messages that could not be delivered.
    pub undelivered: u64,
    /// Members of messages that no envelope has. They were left out.
    pub dropped_members: u64,
}
