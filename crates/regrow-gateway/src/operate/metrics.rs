//! The metrics, in the text format that Prometheus reads (0.0.4).
//!
//! Written by hand: what is counted lives in [`crate::stats`] already, and a registry of another crate would only hold it twice.

mod text;

use super::report::{Overview, ServerReport, ServerState};
use text::Text;

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it means.
    pub help: &'static str,
    write: fn(&mut Text, &Metric, &Overview),
}

/// Every metric that there is.
pub const METRICS: &[Metric] = &[
    gauge("regrow_build_info", "Always 1; its label is the version.", |text, metric, overview| {
        text.sample(metric.name, &[("version", &overview.gateway.version)], 1);
    }),
    gauge("regrow_uptime_seconds", "How long the gateway has run.", |text, metric, overview| {
        text.sample(metric.name, &[], overview.gateway.uptime.as_secs_f64());
    }),
    gauge("regrow_clients", "Connected clients.", |text, metric, overview| {
        text.sample(metric.name, &[], overview.gateway.clients);
    }),
    gauge("regrow_sessions", "Open client sessions.", |text, metric, overview| {
        text.sample(metric.name, &[], overview.gateway.sessions);
    }),
    gauge("regrow_tasks", "Running tasks of the program.", |text, metric, overview| {
        text.sample(metric.name, &[], overview.gateway.tasks);
    }),
    counter("regrow_audit_lines_total", "Lines of the audit log.", |text, metric, overview| {
        if let Some(audit) = overview.gateway.audit {
            text.sample(metric.name, &[], audit.written);
        }
    }),
    counter(
        "regrow_audit_lost_total",
        "Lines of the audit log that could not be written.",
        |text, metric, overview| {
            if let Some(audit) = overview.gateway.audit {
                text.sample(metric.name, &[], audit.lost);
            }
        },
    ),
    gauge(
        "regrow_memory_budget_bytes",
        "Bytes that clients may make the gateway hold.",
        |text, metric, overview| text.sample(metric.name, &[], overview.gateway.memory.budget),
    ),
    gauge(
        "regrow_memory_held_bytes",
        "Bytes of bodies, waiting calls and unread responses.",
        |text, metric, overview| text.sample(metric.name, &[], overview.gateway.memory.held),
    ),
    counter(
        "regrow_memory_refused_total",
        "Bodies and responses over the memory budget, by what became of them.",
        |text, metric, overview| {
            let memory = overview.gateway.memory;
            for (outcome, count) in [("refused", memory.refused), ("dropped", memory.dropped)] {
                text.sample(metric.name, &[("outcome", outcome)], count);
            }
        },
    ),
    gauge(
        "regrow_server_state",
        "1 for the current state of the server, else 0.",
        |text, metric, overview| {
            each(overview, |server| {
                for state in ServerState::ALL {
                    let labels = [("server", &*server.name), ("state", state.name())];
                    text.sample(metric.name, &labels, u64::from(server.state == state));
                }
            });
        },
    ),
    gauge("regrow_budget_left", "Faults left before the server parks.", |text, metric, overview| {
        each(overview, |server| text.of_server(metric.name, server, u64::from(server.budget_left)));
    }),
    counter(
        "regrow_restarts_total",
        "Sessions that replaced an earlier one, by why that ended.",
        |text, metric, overview| {
            each(overview, |server| {
                for (reason, count) in &server.restarts {
                    text.sample(metric.name, &[("server", &server.name), ("reason", reason)], *count);
                }
            });
        },
    ),
    histogram(
        "regrow_recovery_seconds",
        "Time from the loss of a session until the next was ready.",
        |text, metric, overview| {
            each(overview, |server| text.histogram(metric.name, server, &server.recovery_buckets));
        },
    ),
    counter(
        "regrow_calls_total",
        "Calls that ended, by what happened to them and how far they got.",
        |text, metric, overview| {
            each(overview, |server| {
                for call in &server.calls {
                    let labels = [
                        ("server", &*server.name),
                        ("outcome", &*call.outcome),
                        ("delivery", &*call.delivery),
                    ];
                    text.sample(metric.name, &labels, call.count);
                }
            });
        },
    ),
    histogram(
        "regrow_call_seconds",
        "Time from a call to its end, without cancelled calls.",
        |text, metric, overview| {
            each(overview, |server| text.histogram(metric.name, server, &server.latency_buckets));
        },
    ),
    gauge("regrow_calls_in_flight", "Calls that have not ended yet.", |text, metric, overview| {
        each(overview, |server| text.of_server(metric.name, server, server.in_flight));
    }),
    gauge("regrow_queue", "Calls that wait because of the server's limits.", |text, metric, overview| {
        each(overview, |server| text.of_server(metric.name, server, server.queue));
    }),
    gauge("regrow_private_sessions", "Sessions that belong to one client each.", |text, metric, overview| {
        each(overview, |server| text.of_server(metric.name, server, server.private_sessions));
    }),
    gauge("regrow_catalog_stale", "1 if a list may be out of date, else 0.", |text, metric, overview| {
        each(overview, |server| {
            for (list, report) in &server.catalog {
                let labels = [("server", &*server.name), ("list", &**list)];
                text.sample(metric.name, &labels, u64::from(report.stale.is_some()));
            }
        });
    }),
    gauge(
        "regrow_unapproved",
        "Tools, prompts and commands that changed since they were approved.",
        |text, metric, overview| {
            each(overview, |server| text.of_server(metric.name, server, server.unapproved.len() as u64));
        },
    ),
    counter("regrow_oddities_total", "Messages that could not be used.", |text, metric, overview| {
        each(overview, |server| {
            let odd = server.oddities;
            let kinds = [
                ("garbage", odd.garbage),
                ("too-long", odd.too_long),
                ("stray", odd.stray),
                ("undelivered", odd.undelivered),
                ("dropped-members", odd.dropped_members),
            ];
            for (kind, count) in kinds {
                text.sample(metric.name, &[("server", &server.name), ("kind", kind)], count);
            }
        });
    }),
];

/// All metrics of this moment.
pub(super) fn exposition(overview: &Overview) -> String {
    let mut text = Text::default();
    for metric in METRICS {
        text.family(metric.name, metric.kind, metric.help);
        (metric.write)(&mut text, metric, overview);
    }
    text.finish()
}

fn each(overview: &Overview, write: impl FnMut(&ServerReport)) {
    overview.servers.iter().for_each(write);
}

type Write = fn(&mut Text, &Metric, &Overview);

const fn gauge(name: &'static str, help: &'static str, write: Write) -> Metric {
    Metric { name, kind: "gauge", help, write }
}

const fn counter(name: &'static str, help: &'static str, write: Write) -> Metric {
    Metric { name, kind: "counter", help, write }
}

const fn histogram(name: &'static str, help: &'static str, write: Write) -> Metric {
    Metric { name, kind: "histogram", help, write }
}
