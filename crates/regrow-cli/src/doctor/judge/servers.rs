//! Findings about configuration files and their servers.

use regrow_gateway::config::Message;

use super::super::facts::{ConfigFile, Machine, Program, Remote, Server};
use super::super::finding::{Finding, Subject};
use crate::account::stored::AccountState;
use crate::check::finding::{Finding as Visit, State};

/// Where programs come from that start most servers.
const LAUNCHERS: [(&str, &str); 12] = [
    ("npx", "install Node.js, which brings npx: https://nodejs.org"),
    ("npm", "install Node.js, which brings npm: https://nodejs.org"),
    ("node", "install Node.js: https://nodejs.org"),
    ("uvx", "install uv, which brings uvx: https://docs.astral.sh/uv"),
    ("uv", "install uv: https://docs.astral.sh/uv"),
    ("pipx", "install pipx: https://pipx.pypa.io"),
    ("python", "install Python, or write python3: https://www.python.org"),
    ("python3", "install Python: https://www.python.org"),
    ("docker", "install Docker, and start it: https://docs.docker.com/get-docker"),
    ("podman", "install Podman: https://podman.io"),
    ("bunx", "install Bun, which brings bunx: https://bun.sh"),
    ("deno", "install Deno: https://deno.com"),
];

pub(super) fn of_file(file: &ConfigFile, machine: &Machine) -> Vec<Finding> {
    let mut findings: Vec<Finding> = vec![];
    for message in &file.problems {
        let next = match message.place.line {
            0 => format!("make sure that it is a configuration which you can read{}", reload(file)),
            _ => format!("correct the file at this place{}", reload(file)),
        };
        findings.push(Finding::broken("config-file", place(file, message), message.text.clone(), next));
    }
    if !file.is_trusted && !file.servers.is_empty() {
        findings.push(Finding::hint(
            "untrusted-file",
            subject(file),
            "the file came with its folder and is not trusted, so its servers were not tried",
            format!("to see what it runs and allow it: `regrow trust {}`", file.quoted),
        ));
    }
    findings.extend(file.servers.iter().flat_map(|server| of_server(file, server, machine)));
    findings.extend(lacking(file));
    if !file.bypassing.is_empty() {
        findings.push(Finding::hint(
            "bypassing",
            subject(file),
            format!("Regrow does not supervise: {}", file.bypassing.join(", ")),
            format!("to put them behind Regrow: `regrow adopt {}`{}", file.quoted, reload(file)),
        ));
    }
    findings
}

/// How a change of the file takes effect, as the end of a sentence.
fn reload(file: &ConfigFile) -> String {
    match file.host {
        Some(host) => format!("; then {}", host.reload),
        None => "; `regrow serve` reloads it".into(),
    }
}

fn subject(file: &ConfigFile) -> Subject {
    Subject { host: Some(file.host_name()), file: Some(file.shown.clone()), ..Subject::default() }
}

fn place(file: &ConfigFile, message: &Message) -> Subject {
    let line = Some(message.place.line).filter(|line| *line > 0);
    Subject { line, servers: message.server.iter().cloned().collect(), ..subject(file) }
}

fn of_server(file: &ConfigFile, server: &Server, machine: &Machine) -> Vec<Finding> {
    let here = || Subject {
        line: Some(server.place.line).filter(|line| *line > 0),
        servers: vec![server.name.clone()],
        ..subject(file)
    };
    let mut findings: Vec<Finding> = vec![];
    for message in &server.problems {
        let what = match &message.field {
            Some(field) => format!("{field}: {}", message.text),
            None => message.text.clone(),
        };
        findings.push(match message.is_of_input() {
            true => Finding::hint(
                "input",
                place(file, message),
                what,
                format!(
                    "{} asks you for it; `regrow check` and `regrow serve` need the variable",
                    file.host_name()
                ),
            ),
            false => Finding::broken(
                "config-entry",
                place(file, message),
                what,
                format!(
                    "correct the entry, or set what it refers to where {} is started{}",
                    file.host_name(),
                    reload(file)
                ),
            ),
        });
    }
    if let Some(problem) = &server.wrap_problem {
        findings.push(Finding::broken(
            "wrap-fails",
            here(),
            format!("its `regrow wrap` does not start: {problem}"),
            format!("correct its command, see `regrow wrap --help`{}", reload(file)),
        ));
    }
    for program in &server.programs {
        findings.extend(of_program(file, program, machine, here()));
    }
    match &server.visit {
        Some(visit) if visit.state == State::Broken => findings.push(failed(file, server, visit, here())),
        _ => {}
    }
    findings
}

