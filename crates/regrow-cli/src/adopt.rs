//! `regrow adopt`: puts the servers of a host's configuration behind `regrow wrap`, and takes them out again.

mod file;
pub(crate) mod program;

use std::io::{self, Write};
use std::path::Path;

use regrow_gateway::adopt::{self, Outcome, Plan, PlanError, Step};
use regrow_gateway::config::{Surroundings, files_of_user};
use regrow_gateway::hosts::Host;

use crate::arguments::Adopt;
use crate::ask::{ask, can_ask};
use crate::terminal::Screen;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};
use file::HostFile;
use program::Program;

pub(crate) fn run(options: Adopt) -> u8 {
    let program = match Program::find(options.path.as_deref()) {
        Ok(program) => program,
        Err(message) => return usage(&message),
    };
    let result = match &options.file {
        Some(file) => one(file, &program, &options),
        None => all(&program, &options),
    };
    match result {
        Ok(code) => code,
        Err(Failure::Usage(message)) => usage(&message),
        Err(Failure::Ours(message)) => failed(&message),
        // A reader that has left has not agreed to anything.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(Failure::Output(error)) => failed(&error.to_string()),
    }
}

/// Why it did not work.
enum Failure {
    /// What the user should change.
    Usage(String),
    Ours(String),
    /// Nothing can be shown or asked.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// A file, and what is to be done with it.
struct Job {
    file: HostFile,
    program: String,
    plan: Plan,
}

/// The file that was named.
fn one(path: &Path, program: &Program, options: &Adopt) -> Result<u8, Failure> {
    let file = HostFile::read(path).map_err(Failure::Usage)?;
    let shown = file.shown().to_owned();
    let job =
        prepare(file, program, options)?.map_err(|error| Failure::Usage(format!("{shown}: {error}")))?;
    let is_there = |name: &&String| job.plan.steps.iter().any(|step| step.server == **name);
    if let Some(missing) = options.server.iter().find(|name| !is_there(name)) {
        return Err(Failure::Usage(format!("{shown}: no server is called {}", missing.escape_debug())));
    }
    show(&job)?;
    if job.plan.is_empty() {
        eprintln!("regrow: there is nothing to change in {shown}");
    } else {
        finish(&job, options)?;
    }
    Ok(code(std::slice::from_ref(&job), options))
}

/// The files of the hosts that this user has. They are changed only with `--all`.
fn all(program: &Program, options: &Adopt) -> Result<u8, Failure> {
    let mut jobs = vec![];
    let mut is_broken = false;
    for path in files_of_user(&Surroundings::of_process()) {
        let file = match HostFile::read(&path) {
            Ok(file) => file,
            Err(message) => {
                eprintln!("regrow: {message}");
                is_broken = true;
                continue;
            }
        };
        let shown = file.shown().to_owned();
        match prepare(file, program, options)? {
            Ok(job) => jobs.push(job),
            Err(PlanError::NoServers | PlanError::NoSuchServer { .. }) => {}
            Err(error) => {
                eprintln!("regrow: {shown}: {error}");
                is_broken = true;
            }
        }
    }
    let names = || jobs.iter().flat_map(|job| &job.plan.steps).map(|step| &step.server);
    if let Some(missing) = options.server.iter().find(|name| names().all(|other| other != *name)) {
        return Err(Failure::Usage(format!(
            "no host has a server that is called {}",
            missing.escape_debug()
        )));
    }
    if jobs.is_empty() && !is_broken {
        eprintln!(
            "regrow: no host that Regrow knows has a server here; name its configuration: `regrow adopt FILE`"
        );
    }
    for job in &jobs {
        show(job)?;
        if options.all && !job.plan.is_empty() {
            finish(job, options)?;
        }
    }
    let changes = jobs.iter().filter(|job| !job.plan.is_empty()).count();
    if changes == 0 && !jobs.is_empty() {
        eprintln!("regrow: there is nothing to change");
    } else if changes > 0 && !options.all {
        eprintln!(
            "regrow: nothing was changed; `regrow adopt {0}--all` changes these files, `regrow adopt {0}FILE` one of them",
            if options.undo { "--undo " } else { "" }
        );
    }
    Ok(if is_broken { SERVER_FAILED } else { code(&jobs, options) })
}

/// A server that was named and cannot be changed is a failure.
fn code(jobs: &[Job], options: &Adopt) -> u8 {
    let mut steps = jobs.iter().flat_map(|job| &job.plan.steps);
    let is_refused = steps.any(|step| matches!(step.outcome, Outcome::Refused(_)));
    if is_refused && !options.server.is_empty() { SERVER_FAILED } else { DONE }
}

fn prepare(file: HostFile, program: &Program, options: &Adopt) -> Result<Result<Job, PlanError>, Failure> {
    let hosts = Host::of_file(file.named());
    let program = match options.undo {
        true => options.path.clone().unwrap_or_else(|| "regrow".into()),
        false => program.for_host(hosts.iter().any(|host| host.is_desktop)).map_err(Failure::Usage)?,
    };
    let make = if options.undo { adopt::undo } else { adopt::adopt };
    let plan = make(file.named(), file.text(), &program, &options.server);
    Ok(plan.map(|plan| Job { file, program, plan }))
}

/// Changes the file, if that is wanted.
fn finish(job: &Job, options: &Adopt) -> Result<(), Failure> {
    if !agreed(options, &job.file)? {
        return Ok(());
    }
    let Job { file, plan, .. } = job;
    let remarks = match options.undo {
        true => file.replace(&plan.text).map(|()| remove_backups(job)),
        false => file.replace_with_backup(&plan.text).map(|backup| {
            vec![format!(
                "the original is in {backup}; `regrow adopt --undo {}` restores the file and removes it",
                file.shown()
            )]
        }),
    };
    let remarks = remarks.map_err(Failure::Ours)?;
    let hosts = Host::of_file(file.named());
    let next = match &hosts[..] {
        [host] => host.reload,
        _ => "restart the host for it to take effect",
    };
    eprintln!("regrow: {} is changed; next: {next}", file.shown());
    remarks.iter().for_each(|remark| eprintln!("regrow: {remark}"));
    Ok(())
}

/// After an undo: backups that say nothing about servers which the file does not say are removed, because they hold its secrets, too.
fn remove_backups(job: &Job) -> Vec<String> {
    let Job { file, plan, program } = job;
    let (gone, left) =
        file.remove_backups(|backup| adopt::is_spent(file.named(), backup, &plan.text, program));
    let gone = gone.iter().map(|name| format!("the backup {name} is removed"));
    let left = left.iter().map(|name| {
        format!("the backup {name} stays, because its servers are not the same as those in the file now; remove it if you do not need it")
    });
    gone.chain(left).collect()
}

/// What becomes of each server, and the lines that change.
fn show(job: &Job) -> io::Result<()> {
    let Job { file, plan, .. } = job;
    let mut output = io::stdout().lock();
    if let [host] = &Host::of_file(file.named())[..] {
        writeln!(output, "{}: {}", host.name, file.shown())?;
    }
    for step in &plan.steps {
        writeln!(output, "{}", line(step))?;
    }
    if !plan.is_empty() {
        writeln!(
            output,
            "\n--- {0}\n+++ {0}\n{1}",
            file.shown(),
            Screen::stdout().difference(&plan.difference(file.text()))
        )?;
    }
    output.flush()
}

fn line(step: &Step) -> String {
    let name: String = step.server.escape_debug().to_string().chars().take(100).collect();
    let said = match &step.outcome {
        Outcome::Changed => "changes".to_owned(),
        Outcome::ChangedWith(remark) => format!("changes; {remark}"),
        Outcome::Left(why) => format!("unchanged: {why}"),
        Outcome::Refused(why) => format!("unchanged: {why}"),
    };
    format!("{name} (line {}): {said}", step.line)
}

/// Whether the change is wanted. Where nobody can be asked, it is only shown.
fn agreed(options: &Adopt, file: &HostFile) -> io::Result<bool> {
    if options.dry_run {
        return Ok(false);
    }
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
