//! Servers that are processes of ours: we write to their standard input and read their standard output.
//!
//! Each server leads a session and a process group of its own, without a terminal and with nothing open but its three pipes. Its
//! exit is seen without reaping it, so its group can be ended before its id is free for somebody else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use regrow_core::{Epoch, Fault};
use tokio::task::spawn_blocking;

use self::pipes::{Reader, Writer};
use self::process::Server;
use self::spawn::Spawned;
use self::stderr::Drain;
use super::{BoxFuture, Link, Pipes, Transport};
use crate::excerpt::Said;
use crate::mask::Mask;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("regrow starts and ends server processes on Linux and macOS only");

#[cfg(target_os = "linux")]
mod adopted;
#[cfg(target_os = "linux")]
mod cgroup;
mod diagnose;
mod ending;
pub mod environment;
#[cfg(target_os = "linux")]
mod follow;
#[cfg(not(target_os = "linux"))]
#[path = "stdio/follow_nothing.rs"]
mod follow;
mod group;
mod guard;
mod guardian;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod hidden;
mod launch;
mod mark;
mod pass;
mod pipes;
mod privacy;
mod process;
#[cfg(target_os = "linux")]
mod procfs;
mod record;
mod sandbox;
#[cfg(target_os = "linux")]
mod scan;
mod spawn;
mod stderr;
#[cfg(target_os = "linux")]
mod sweep;
mod system;
mod terminal;
#[cfg(target_os = "linux")]
mod tree;
mod turns;

pub use environment::Environment;
pub use follow::follow_helpers;
pub use guard::Guard;
pub use guardian::guard_main;
pub use privacy::keep_private;
pub use sandbox::Sandbox;

/// How to start a server, and what to do with its standard error.
///
/// To be opened inside a tokio runtime that has I/O and time enabled.
#[derive(Clone)]
pub struct Stdio {
    name: String,
    program: OsString,
    args: Vec<OsString>,
    /// Clones share it.
    environment: Arc<Environment>,
    directory: Option<PathBuf>,
    new_privileges: bool,
    sandbox: Option<Sandbox>,
    stderr: Stderr,
    mask: Mask,
    guard: Option<Arc<Guard>>,
}

/// What becomes of a server's standard error, besides that its first and last lines are kept.
#[derive(Clone, Default)]
pub enum Stderr {
    /// Nothing.
    #[default]
    Keep,
    /// Every line goes to our own standard error, as `[name] line`. Lines are left out, and counted, when that is slow.
    Pass,
    /// Every line is handed to this function, escaped. It must not block.
    Call(Arc<dyn Fn(&str) + Send + Sync>),
    /// The same for who keeps the first lines, twenty at most, and the last, a hundred at most: those of a flood that would be
    /// forgotten at once are only counted.
    Latest(Arc<dyn Fn(Said<'_>) + Send + Sync>),
}

impl Stdio {
    /// The server `name` is started by `program`: a path, or a name looked up in the `PATH` of its environment.
    ///
    /// It gets the [clean](environment::clean) environment and our own working directory, unless told otherwise.
    pub fn new(name: impl Into<String>, program: impl Into<OsString>) -> Stdio {
        Stdio {
            name: name.into(),
            program: program.into(),
            args: vec![],
            environment: Arc::new(environment::clean()),
            directory: None,
            new_privileges: false,
            sandbox: None,
            stderr: Stderr::Keep,
            mask: Mask::default(),
            guard: None,
        }
    }

    /// Its arguments, handed over as they are; there is no shell.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Stdio {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Its exact environment, in place of the clean one.
    pub fn environment(mut self, environment: Environment) -> Stdio {
        self.environment = Arc::new(environment);
        self
    }

    /// One more variable for its environment.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Stdio {
        Arc::make_mut(&mut self.environment).insert(name.into(), value.into());
        self
    }

    /// Its working directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Stdio {
        self.directory = Some(directory.into());
        self
    }

    /// Whether it may gain rights by running a program that has more, such as `sudo`. Not by default. On Linux; elsewhere it always may.
    pub fn new_privileges(mut self, allowed: bool) -> Stdio {
        self.new_privileges = allowed;
        self
    }

    /// What it may reach. It also gains no rights then, whatever else is set.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Stdio {
        self.sandbox = Some(sandbox);
        self
    }

    /// What becomes of its standard error.
    pub fn stderr(mut self, stderr: Stderr) -> Stdio {
        self.stderr = stderr;
        self
    }

    /// Secrets to take out of its standard error before that is passed on.
    pub fn mask(mut self, mask: Mask) -> Stdio {
        self.mask = mask;
        self
    }

    /// Who ends it if we are killed.
    pub fn guard(mut self, guard: Arc<Guard>) -> Stdio {
        self.guard = Some(guard);
        self
    }
}

impl Transport for Stdio {
    fn open(&self, epoch: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let server = self.clone();
        Box::pin(async move {
            let starting = turns::STARTS.run(async || {
                let server = server.clone();
                spawn_blocking(move || spawn::spawn(&server, epoch)).await
            });
            // If nobody waits any more, what was started is dropped, and so killed.
            let spawned = starting.await.unwrap_or(Err(Fault::Closed))?;
            link(&server, spawned).map_err(|error| diagnose::spawn_failed(&server, &error))
        })
    }
}

fn link(server: &Stdio, spawned: Spawned) -> io::Result<Link> {
    let input = Box::new(Writer::new(spawned.input)?);
    let output = Box::new(Reader::new(spawned.output)?);
    let drain = Drain::new(server.name.clone(), server.stderr.clone(), server.mask.clone());
    let process = Server::watch(spawned.group, Reader::new(spawned.stderr)?, drain)?;
    Ok(Link::Pipes(Pipes { input, output, process: Arc::new(process) }))
}

/// Without arguments and environment, which may hold secrets.
impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio")
            .field("name", &self.name)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// Each start takes a clone.
    #[test]
    fn clones_share_an_environment_until_one_changes_it() {
        let server = Stdio::new("server", "program").variable("A", "1");
        let clone = server.clone();
        assert!(Arc::ptr_eq(&server.environment, &clone.environment));
        let other = clone.variable("A", "2");
        assert_eq!(server.environment[OsStr::new("A")], "1");
        assert_eq!(other.environment[OsStr::new("A")], "2");
    }
}