fn of_program(file: &ConfigFile, program: &Program, machine: &Machine, here: Subject) -> Option<Finding> {
    let Program { name: command, found, is_found_by_desktop, is_regrow, is_in_cache } = program;
    // What a configuration can rely on.
    let lasting = machine.installed.iter().chain([&machine.executable]).find(|it| !it.is_in_cache);
    let regrow = lasting.map_or("the path of an installed regrow", |it| &*it.path);
    let is_path = command.contains('/');
    match found {
        None if *is_regrow => Some(Finding::broken(
            "regrow-missing",
            here,
            match is_path {
                true => format!("its command {command} does not exist or cannot be run"),
                false => "its command regrow was not found in PATH".to_owned(),
            },
            format!("write {regrow} as its command{}", reload(file)),
        )),
        None => Some(Finding::broken(
            "program-missing",
            here,
            match is_path {
                true => format!("the program {command} does not exist or cannot be run"),
                false => format!("the program {command} was not found in PATH"),
            },
            match LAUNCHERS.iter().find(|(launcher, _)| launcher == command) {
                Some((_, advice)) => format!("{advice}{}", reload(file)),
                None => format!("install it, or write its absolute path as the command{}", reload(file)),
            },
        )),
        Some(_) if *is_regrow && *is_in_cache => Some(Finding::hint(
            "regrow-in-cache",
            here,
            format!("its command {command} is in the cache of a package manager, which may be emptied"),
            match lasting {
                Some(it) => format!("write {} as its command{}", it.path, reload(file)),
                None => "install regrow (`npm install -g regrow` or `uv tool install regrow`), and write its path as the command".into(),
            },
        )),
        Some(path) if !is_found_by_desktop && file.host.is_some_and(|host| host.is_desktop) => Some(Finding::hint(
            "desktop-path",
            here,
            format!(
                "{} may not find {command}: your shell finds {path}, but apps that are started from the desktop look in {}",
                file.host_name(),
                machine.desktop_path
            ),
            format!("write {path} instead of {command}{}", reload(file)),
        )),
        Some(_) => None,
    }
}

/// A server that was tried in vain.
fn failed(file: &ConfigFile, server: &Server, visit: &Visit, here: Subject) -> Finding {
    let (text, fault, stderr) = match &visit.problem {
        Some(problem) => (problem.text.clone(), problem.fault, problem.stderr.clone()),
        None => ("it does not work".to_owned(), None, vec![]),
    };
    if let Some(remote) = &server.remote {
        return match fault {
            Some("sign-in-needed") => refused(file, server, remote, here),
            Some("unauthorized") if remote.account.is_some() => refused(file, server, remote, here),
            Some("unauthorized") => token_refused(file, text, here),
            fault => Finding::broken("unreachable", here, text, unreachable(file, server, fault)),
        };
    }
    let env = file.host.map_or("env", |host| host.members.env);
    let mut next = match fault {
        Some("handshake-timeout") | None => format!(
            "run its command in a shell; if it is only slow at its first start, `regrow check {} --timeout 120s` waits longer",
            file.quoted
        ),
        _ if stderr.is_empty() => {
            format!("run its command in a shell to see why; its variables are in \"{env}\" of its entry")
        }
        _ => format!(
            "fix what its stderr says; what it needs in its environment goes into \"{env}\" of its entry"
        ),
    };
    if !visit.missing.is_empty() {
        next.push_str(&format!("; set here, but not passed to it: {}", visit.missing.join(", ")));
    }
    Finding { stderr, ..Finding::broken("server-fails", here, text, format!("{next}{}", reload(file))) }
}

