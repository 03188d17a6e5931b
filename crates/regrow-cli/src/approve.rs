//! `regrow approve`: shows what a server changed since it was approved, and approves it.

use std::io::{self, Write};
use std::path::Path;

use regrow_gateway::catalog::{Change, PinFolder, PinOwner, Pins, StoredPins, difference};
use regrow_gateway::config::{Config, Surroundings};
use regrow_protocol::list::List;
use regrow_protocol::text::escape;

use crate::arguments::Approve;
use crate::ask::{ask, can_ask};
use crate::terminal::Screen;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED, operate};

pub(crate) fn run(options: &Approve) -> u8 {
    approve(options).unwrap_or_else(|failure| {
        eprintln!("regrow: {}", failure.message);
        failure.code
    })
}

struct ApproveFailure {
    message: String,
    code: u8,
}

fn usage(message: String) -> ApproveFailure {
    ApproveFailure { message, code: USAGE }
}

fn failed(error: &io::Error) -> ApproveFailure {
    ApproveFailure { message: error.to_string(), code: WE_FAILED }
}

fn approve(options: &Approve) -> Result<u8, ApproveFailure> {
    let folder = PinFolder::of_user().ok_or_else(|| usage("there is no home folder, so no pins".into()))?;
    let server = escape(&options.server);
    let mut pins = match find(options, &folder)? {
        Found::Pins(pins) => *pins,
        Found::Damaged(owner, reason) => {
            let text = format!(
                "the pins of {server} cannot be read: {reason}\nWhat it offers next would be approved.\n"
            );
            return match show(&text)
                .and_then(|()| agreed(options, "Start again"))
                .map_err(|error| failed(&error))?
            {
                false => Ok(SERVER_FAILED),
                true => {
                    folder.remove(&owner).map_err(|error| failed(&error))?;
                    Ok(tell(options))
                }
            };
        }
    };
    let changes = pins.changes(options.tool.as_deref());
    if changes.is_empty() {
        eprintln!("regrow: {server}: nothing has changed since it was approved");
        return Ok(DONE);
    }
    let text: String = changes.iter().map(|change| described(change, &pins.owner)).collect();
    if !show(&text).and_then(|()| agreed(options, "Approve")).map_err(|error| failed(&error))? {
        return Ok(SERVER_FAILED);
    }
    pins.approve(options.tool.as_deref());
    folder.write(&pins).map_err(|error| failed(&error))?;
    Ok(tell(options))
}

enum Found {
    Pins(Box<Pins>),
    Damaged(PinOwner, String),
}

/// The pins of the server that is meant.
fn find(options: &Approve, folder: &PinFolder) -> Result<Found, ApproveFailure> {
    let server = escape(&options.server);
    if let Some(path) = &options.config {
        let owner = PinOwner::of(path, &options.server);
        return match folder.read(&owner) {
            StoredPins::Pins(pins) => Ok(Found::Pins(pins)),
            StoredPins::Damaged(reason) => Ok(Found::Damaged(owner, reason)),
            StoredPins::None => Err(usage(format!("{server} of {} was never served", escape(&owner.config)))),
        };
    }
    let mut all = folder.of_server(&options.server);
    if all.len() > 1 {
        all.retain(|pins| !pins.changes(options.tool.as_deref()).is_empty());
    }
    match &all[..] {
        [] => Err(usage(format!(
            "no change of a server named {server} is known; if its pins are damaged, name its file with --config"
        ))),
        [only] => Ok(Found::Pins(Box::new(only.clone()))),
        several => {
            let files: Vec<String> = several.iter().map(|pins| escape(&pins.owner.config)).collect();
            let files = files.join(", ");
            Err(usage(format!(
                "several files have a server named {server}; choose one with --config: {files}"
            )))
        }
    }
}

fn described(change: &Change<'_>, owner: &PinOwner) -> String {
    match change {
        Change::Endpoint => {
            let mut text = "The command, an argument or the URL has changed. It is now:\n".to_owned();
            written(owner).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
            text
        }
        Change::Item { list, name, approved, changed } => {
            let kind = if *list == List::Prompts { "prompt" } else { "tool" };
            format!(
                "The {kind} {} has changed:\n{}",
                escape(name),
                Screen::stdout().difference(&difference(approved, changed))
            )
        }
    }
}

/// How the server is reached, as its file says it.
fn written(owner: &PinOwner) -> Vec<String> {
    let read = Config::read(&[Path::new(&owner.config)], &Surroundings::of_process());
    let all = read.map(|config| config.written).unwrap_or_default();
    let of_server = all.into_iter().find(|(name, _)| *name == owner.server.escape_debug().to_string());
    of_server.map(|(_, lines)| lines).unwrap_or_else(|| vec![format!("see {}", escape(&owner.config))])
}

fn show(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}

/// Whether the person wants it. Where nobody can be asked, it is only shown.
fn agreed(options: &Approve, what: &str) -> io::Result<bool> {
    if options.yes {
        return Ok(true);
    }
    if !can_ask() {
        eprintln!("regrow: nothing was approved; --yes approves it");
        return Ok(false);
    }
    let is_yes = ask(&format!("{what}? [y/N] "))?;
    if !is_yes {
        eprintln!("regrow: nothing was approved");
    }
    Ok(is_yes)
}

/// Lets running gateways know.
fn tell(options: &Approve) -> u8 {
    eprintln!("regrow: {}: approved", escape(&options.server));
    operate::tell_approved(&options.gateway, &options.server)
}
