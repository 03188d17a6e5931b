//! Looks at this machine: its programs, folders, variables and configurations; and tries the servers. Changes nothing.

mod files;
mod machine;
mod own_files;
mod programs;

use std::io;
use std::time::Duration;

use regrow::core::Fault;
use regrow_gateway::config::{ServerConfig, Surroundings};

use super::facts::Facts;
use crate::account::no_account;
use crate::check::visit_all;
use programs::Paths;

/// What was seen, or the signal that ended it. Each server may take this long.
pub(super) async fn gather(timeout: Duration) -> io::Result<Result<Facts, u8>> {
    let surroundings = Surroundings::of_process();
    let paths = Paths::find(&surroundings);
    let (accounts, damaged) = own_files::accounts();
    let machine = machine::look(&surroundings, &paths, damaged);
    let network: Vec<&str> = machine.network.iter().map(|variable| &*variable.name).collect();
    let found = files::find(&surroundings, &paths, &network);

    // The same server may be in the files of several hosts: it is started once.
    let mut tried: Vec<ServerConfig> = vec![];
    let mut visits_of: Vec<Vec<Option<usize>>> = vec![];
    let mut files = vec![];
    for (file, servers) in found {
        visits_of.push(
            servers.into_iter().map(|server| server.map(|server| number(&mut tried, server))).collect(),
        );
        files.push(file);
    }
    // An account of its own would be refreshed and stored.
    let account_of: fn(&ServerConfig) -> _ =
        |_| Some(no_account::new(Fault::SignInNeeded { command: "regrow login".into(), may_ask: false }));
    let visits = match visit_all(tried, account_of, timeout).await? {
        Ok(visits) => visits,
        Err(signal) => return Ok(Err(signal)),
    };
    for (file, numbers) in files.iter_mut().zip(visits_of) {
        for (server, number) in file.servers.iter_mut().zip(numbers) {
            server.visit = number.and_then(|number| visits.get(number).cloned());
        }
    }
    Ok(Ok(Facts { machine, files, accounts }))
}

/// The number of this server among those that are tried.
fn number(tried: &mut Vec<ServerConfig>, server: ServerConfig) -> usize {
    let is_same = |other: &ServerConfig| other.reach == server.reach && other.options == server.options;
    tried.iter().position(is_same).unwrap_or_else(|| {
        tried.push(server);
        tried.len() - 1
    })
}
