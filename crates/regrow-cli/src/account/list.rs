//! `regrow accounts`: which accounts there are, without their secrets.

use serde_json::json;

use super::login::say;
use super::store;
use super::stored::StoredAccount;
use crate::arguments::sign_in::Accounts;
use crate::table::{Columns, print, printable};
use crate::terminal::Screen;
use crate::{DONE, WE_FAILED};

const COLUMNS: Columns<5> = Columns {
    heading: ["SERVER", "ACCOUNT", "ISSUER", "EXPIRES", "STATE"],
    numbers: &[],
    optional: &[2, 3, 1],
};

pub(crate) fn run(options: &Accounts) -> u8 {
    let listed = store().and_then(|store| store.list().map_err(|error| error.to_string()));
    let listed = match listed {
        Ok(listed) => listed,
        Err(message) => return say(WE_FAILED, &message),
    };
    let mut code = DONE;
    let mut accounts = vec![];
    for read in listed {
        match read {
            Ok(account) => accounts.push(StoredAccount::of(&account)),
            Err(error) => code = say(WE_FAILED, &error.to_string()),
        }
    }
    let text = match options.json {
        true => format!("{:#}\n", json!(accounts)),
        false if accounts.is_empty() => "No accounts. To sign in: regrow login URL\n".into(),
        false => {
            let rows: Vec<[String; 5]> = accounts.iter().map(row).collect();
            COLUMNS.lines(&rows, Screen::stdout().width()).concat()
        }
    };
    match print(&text) {
        Ok(()) => code,
        Err(error) => say(WE_FAILED, &format!("cannot write to standard output: {error}")),
    }
}

fn row(account: &StoredAccount) -> [String; 5] {
    let label = if account.account.is_empty() { "-" } else { &account.account };
    let expires = account.expires_at.clone().unwrap_or_else(|| "-".into());
    let state = account.state.name().to_owned();
    [account.server.clone(), printable(label), printable(&account.issuer_host()), expires, state]
}
