//! Hears what people want while clients are served: signals, other configurations, and answers at the terminal.

use std::io;
use std::path::PathBuf;

use regrow_gateway::audit::{Audit, Event, Record};
use regrow_gateway::{Changes, Gateway};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use super::say_broken;
use crate::ask::can_ask;
use crate::files::{Files, Unusable};
use crate::folder_config::{self, FolderConfig};
use crate::watch::Watch;

pub(super) struct Overseer {
    files: Option<Files>,
    pub(super) audit: Audit,
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    watch: Watch,
    /// Whether a person may be asked: standard input is no client.
    may_ask: bool,
    /// A thread that waits for the answer to the question whether a changed configuration may run.
    question: Option<JoinHandle<bool>>,
}

impl Overseer {
    pub(super) fn new(files: Option<Files>, audit: Audit, may_ask: bool) -> io::Result<Overseer> {
        let mut paths: Vec<PathBuf> = files.iter().flat_map(|files| files.paths.clone()).collect();
        if files.as_ref().is_some_and(|files| files.needs_trust) {
            // `regrow trust` takes effect at once.
            paths.extend(folder_config::folder().filter(|folder| folder.is_dir()));
        }
        Ok(Overseer {
            files,
            audit,
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            watch: Watch::new(&paths).map_err(io::Error::other)?,
            may_ask,
            question: None,
        })
    }

    /// Takes other configurations as they come, until the first signal.
    pub(super) async fn oversee(&mut self, gateway: &Gateway) {
        loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {}
                () = self.watch.next() => {}
                is_yes = answer(&mut self.question) => if !is_yes { continue },
            }
            self.reload(gateway);
        }
    }

    /// Resolves with the next signal.
    pub(super) async fn told_again(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// A bad file changes nothing, and neither does one that is not trusted. Log and status say why.
    fn reload(&mut self, gateway: &Gateway) {
        let Some(files) = &self.files else { return };
        let (outcome, problem) = match files.read_or_ask(false) {
            Ok(config) => {
                say_broken(&config);
                tell(&gateway.reload(config));
                return gateway.set_config_problem(None);
            }
            Err(Unusable::Problems(problems)) => {
                eprintln!("{problems}");
                tracing::warn!("the configuration has problems; keeping the previous one");
                let problem =
                    format!("the configuration has problems, so the previous one is in use: {problems}");
                ("rejected", problem)
            }
            Err(Unusable::Untrusted(config)) => {
                let problem = format!(
                    "the configuration has changed and is not trusted, so the previous one is in use; {}",
                    config.advice()
                );
                tracing::warn!("{problem}");
                self.ask(config);
                ("untrusted", problem)
            }
        };
        let _ = self.audit.write(&Record::new(Event::Config, outcome)); // No response waits for the line.
        gateway.set_config_problem(Some(problem));
    }

    /// Asks on a thread of its own: clients are served meanwhile. One question at a time; what has changed since is asked about after that.
    fn ask(&mut self, config: FolderConfig) {
        if self.may_ask && self.question.is_none() && can_ask() {
            self.question = Some(tokio::task::spawn_blocking(move || config.ask().unwrap_or(false)));
        }
    }
}

/// The answer to the question, if one is asked.
async fn answer(question: &mut Option<JoinHandle<bool>>) -> bool {
    let Some(thread) = question else { return std::future::pending().await };
    let is_yes = thread.await.unwrap_or(false);
    *question = None;
    is_yes
}

fn tell(changes: &Changes) {
    let Changes { added, removed, changed, kept } = changes;
    if added.is_empty() && removed.is_empty() && changed.is_empty() {
        return tracing::info!("configuration reloaded: nothing changed");
    }
    let names = |names: &[String]| {
        names.iter().map(|name| name.escape_debug().to_string()).collect::<Vec<_>>().join(", ")
    };
    let parts = [("new", added), ("gone", removed), ("changed", changed)];
    let parts = parts.into_iter().filter(|(_, servers)| !servers.is_empty());
    let text: Vec<String> = parts.map(|(what, servers)| format!("{what}: {}", names(servers))).collect();
    tracing::info!("configuration reloaded: {}; {kept} unchanged", text.join("; "));
}
