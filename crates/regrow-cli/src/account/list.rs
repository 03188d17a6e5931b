//! `regrow accounts`: which accounts there are, without their secrets.

use std::time::{Duration, UNIX_EPOCH};

use regrow_auth::account::Account;
use regrow_auth::token::now;
use reqwest::Url;
use serde_json::{Value, json};

use super::login::say;
use super::{shown, store};
use crate::arguments::sign_in::Accounts;
use crate::table::{lines, print, printable};
use crate::{DONE, WE_FAILED};

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
            Ok(account) => accounts.push(account),
            Err(error) => code = say(WE_FAILED, &error.to_string()),
        }
    }
    let text = match options.json {
        true => format!("{:#}\n", Value::from(accounts.iter().map(as_json).collect::<Vec<_>>())),
        false if accounts.is_empty() => "No accounts. To sign in: regrow login URL\n".into(),
        false => {
            let rows: Vec<[String; 5]> = accounts.iter().map(row).collect();
            lines(["SERVER", "ACCOUNT", "ISSUER", "EXPIRES", "STATE"], |_| false, &rows).concat()
        }
    };
    match print(&text) {
        Ok(()) => code,
        Err(error) => say(WE_FAILED, &format!("cannot write to standard output: {error}")),
    }
}

fn row(account: &Account) -> [String; 5] {
    let label = if account.key.label.is_empty() { "-" } else { &account.key.label };
    let expires = expiry(account).unwrap_or_else(|| "-".into());
    [shown(&account.key), printable(label), printable(&issuer(account)), expires, state(account).into()]
}

fn as_json(account: &Account) -> Value {
    json!({
        "server": shown(&account.key),
        "account": account.key.label,
        "issuer": account.server.issuer,
        "scope": account.tokens.as_ref().and_then(|tokens| tokens.scope.clone()),
        "expiresAt": expiry(account),
        "state": state(account),
    })
}

fn issuer(account: &Account) -> String {
    let url = Url::parse(&account.server.issuer).ok();
    url.and_then(|url| Some(url.host_str()?.to_owned())).unwrap_or_default()
}

/// When the access token expires, if that is known.
fn expiry(account: &Account) -> Option<String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(account.tokens.as_ref()?.expires_at?))?;
    // Dates after the year 9999 cannot be written so.
    (time < UNIX_EPOCH + Duration::from_secs(253_402_300_800))
        .then(|| humantime::format_rfc3339_seconds(time).to_string())
}

fn state(account: &Account) -> &'static str {
    let Some(tokens) = account.tokens.as_ref().filter(|_| account.rejected.is_none()) else {
        return "sign-in-needed";
    };
    let has_expired = tokens.expires_at.is_some_and(|expires_at| expires_at <= now());
    match (has_expired, &tokens.refresh_token) {
        (true, None) => "sign-in-needed",
        (true, Some(_)) => "refreshed-on-next-use",
        (false, _) => "signed-in",
    }
}
