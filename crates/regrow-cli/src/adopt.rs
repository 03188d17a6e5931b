//! `regrow adopt`: puts the servers of a host's configuration behind `regrow wrap`, and takes them out again.

mod file;
mod program;

use std::io::{self, Write};

use regrow_gateway::adopt::{self, Outcome, Plan, Step};

use crate::arguments::Adopt;
use crate::ask::{ask, can_ask};
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};
use file::HostFile;

pub(crate) fn run(options: Adopt) -> u8 {
    let program = match program::path() {
        Ok(program) => program,
        Err(message) => return failed(&message),
    };
    let file = match HostFile::read(&options.file) {
        Ok(file) => file,
        Err(message) => return usage(&message),
    };
    let make = if options.undo { adopt::undo } else { adopt::adopt };
    let plan = match make(file.named(), file.text(), &program, options.server.as_deref()) {
        Ok(plan) => plan,
        Err(error) => return usage(&format!("{}: {error}", file.shown())),
    };
    if let Err(error) = show(&plan, &file) {
        // A reader that has left has not agreed to anything.
        return if error.kind() == io::ErrorKind::BrokenPipe { DONE } else { failed(&error.to_string()) };
    }
    let refused = plan.steps.iter().any(|step| matches!(step.outcome, Outcome::Refused(_)));
    let code = if refused && options.server.is_some() { SERVER_FAILED } else { DONE };
    if plan.is_empty() {
        eprintln!("regrow: there is nothing to change in {}", file.shown());
        return code;
    }
    match agreed(&options, &file) {
        Ok(true) => {}
        Ok(false) => return code,
        Err(error) => return failed(&error.to_string()),
    }
    let changed = if options.undo {
        file.replace(&plan.text).map(|()| remove_backups(&file, &plan, &program))
    } else {
        file.replace_with_backup(&plan.text).map(|backup| {
            vec![format!(
                "the original is in {backup}; `regrow adopt --undo` restores the file and removes it"
            )]
        })
    };
    match changed {
        Ok(remarks) => {
            eprintln!("regrow: {} is changed; restart the host for it to take effect", file.shown());
            remarks.iter().for_each(|remark| eprintln!("regrow: {remark}"));
            code
        }
        Err(message) => failed(&message),
    }
}

/// After an undo: backups that say nothing about servers which the file does not say are removed, because they hold its secrets, too.
fn remove_backups(file: &HostFile, plan: &Plan, program: &str) -> Vec<String> {
    let (gone, left) =
        file.remove_backups(|backup| adopt::is_spent(file.named(), backup, &plan.text, program));
    let gone = gone.iter().map(|name| format!("the backup {name} is removed"));
    let left = left.iter().map(|name| {
        format!("the backup {name} stays, because its servers are not the same as those in the file now; remove it if you do not need it")
    });
    gone.chain(left).collect()
}

/// What becomes of each server, and the lines that change.
fn show(plan: &Plan, file: &HostFile) -> io::Result<()> {
    let mut output = io::stdout().lock();
    for step in &plan.steps {
        writeln!(output, "{}", line(step))?;
    }
    if !plan.is_empty() {
        write!(output, "\n--- {0}\n+++ {0}\n{1}", file.shown(), plan.difference(file.text()))?;
    }
    output.flush()
}

fn line(step: &Step) -> String {
    let name: String = step.server.escape_debug().to_string().chars().take(100).collect();
    let said = match &step.outcome {
        Outcome::Changed => "is changed".to_owned(),
        Outcome::ChangedWith(remark) => format!("is changed; {remark}"),
        Outcome::Left(why) => format!("stays; {why}"),
        Outcome::Refused(why) => format!("stays: {why}"),
    };
    format!("{name} (line {}): {said}", step.line)
}

/// Whether the change is wanted. Where nobody can be asked, it is only shown.
fn agreed(options: &Adopt, file: &HostFile) -> io::Result<bool> {
    if options.yes {
        return Ok(true);
    }
    if !can_ask() {
        eprintln!("regrow: nothing was changed; --yes changes {}", file.shown());
        return Ok(false);
    }
    let agreed = ask(&format!("\nChange {}? [y/N] ", file.shown()))?;
    if !agreed {
        eprintln!("regrow: nothing was changed");
    }
    Ok(agreed)
}

fn usage(message: &str) -> u8 {
    eprintln!("regrow: {message}\nTry `regrow adopt --help`.");
    USAGE
}

fn failed(message: &str) -> u8 {
    eprintln!("regrow: {message}");
    WE_FAILED
}
