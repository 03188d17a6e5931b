//! What an operator sees of the gateway, and orders.

use std::sync::atomic::Ordering;

use tokio::runtime::Handle;

use super::Gateway;
use crate::operate::{GatewayReport, LogLevel, Operate, Order, OrderError, ServerReport};

impl Operate for Gateway {
    fn servers(&self) -> Vec<ServerReport> {
        self.0.servers.all().iter().map(|server| server.report()).collect()
    }

    fn order(&self, server: &str, order: Order) -> Result<(), OrderError> {
        if self.0.is_closing.load(Ordering::Relaxed) {
            return Err(OrderError::Closing);
        }
        let server = self.0.servers.named(server).ok_or(OrderError::NoSuchServer)?;
        server.obey(order)
    }

    fn log_level(&self, level: LogLevel) -> Result<(), OrderError> {
        match &self.0.context.settings.log_level {
            Some(set) => {
                set(level);
                Ok(())
            }
            None => Err(OrderError::Impossible("this program does not log through Regrow".into())),
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
            config_files: settings.config_files.clone(),
            shutting_down: self.0.is_closing.load(Ordering::Relaxed),
        }
    }
}
