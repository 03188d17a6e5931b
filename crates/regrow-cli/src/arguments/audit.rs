//! The options of the audit log.

use std::path::PathBuf;

use clap::Args;
use regrow_gateway::audit::Destination;
use regrow_gateway::units;

#[derive(Args, Debug)]
#[command(next_help_heading = "Options for the audit log")]
pub(crate) struct AuditLog {
    /// Write a JSON line for each call, command, refusal and configuration change there: to a file, or to stderr
    #[arg(long = "audit", value_name = "FILE|stderr", env = "REGROW_AUDIT")]
    target: Option<PathBuf>,

    /// Start a new file before the audit log becomes larger than this
    #[arg(long = "audit-max-size", value_name = "SIZE", default_value = "100MiB", value_parser = units::size, env = "REGROW_AUDIT_MAX_SIZE")]
    max_size: usize,

    /// Keep this many old files of the audit log: FILE.1 is the newest
    #[arg(long = "audit-keep", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000), env = "REGROW_AUDIT_KEEP")]
    keep: u32,
}

impl AuditLog {
    /// Where it goes; none if there is none.
    pub(crate) fn destination(&self) -> Option<Destination> {
        let path = self.target.clone()?;
        Some(match path.to_str() {
            Some("stderr") => Destination::Stderr,
            _ => Destination::File { path, max_size: self.max_size as u64, keep: self.keep },
        })
    }
}
