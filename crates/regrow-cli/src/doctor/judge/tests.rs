use regrow_gateway::config::Place;
use regrow_gateway::hosts::Host;

use super::super::facts::{ConfigFile, Executable, Listen, ListenState, Machine, Program, Remote, Server};
use super::super::finding::Level;
use super::*;
use crate::account::stored::{AccountState, StoredAccount};
use crate::check::finding::{Finding as Visit, Problem, State};

fn machine() -> Machine {
    let executable = |is_this| Executable {
        path: "/usr/bin/regrow".into(),
        version: Some("regrow 1.0.0".into()),
        is_in_cache: false,
        is_this,
    };
    Machine {
        executable: executable(true),
        has_home: true,
        installed: vec![executable(true)],
        folders: vec![],
        damaged: vec![],
        network: vec![],
        listen: Listen { state: ListenState::Free, is_chosen: false },
        desktop_path: "/usr/bin".into(),
    }
}

fn server() -> Server {
    Server {
        name: "x".into(),
        place: Place { file: "/h/x.json".into(), line: 3, column: 5 },
        problems: vec![],
        wrap_problem: None,
        is_behind_regrow: true,
        is_regrow: false,
        is_gateway: false,
        programs: vec![],
        lacks: vec![],
        remote: None,
        visit: None,
    }
}

fn file(host: &str, servers: Vec<Server>) -> ConfigFile {
    ConfigFile {
        shown: "/h/x.json".into(),
        quoted: "/h/x.json".into(),
        host: Host::named(host),
        is_trusted: true,
        problems: vec![],
        servers,
        bypassing: vec![],
    }
}

fn facts(host: &str, servers: Vec<Server>) -> Facts {
    Facts { machine: machine(), files: vec![file(host, servers)], accounts: vec![] }
}

/// A remote server that failed so.
fn remote(fault: &'static str, account: Option<AccountState>) -> Server {
    let account = account.map(|state| StoredAccount {
        server: "https://a.example/mcp".into(),
        account: String::new(),
        issuer: "https://issuer.example/tenant".into(),
        scope: None,
        expires_at: None,
        state,
    });
    let problem = Problem { text: "it failed".into(), fault: Some(fault), stderr: vec![], entry: vec![] };
    let visit = Visit { state: State::Broken, problem: Some(problem), ..Visit::disabled("x".into()) };
    let remote =
        Remote { login: "https://a.example/mcp".into(), has_credential: false, conflict: None, account };
    Server { remote: Some(remote), visit: Some(visit), ..server() }
}

/// `level kind: what -> next` of the only finding.
fn only(facts: &Facts) -> String {
    let findings = judge(facts);
    let [Finding { level, kind, what, next, .. }] = &findings[..] else { panic!("{findings:?}") };
    format!("{level:?} {kind}: {what} -> {next}")
}

fn of_server(host: &str, server: Server) -> String {
    only(&facts(host, vec![server]))
}

#[test]
fn a_healthy_machine_has_no_findings_and_what_is_broken_comes_first() {
    assert_eq!(judge(&facts("Cursor", vec![server()])), []);
    let mut facts = facts("Cursor", vec![Server { lacks: vec!["HTTPS_PROXY".into()], ..server() }]);
    facts.machine.has_home = false;
    let levels: Vec<Level> = judge(&facts).iter().map(|finding| finding.level).collect();
    assert_eq!(levels, [Level::Broken, Level::Hint]);
    facts.files.clear();
    facts.machine.has_home = true;
    assert!(only(&facts).starts_with("Hint no-hosts: "));
}

