//! Findings that concern no server in particular.

use super::super::facts::{DamagedFile, Executable, Facts, Holds, Listen, ListenState, Machine};
use super::super::finding::{Finding, Subject};
use crate::account::stored::{AccountState, StoredAccount};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let machine = &facts.machine;
    let mut findings = vec![];
    if !machine.has_home {
        findings.push(Finding::broken(
            "no-home",
            Subject::default(),
            "the variable HOME is not set, so Regrow finds no configuration and stores no account",
            "set HOME to your home folder",
        ));
    } else if facts.files.is_empty() {
        findings.push(Finding::hint(
            "no-hosts",
            Subject::default(),
            "no host that Regrow knows has a server on this machine",
            "add a server to your host, or run this in the folder of a project with an .mcp.json; docs/hosts.md lists the hosts",
        ));
    }
    findings.extend(installed(machine));
    for folder in &machine.folders {
        findings.push(Finding::broken(
            "folder-unusable",
            of_file(&folder.path),
            format!("Regrow cannot use the folder for {}: {}", folder.holds, folder.problem),
            "make it a folder of your own that only you can access (chmod 700), or remove it if you can do without what is in it: accounts need sign-in again, and approvals and trusted files are forgotten",
        ));
    }
    findings.extend(machine.damaged.iter().map(damaged));
    for variable in &machine.network {
        if let Some(problem) = &variable.problem {
            findings.push(Finding::broken(
                "network-variable",
                Subject::default(),
                format!("{}: {problem}", variable.name),
                format!("correct {} where your shell or desktop sets it, or unset it", variable.name),
            ));
        }
    }
    findings.extend(listen(&machine.listen));
    findings.extend(unused_accounts(facts));
    findings
}

fn of_file(path: &str) -> Subject {
    Subject { file: Some(path.to_owned()), ..Subject::default() }
}

fn installed(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![];
    let described = |it: &Executable| {
        let version = it.version.as_deref().unwrap_or("does not run");
        format!("{} ({version}{})", it.path, if it.is_this { ", this one" } else { "" })
    };
    let is_other = |it: &Executable| !it.is_this && it.version != machine.executable.version;
    if machine.installed.len() > 1 || machine.installed.iter().any(is_other) {
        let mut list: Vec<String> = machine.installed.iter().map(described).collect();
        if !machine.installed.iter().any(|it| it.is_this) {
            list.push(described(&machine.executable));
        }
        findings.push(Finding::hint(
            "several-regrows",
            Subject::default(),
            format!(
                "there is more than one regrow on this machine, and PATH decides which one runs: {}",
                list.join(", ")
            ),
            "remove those that you do not need, so that every host runs the same version",
        ));
    }
    if let Some(first) = machine.installed.first().filter(|first| first.version.is_none()) {
        findings.push(Finding::broken(
            "regrow-fails",
            of_file(&first.path),
            "the regrow in PATH does not run",
            "install it again: docs/install.md",
        ));
    }
    if machine.executable.is_in_cache && machine.installed.iter().all(|it| it.is_in_cache) {
        findings.push(Finding::hint(
            "regrow-in-cache",
            of_file(&machine.executable.path),
            "this regrow is in the cache of a package manager, which may be emptied",
            "install it, so that hosts can rely on it: `npm install -g regrow` or `uv tool install regrow`",
        ));
    }
    findings
}

fn damaged(file: &DamagedFile) -> Finding {
    let (path, problem) = (of_file(&file.path), &file.problem);
    match file.holds {
        Holds::Cache => Finding::hint(
            "cache-damaged",
            path,
            format!("a cache file cannot be read: {problem}"),
            "nothing needs to be done: Regrow replaces it; or remove it",
        ),
        Holds::Pins => Finding::broken(
            "pins-damaged",
            path,
            format!("what was approved of a server cannot be read: {problem}"),
            "run `regrow approve SERVER --config FILE` for the server that `regrow serve` complains about, or remove the file: what the server offers next is approved then",
        ),
        Holds::Account => Finding::broken(
            "account-damaged",
            path,
            format!("an account cannot be read: {problem}"),
            "remove the file, then sign in again: `regrow login URL`",
        ),
    }
}

fn listen(listen: &Listen) -> Option<Finding> {
    let (what, next) = match &listen.state {
        ListenState::Free | ListenState::Ours => return None,
        ListenState::Taken(address, problem) => (
            format!("`regrow serve` cannot listen on {address}: {problem}"),
            "end the program that listens there, or choose another port: `regrow serve --port PORT` or REGROW_PORT",
        ),
        ListenState::Unclear(problem) => (
            format!("`regrow serve` does not start: {problem}"),
            "correct the variable that begins with REGROW_",
        ),
    };
    // Where nobody chose the port, `regrow serve` may not be in use at all.
    let finding = if listen.is_chosen || matches!(listen.state, ListenState::Unclear(_)) {
        Finding::broken
    } else {
        Finding::hint
    };
    let kind = if matches!(listen.state, ListenState::Unclear(_)) { "serve-options" } else { "port-in-use" };
    Some(finding(kind, Subject::default(), what, next))
}

/// Accounts that no longer work, of servers that are in no configuration here: of others it is said there.
fn unused_accounts(facts: &Facts) -> Vec<Finding> {
    let servers = facts.files.iter().flat_map(|file| &file.servers);
    let used: Vec<_> = servers.filter_map(|server| server.remote.as_ref()?.account.as_ref()).collect();
    let expired = facts.accounts.iter().filter(|account| account.state == AccountState::SignInNeeded);
    let finding = |account: &StoredAccount| {
        Finding::hint(
            "account-expired",
            Subject { servers: vec![account.server.clone()], ..Subject::default() },
            format!("an account that no configuration here uses needs sign-in again {}", account.in_words()),
            "to use it, run `regrow login URL`; to remove it, `regrow logout URL`",
        )
    };
    expired.filter(|account| !used.contains(account)).map(finding).collect()
}
