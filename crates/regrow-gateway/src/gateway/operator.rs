//! What an operator sees of the gateway, and commands.

use std::sync::atomic::Ordering;

use tokio::runtime::Handle;

use super::{Gateway, lock};
use crate::operate::{CommandError, GatewayReport, LogLevel, Operate, ServerCommand, ServerReport};

impl Operate for Gateway {
    fn servers(&self) -> Vec<ServerReport> {
        self.0.servers.all().iter().map(|server| server.report()).collect()
    }

    fn command(&self, server: &str, command: ServerCommand) -> Result<(), CommandError> {
        if self.0.is_closing.load(Ordering::Relaxed) {
            return Err(CommandError::Closing);
        }
        let server = self.0.servers.named(server).ok_or(CommandError::NoSuchServer)?;
        server.execute(command)
    }

    fn log_level(&self, level: LogLevel) -> Result<(), CommandError> {
        match &self.0.context.settings.log_level {
            Some(set) => {
                set(level);
                Ok(())
            }
            None => Err(CommandError::Impossible("this program does not log through Regrow".into())),
        }
    }

    fn logs(&self, server: &str) -> Option<Vec<String>> {
        Some(self.0.servers.named(server)?.stats.logs())
    }

    fn gateway(&self) -> GatewayReport {
        let settings = &self.0.context.settings;
        let clients = self.0.clients.count() as u64;
        GatewayReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: self.0.started.elapsed(),
            clients,
            sessions: clients,
            // Who asks from outside the runtime is told none.
            tasks: Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks() as u64),
            memory: settings.shares.memory().into(),
            config_files: settings.config_files.clone(),
            audit: settings.audit.report(),
            config_problem: lock(&self.0.config_problem).clone(),
            shutting_down: self.0.is_closing.load(Ordering::Relaxed),
        }
    }
}
