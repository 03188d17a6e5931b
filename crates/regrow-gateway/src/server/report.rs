//! Where a server stands, and what it is ordered to do.

use std::time::SystemTime;

use regrow::core::{Requester, State};
use regrow::transport::stdio::Sandbox;
use regrow_protocol::list::List;
use serde_json::{Value, json};

use super::Server;
use crate::catalog::Listing;
use crate::config::Start;
use crate::operate::{
    CatalogReport, CommandError, ListReport, ServerCommand, ServerReport, ServerState, ToolsReport,
};

fn name(list: List) -> &'static str {
    match list {
        List::Templates => "templates",
        other => other.member(),
    }
}

impl Server {
    /// Where it stands.
    pub(crate) fn report(&self) -> ServerReport {
        let mut report = ServerReport::new(&*self.name, &self.stats);
        report.eager = self.config.options.start == Start::Eager;
        report.catalog = self.catalog_report();
        report.unapproved = self.pinning.report();
        let catalog = self.catalog();
        let tools = catalog.listing(List::Tools).map(Listing::items);
        report.tools = ToolsReport::of(&self.config.options.tools, tools);
        let gaps = self.config.sandbox().map(Sandbox::gaps).unwrap_or_default();
        report.sandbox_gaps = gaps.into_iter().map(str::to_owned).collect();
        let (connection, private) = {
            let state = self.state();
            let connection = state.catalog_connection.as_ref().map(|catalog| catalog.connection.clone());
            let open = state.own.iter().filter(|(_, own)| !own.status().borrow().is_closed());
            (connection, open.count())
        };
        report.private_sessions = private as u64;
        // A call is timed from when it came; in flight it is when it was let through.
        report.in_flight = report.in_flight.saturating_sub(report.queue);
        if let Some(problems) = self.config.problems() {
            return report.broken(problems);
        }
        let Some(connection) = connection else {
            return match self.refused() {
                Some(why) => ServerReport { state: ServerState::Broken, problems: vec![why], ..report },
                None => report,
            };
        };
        let status = connection.status().borrow().clone();
        report.stopped =
            status.state.is_parked_by_command() || (status.state == State::Idle && status.sessions > 0);
        report = report.standing(&status);
        match connection.welcome() {
            Some(welcome) => report.welcomed(&welcome),
            None => report,
        }
    }

    fn catalog_report(&self) -> CatalogReport {
        let catalog = self.catalog();
        let now = SystemTime::now();
        let lists = List::ALL.into_iter().filter_map(|list| {
            let listing = catalog.listing(list);
            let stale = catalog.stale(list).map(str::to_owned);
            let cut = || listing.and_then(|listing| listing.cut).map(|cut| cut.to_string());
            (listing.is_some() || stale.is_some()).then(|| {
                let report = ListReport {
                    count: listing.map_or(0, |listing| listing.items().len() as u64),
                    age: listing
                        .and_then(|listing| now.duration_since(listing.fetched).ok())
                        .unwrap_or_default(),
                    stale: stale.or_else(cut),
                    left_out: listing.and_then(|listing| listing.omission()),
                };
                (name(list).to_owned(), report)
            })
        });
        lists.collect()
    }

    /// How old a list is, where it may not be what the server has now.
    pub(crate) fn staleness(&self, list: List) -> Option<Value> {
        let catalog = self.catalog();
        let is_up = self.connection().is_some_and(|connection| connection.status().borrow().is_ready());
        let reason = match catalog.stale(list) {
            Some(reason) => reason.to_owned(),
            None if is_up || !catalog.offers(list) => return None,
            None => self.state_text(),
        };
        let age = catalog.listing(list).and_then(|listing| listing.fetched.elapsed().ok());
        Some(json!({ "ageSeconds": age.map(|age| age.as_secs()), "reason": reason }))
    }

    /// Where it stands, in a few words for people and models.
    pub(crate) fn state_text(&self) -> String {
        if let Some(problems) = self.config.problems() {
            return format!("broken: {}", problems.brief());
        }
        let Some(connection) = self.connection() else { return "not started yet".to_owned() };
        let status = connection.status().borrow().clone();
        match (&status.state, &status.last_fault) {
            (State::Backoff { .. } | State::Parked { .. }, Some(fault)) => {
                format!("{}: {}", status.state.name(), fault)
            }
            _ => status.state.name().to_owned(),
        }
    }

    /// Does what an operator wants.
    pub(crate) fn execute(&self, command: ServerCommand) -> Result<(), CommandError> {
        if let Some(problems) = self.config.problems() {
            let text = format!("its configuration has a problem: {problems}");
            return Err(CommandError::Impossible(text));
        }
        if command == ServerCommand::Approve {
            self.approved();
            return Ok(());
        }
        if self.connection().is_none() {
            self.start();
        }
        let connections = self.connections();
        if connections.is_empty() {
            return Err(CommandError::Impossible("its client has not connected yet".into()));
        }
        for connection in connections {
            match command {
                ServerCommand::Reconnect => connection.reconnect(Requester::Person),
                ServerCommand::Drain | ServerCommand::Park => connection.park(),
                ServerCommand::Wake => connection.wake(),
                ServerCommand::ResetBudget => connection.reset_budget(),
                ServerCommand::Approve => {}
            }
        }
        Ok(())
    }
}
