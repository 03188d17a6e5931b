//! What was seen on this machine, before anything is concluded from it. Texts are safe to print unless a field says otherwise.

use std::net::SocketAddr;

use regrow_gateway::config::{Message, Place};
use regrow_gateway::hosts::Host;

use crate::account::stored::StoredAccount;
use crate::check::finding::Finding as Visit;

/// All of it.
pub(super) struct Facts {
    pub(super) machine: Machine,
    pub(super) files: Vec<ConfigFile>,
    /// The accounts that can be read.
    pub(super) accounts: Vec<StoredAccount>,
}

/// What concerns no server in particular.
pub(super) struct Machine {
    pub(super) executable: Executable,
    pub(super) has_home: bool,
    /// Each `regrow` in `PATH`, in its order, each file once.
    pub(super) installed: Vec<Executable>,
    pub(super) folders: Vec<UnusableFolder>,
    pub(super) damaged: Vec<DamagedFile>,
    /// Those that are set.
    pub(super) network: Vec<NetworkVariable>,
    pub(super) listen: Listen,
    /// The `PATH` of apps that are started from the desktop.
    pub(super) desktop_path: String,
}

/// A file that is Regrow.
pub(super) struct Executable {
    pub(super) path: String,
    /// What it says about its version; none if it says nothing.
    pub(super) version: Option<String>,
    /// Whether a package manager may remove it at any time.
    pub(super) is_in_cache: bool,
    pub(super) is_this: bool,
}

/// A folder of Regrow's own that it cannot use.
pub(super) struct UnusableFolder {
    /// What Regrow keeps there.
    pub(super) holds: &'static str,
    pub(super) path: String,
    pub(super) problem: String,
}

/// A file of Regrow's own that cannot be read.
pub(super) struct DamagedFile {
    pub(super) path: String,
    pub(super) problem: String,
    pub(super) holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Regrow writes it again.
    Cache,
    /// What was approved of a server. As long as it is damaged, nothing counts as approved.
    Pins,
    Account,
}

/// A variable that says how programs reach the network.
pub(super) struct NetworkVariable {
    pub(super) name: String,
    /// What is wrong with its value, without quoting it.
    pub(super) problem: Option<String>,
}

/// Where `regrow serve` would listen.
pub(super) struct Listen {
    pub(super) state: ListenState,
    /// Whether a variable says where, rather than the default.
    pub(super) is_chosen: bool,
}

pub(super) enum ListenState {
    Free,
    /// A gateway of this user listens there.
    Ours,
    /// The system does not let us.
    Taken(SocketAddr, String),
    /// The variables do not say where.
    Unclear(String),
}

/// A configuration file.
pub(super) struct ConfigFile {
    pub(super) shown: String,
    /// The path as a shell takes it.
    pub(super) quoted: String,
    /// None for the file that `regrow serve` alone reads.
    pub(super) host: Option<&'static Host>,
    /// False for a file that came with its folder and was not allowed to run.
    pub(super) is_trusted: bool,
    /// What is wrong with the file as a whole. Then it has no servers.
    pub(super) problems: Vec<Message>,
    pub(super) servers: Vec<Server>,
    /// The servers that run without Regrow, and could run behind it.
    pub(super) bypassing: Vec<String>,
}

impl ConfigFile {
    /// Who reads it.
    pub(super) fn host_name(&self) -> &'static str {
        self.host.map_or("regrow serve", |host| host.name)
    }
}

/// An entry of a file.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) place: Place,
    /// What is wrong with its entry.
    pub(super) problems: Vec<Message>,
    /// What is wrong with its `regrow wrap`.
    pub(super) wrap_problem: Option<String>,
    pub(super) is_behind_regrow: bool,
    /// Whether its host starts Regrow in another role than `wrap`. That is not tried.
    pub(super) is_regrow: bool,
    /// Whether its host reaches `regrow serve` by it.
    pub(super) is_gateway: bool,
    /// The program that the host starts, and the one that `regrow wrap` starts then.
    pub(super) programs: Vec<Program>,
    /// Network variables that are set here, and that it may not get.
    pub(super) lacks: Vec<String>,
    pub(super) remote: Option<Remote>,
    /// What came of trying it; none if it was not tried.
    pub(super) visit: Option<Visit>,
}

/// A program, and who finds it.
pub(super) struct Program {
    pub(super) name: String,
    /// Where a shell finds it.
    pub(super) found: Option<String>,
    pub(super) is_found_by_desktop: bool,
    pub(super) is_regrow: bool,
    pub(super) is_in_cache: bool,
}

/// A server that runs elsewhere.
pub(super) struct Remote {
    /// What `regrow login` takes for it.
    pub(super) login: String,
    /// Whether its entry has a credential.
    pub(super) has_credential: bool,
    pub(super) account: Option<StoredAccount>,
    /// What to do if it requires sign-in, where another server uses its account.
    pub(super) conflict: Option<String>,
}
