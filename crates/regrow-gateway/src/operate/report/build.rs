//! Reports, from what the engine and the stats know.

use std::sync::Arc;

use regrow::core::{Fault, State, signal_name};
use regrow::{Anomalies, HandshakeResult, Status};
use regrow_protocol::meta;
use serde_json::Value;

use super::{
    CallReport, FaultReport, MemoryReport, OddityReport, ServerInfo, ServerReport, ServerState, Spread,
    ToolsReport,
};
use crate::catalog::Item;
use crate::config::Problems;
use crate::shares::MemoryUse;
use crate::stats::{Buckets, Stats};
use crate::tool_filter::{Glob, ToolFilter};

/// What servers say of themselves is cut.
const LONGEST: usize = 100;

impl ServerReport {
    /// What the stats say of a server that has no connection now.
    pub fn new(name: impl Into<String>, stats: &Stats) -> ServerReport {
        let restarts = stats.restarts().into_iter().map(|(reason, count)| (reason.to_owned(), count));
        let calls = stats.calls().into_iter().map(|call| CallReport {
            outcome: call.outcome.to_owned(),
            delivery: call.delivery.name().to_owned(),
            count: call.count,
        });
        let (latency, recovery) = (stats.latency(), stats.recovery());
        ServerReport {
            name: name.into(),
            stderr: stats.stderr_tail(),
            restarts: restarts.collect(),
            calls: calls.collect(),
            latency: Spread::of(&latency),
            recovery: Spread::of(&recovery),
            in_flight: stats.in_flight(),
            queue: stats.in_queue(),
            latency_buckets: latency,
            recovery_buckets: recovery,
            ..ServerReport::default()
        }
    }

    /// The same of a server whose entry in the configuration has problems.
    pub fn broken(self, problems: &Problems) -> ServerReport {
        let problems = problems.0.iter().map(ToString::to_string).collect();
        ServerReport { state: ServerState::Broken, problems, ..self }
    }

    /// The same with where its connection stands.
    pub fn standing(self, status: &Status) -> ServerReport {
        ServerReport {
            state: ServerState::from(&status.state),
            in_state: status.since.elapsed(),
            epoch: status.epoch.0,
            pid: status.pid,
            budget_left: status.budget_left,
            last_fault: status.last_fault.as_ref().map(FaultReport::from),
            oddities: status.anomalies.into(),
            ..self
        }
    }

    /// The same with what the server said of itself when it was greeted.
    pub fn welcomed(self, welcome: &HandshakeResult) -> ServerReport {
        let said: Value = serde_json::from_slice(&welcome.result).unwrap_or_default(); // Then it said nothing.
        let info = match welcome.modern {
            true => &said["_meta"][meta::SERVER_INFO],
            false => &said["serverInfo"],
        };
        let text =
            |name: &str| -> Option<String> { Some(info[name].as_str()?.chars().take(LONGEST).collect()) };
        ServerReport {
            era: Some(if welcome.modern { "modern" } else { "legacy" }.to_owned()),
            server_info: text("name")
                .map(|name| ServerInfo { name, version: text("version").unwrap_or_default() }),
            ..self
        }
    }
}

impl ToolsReport {
    /// None where the filter changes nothing. Without a list of tools, no rule can miss.
    pub fn of(filter: &ToolFilter, tools: Option<&[Item]>) -> Option<ToolsReport> {
        if filter.is_empty() {
            return None;
        }
        let texts = |globs: &[Glob]| globs.iter().map(Glob::text).collect::<Vec<_>>();
        let listed = tools.unwrap_or_default();
        let offered = listed.iter().filter(|tool| filter.offers(tool)).count();
        Some(ToolsReport {
            allow: filter.allow.as_deref().map(texts),
            deny: texts(&filter.deny),
            rename: filter.rename.clone(),
            prefix: filter.prefix.clone(),
            read_only: filter.read_only,
            offered: offered as u64,
            hidden: (listed.len() - offered) as u64,
            unmatched: tools.map(|tools| filter.unmatched(tools)).unwrap_or_default(),
        })
    }

    /// In a line, for people.
    pub fn text(&self) -> String {
        let mut rules = vec![];
        rules.extend(self.allow.as_ref().map(|allow| format!("allow [{}]", allow.join(", "))));
        rules.extend((!self.deny.is_empty()).then(|| format!("deny [{}]", self.deny.join(", "))));
        rules.extend(self.read_only.then(|| "read-only".to_owned()));
        rules.extend(self.prefix.as_ref().map(|prefix| format!("prefix \"{prefix}\"")));
        rules.extend(self.rename.iter().map(|(key, name)| format!("{key} is called {name}")));
        let unmatched = match self.unmatched.is_empty() {
            true => String::new(),
            false => format!("; fits no tool: {}", self.unmatched.join(", ")),
        };
        let total = self.offered + self.hidden;
        format!("{} of {total} offered: {}{unmatched}", self.offered, rules.join(", "))
    }
}

impl Spread {
    /// None where nothing was counted.
    pub fn of(buckets: &Buckets) -> Option<Spread> {
        let quantiles = buckets.quantiles()?;
        Some(Spread {
            count: buckets.count(),
            p50: quantiles.p50,
            p90: quantiles.p90,
            p99: quantiles.p99,
            max: quantiles.max,
        })
    }
}

impl ServerState {
    /// All of them.
    pub const ALL: [ServerState; 9] = {
        use ServerState::*;
        [Idle, Connecting, Ready, Draining, Closing, Backoff, Parked, Closed, Broken]
    };

    /// Its name, for logs, status and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ServerState::Idle => "idle",
            ServerState::Connecting => "connecting",
            ServerState::Ready => "ready",
            ServerState::Draining => "draining",
            ServerState::Closing => "closing",
            ServerState::Backoff => "backoff",
            ServerState::Parked => "parked",
            ServerState::Closed => "closed",
            ServerState::Broken => "broken",
        }
    }
}

impl From<&State> for ServerState {
    fn from(state: &State) -> ServerState {
        match state {
            State::Idle => ServerState::Idle,
            State::Connecting { .. } => ServerState::Connecting,
            State::Ready { .. } => ServerState::Ready,
            State::Draining { .. } => ServerState::Draining,
            State::Closing { .. } => ServerState::Closing,
            State::Backoff { .. } => ServerState::Backoff,
            State::Parked { .. } => ServerState::Parked,
            State::Closed => ServerState::Closed,
        }
    }
}

impl From<&Arc<Fault>> for FaultReport {
    fn from(fault: &Arc<Fault>) -> FaultReport {
        FaultReport {
            kind: fault.name().to_owned(),
            text: fault.to_string(),
            permanent: fault.is_permanent(),
            exit_code: if let Fault::Exited { code } = **fault { Some(code) } else { None },
            signal: match **fault {
                Fault::Killed { signal } => Some(signal_name(signal).to_string()),
                _ => None,
            },
            http_status: fault.http_status(),
        }
    }
}

impl From<Anomalies> for OddityReport {
    fn from(anomalies: Anomalies) -> OddityReport {
        let Anomalies { garbage, too_long, stray, undelivered, dropped_members } = anomalies;
        OddityReport { garbage, too_long, stray, undelivered, dropped_members }
    }
}

impl From<MemoryUse> for MemoryReport {
    fn from(memory: MemoryUse) -> MemoryReport {
        let MemoryUse { budget, held, refused, cut } = memory;
        MemoryReport { budget: budget as u64, held: held as u64, refused, dropped: cut }
    }
}
