//! Lines of the text format: names, labels, values.

use std::fmt::{Display, Write};

use regrow_protocol::text::escape;

use crate::operate::report::ServerReport;
use crate::stats::Buckets;

/// A text that grows.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    pub(super) fn of_server(&mut self, name: &str, server: &ServerReport, value: u64) {
        self.sample(name, &[("server", &server.name)], value);
    }

    pub(super) fn histogram(&mut self, name: &str, server: &ServerReport, buckets: &Buckets) {
        let (bucket, server) = (format!("{name}_bucket"), ("server", &*server.name));
        for (limit, count) in buckets.cumulative() {
            self.sample(&bucket, &[server, ("le", &limit.as_secs_f64().to_string())], count);
        }
        self.sample(&bucket, &[server, ("le", "+Inf")], buckets.count());
        self.sample(&format!("{name}_sum"), &[server], buckets.total.as_secs_f64());
        self.sample(&format!("{name}_count"), &[server], buckets.count());
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

/// A value between quotes. No line break is left in it.
fn escaped(value: &str) -> String {
    escape(value).replace('\\', "\\\\").replace('"', "\\\"")
}