fn unreachable(file: &ConfigFile, server: &Server, fault: Option<&str>) -> String {
    let next = match fault {
        _ if server.is_gateway => return "start the gateway: `regrow serve`".into(),
        Some("untrusted") => {
            "if its certificate is from a private authority, name that: \"caFile\" in \"regrow\" of its entry, or `regrow wrap --ca-file FILE`"
        }
        Some("unknown-host") => "check the host name in its URL, and your network",
        Some("not-mcp" | "status" | "redirected") => {
            "check the path of its URL: it often ends in /mcp or /sse"
        }
        _ => {
            "check its URL, your network, and HTTPS_PROXY and NO_PROXY; start it if it should run on this machine"
        }
    };
    format!("{next}{}", reload(file))
}

/// A remote server that accepts no credential that we have, and offers no sign-in.
fn token_refused(file: &ConfigFile, text: String, here: Subject) -> Finding {
    let next = format!("write a valid token into the headers of its entry{}", reload(file));
    Finding::broken("credential-refused", here, text, next)
}

/// A remote server that offers sign-in, or whose account it refuses.
fn refused(file: &ConfigFile, server: &Server, remote: &Remote, here: Subject) -> Finding {
    let login = format!("`regrow login {}`", remote.login);
    let account = remote.account.as_ref();
    if let Some(conflict) = &remote.conflict {
        let next = format!("correct the entry{}", reload(file));
        return Finding::broken("config-entry", here, conflict.clone(), next);
    }
    let of_account = account.map(|account| format!(" {}", account.in_words())).unwrap_or_default();
    match account.map(|account| account.state) {
        _ if remote.has_credential => {
            token_refused(file, "the server refuses the credentials of its entry".to_owned(), here)
        }
        Some(AccountState::RefreshedOnNextUse) => Finding::hint(
            "account-expired",
            here,
            format!("its access token has expired{of_account}"),
            format!(
                "nothing needs to be done: Regrow refreshes it at the next use; to try that: `regrow check {}`",
                file.quoted
            ),
        ),
        Some(AccountState::SignedIn) => Finding::broken(
            "sign-in-needed",
            here,
            format!("the server refuses the token of its account{of_account}"),
            format!("sign in again: {login}"),
        ),
        Some(AccountState::SignInNeeded) => Finding::broken(
            "sign-in-needed",
            here,
            format!("its account needs sign-in again{of_account}"),
            format!("sign in: {login}"),
        ),
        None if server.is_behind_regrow => Finding::broken(
            "sign-in-needed",
            here,
            "the server requires sign-in",
            format!("sign in: {login}"),
        ),
        None => Finding::hint(
            "sign-in-needed",
            here,
            "the server requires sign-in; Regrow cannot see whether your host is signed in",
            format!("sign in with {}; or `regrow adopt {}`, then {login}", file.host_name(), file.quoted),
        ),
    }
}

/// One finding for all servers of a file that lack the same.
fn lacking(file: &ConfigFile) -> Vec<Finding> {
    let mut groups: Vec<(&[String], Vec<&str>)> = vec![];
    for server in file.servers.iter().filter(|server| !server.lacks.is_empty()) {
        match groups.iter_mut().find(|(lacks, _)| *lacks == server.lacks) {
            Some((_, names)) => names.push(&server.name),
            None => groups.push((&server.lacks, vec![&server.name])),
        }
    }
    let finding = |(lacks, servers): (&[String], Vec<&str>)| {
        let (names, servers) = (lacks.join(", "), servers.join(", "));
        let (what, next) = match file.host {
            Some(host) => (
                format!("{names}: set in your shell, but {} may not pass it to {servers}", host.name),
                format!(
                    "if they need it for the network, write it into \"{}\" of their entries{}",
                    host.members.env,
                    reload(file)
                ),
            ),
            None => (
                format!("{names}: set here, but `regrow serve` does not pass it to {servers}"),
                format!(
                    "if they need it, write \"env\": {{ \"inherit\": [\"{}\"] }} into their entries",
                    lacks.join("\", \"")
                ),
            ),
        };
        Finding::hint("variable-not-passed", subject(file), what, next)
    };
    groups.into_iter().map(finding).collect()
}