#[test]
fn who_must_sign_in_depends_on_the_account_and_on_the_host() {
    let refused = |account| of_server("Cursor", remote("sign-in-needed", account));
    let table = [
        (
            None,
            "Broken sign-in-needed: the server requires sign-in -> sign in: `regrow login https://a.example/mcp`",
        ),
        (
            Some(AccountState::SignInNeeded),
            "Broken sign-in-needed: its account needs sign-in again (issuer issuer.example) -> sign in",
        ),
        (
            Some(AccountState::SignedIn),
            "Broken sign-in-needed: the server refuses the token of its account (issuer issuer.example)",
        ),
        (Some(AccountState::RefreshedOnNextUse), "Hint account-expired: its access token has expired"),
    ];
    for (account, expected) in table {
        assert!(refused(account).starts_with(expected), "{}", refused(account));
    }
    let said = of_server("Cursor", remote("unauthorized", None));
    assert!(said.starts_with("Broken credential-refused: it failed -> write a valid token"), "{said}");
    let mut second = remote("sign-in-needed", None);
    second.remote.as_mut().unwrap().conflict = Some("set another account".into());
    let said = of_server("Cursor", second);
    assert!(said.starts_with("Broken config-entry: set another account -> correct the entry"), "{said}");
    // Hosts sign in on their own, too.
    let direct = Server { is_behind_regrow: false, ..remote("sign-in-needed", None) };
    let said = of_server("Cursor", direct);
    assert!(
        said.starts_with("Hint sign-in-needed: ") && said.contains("sign in with Cursor; or `regrow adopt"),
        "{said}"
    );
}

#[test]
fn a_remote_server_that_fails_has_a_next_step_for_its_fault() {
    let next = |fault| of_server("Cursor", remote(fault, None));
    assert!(next("untrusted").contains("\"caFile\""), "{}", next("untrusted"));
    assert!(next("unknown-host").contains("check the host name"));
    assert!(next("not-mcp").contains("/mcp or /sse"));
    assert!(next("unreachable").contains("NO_PROXY; start it"));
    let gateway = Server { is_gateway: true, ..remote("unreachable", None) };
    assert_eq!(
        of_server("Cursor", gateway),
        "Broken unreachable: it failed -> start the gateway: `regrow serve`"
    );
}

#[test]
fn only_hosts_of_the_desktop_lack_the_path_of_the_shell() {
    let npx = || Program {
        name: "npx".into(),
        found: Some("/h/.nvm/npx".into()),
        is_found_by_desktop: false,
        is_regrow: false,
        is_in_cache: false,
    };
    let with_npx = || Server { programs: vec![npx()], ..server() };
    assert_eq!(judge(&facts("Claude Code", vec![with_npx()])), []);
    let said = of_server("Claude Desktop", with_npx());
    let expected = "Hint desktop-path: Claude Desktop may not find npx: your shell finds /h/.nvm/npx, but apps that are \
                    started from the desktop look in /usr/bin -> write /h/.nvm/npx instead of npx; then quit Claude Desktop";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn servers_that_wait_for_the_same_are_named_together() {
    let missing = |name: &str, program: &str| Server {
        name: name.into(),
        programs: vec![Program {
            name: program.into(),
            found: None,
            is_found_by_desktop: false,
            is_regrow: false,
            is_in_cache: false,
        }],
        ..server()
    };
    let servers = vec![missing("a", "uvx"), missing("b", "npx"), missing("c", "uvx")];
    let findings = judge(&facts("Cursor", servers));
    let named: Vec<String> = findings.iter().map(|finding| finding.subject.servers.join(" ")).collect();
    assert_eq!(named, ["a c", "b"]);
}

#[test]
fn a_taken_port_is_a_problem_only_for_those_who_chose_it() {
    let address = "127.0.0.1:8732".parse().unwrap();
    for (is_chosen, level) in [(false, "Hint"), (true, "Broken")] {
        let mut facts = facts("Cursor", vec![]);
        facts.machine.listen = Listen { state: ListenState::Taken(address, "in use".into()), is_chosen };
        assert!(
            only(&facts)
                .starts_with(&format!("{level} port-in-use: `regrow serve` cannot listen on 127.0.0.1:8732"))
        );
        facts.machine.listen.state = ListenState::Ours;
        assert_eq!(judge(&facts), []);
    }
}

#[test]
fn a_regrow_that_may_vanish_is_only_named_where_no_other_is_installed() {
    let mut facts = facts("Cursor", vec![]);
    facts.machine.executable.is_in_cache = true;
    assert_eq!(judge(&facts), []);
    facts.machine.installed.clear();
    assert!(only(&facts).starts_with("Hint regrow-in-cache: this regrow is in the cache"));
}
