//! Ways to sign in other than with a browser on this computer, and out.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sign_in::{browse, issuer, regrow, said, sent_back, sign_in};
use crate::terminal::Terminal;

#[test]
fn the_address_of_the_last_page_can_be_pasted_into_the_terminal() {
    let (issuer, folder) = (issuer(), TempDir::new().unwrap());
    let server = issuer.server();
    let login = &["login", server.as_str(), "--no-browser"];
    let (mut terminal, mut login) = Terminal::start(&mut regrow(folder.path(), login), true);
    terminal.read_until("paste the address of the last page here.");
    let page = terminal.seen.lines().map(str::trim).find(|line| line.starts_with("http://")).unwrap();
    let last_page = sent_back(&browse(page));
    terminal.write("http://127.0.0.1/elsewhere\n");
    terminal.read_until("paste the whole address");
    terminal.write(&format!("{last_page}\n"));
    terminal.read_until("Signed in to");
    assert!(login.wait().unwrap().success(), "{}", terminal.seen);
}

#[test]
fn a_person_signs_in_on_another_device() {
    let (issuer, folder) = (issuer(), TempDir::new().unwrap());
    let login = regrow(folder.path(), &["login", issuer.server().as_str(), "--device"]).output().unwrap();
    assert!(login.status.success(), "{}", said(&login));
    assert!(said(&login).contains("enter and enter the code ABCD-1234"), "{}", said(&login));
    assert_eq!(
        issuer.grants(),
        ["urn:ietf:params:oauth:grant-type:device_code"; 2],
        "it waits for the person"
    );
    let listed = regrow(folder.path(), &["accounts", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["state"], "signed-in", "{listed}");
}

#[test]
fn fresh_registers_another_client_and_all_accounts_are_signed_out_together() {
    let (issuer, folder) = (issuer(), TempDir::new().unwrap());
    let (server, state) = (issuer.server(), folder.path());
    for more in [&[][..], &["--fresh"], &["--account", "work"]] {
        let login = sign_in(state, &[&["login", server.as_str(), "--no-browser"], more].concat());
        assert!(login.status.success(), "{}", said(&login));
    }
    let clients: Vec<String> = issuer.heard("/token").iter().map(|form| form.field("client_id")).collect();
    assert_eq!(clients, ["client-1", "client-2", "client-3"]);

    let logout = regrow(state, &["logout", "--all"]).output().unwrap();
    assert!(logout.status.success(), "{}", said(&logout));
    let mut ended: Vec<String> = issuer.heard("/revoke").iter().map(|form| form.field("token")).collect();
    ended.sort();
    assert_eq!(ended, ["access-token-2", "access-token-3", "refresh-token-2", "refresh-token-3"]);
    let listed = regrow(state, &["accounts", "--json"]).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&listed.stdout).unwrap(), json!([]));
}
