//! Starts a server's process.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

use regrow_core::{Epoch, Fault};

use super::follow::Followed;
use super::group::Group;
use super::mark::{self, Mark};
use super::record::{News, Record};
use super::{Stdio, diagnose, pipes, sandbox, system};

/// A process that was just started, and our ends of its pipes. Dropping it kills it.
pub(super) struct Spawned {
    pub(super) group: Group,
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts it. Blocks until its program was loaded, which on a slow disk takes a while.
pub(super) fn spawn(server: &Stdio, epoch: Epoch) -> Result<Spawned, Fault> {
    let restrictions = sandbox::prepare(server, epoch)?;
    let failed = |error: io::Error| diagnose::spawn_failed(server, &error);
    let (their_input, input) = pipes::pipe().map_err(failed)?;
    let (output, their_output) = pipes::pipe().map_err(failed)?;
    let (stderr, their_stderr) = pipes::pipe().map_err(failed)?;

    let nonce = server.guard.as_ref().map_or_else(mark::own_nonce, |guard| guard.nonce());
    let mark = Mark::next(nonce, epoch);
    let mut command = Command::new(&server.program);
    command.args(&server.args).env_clear().envs(&*server.environment).env(mark::VARIABLE, mark.value());
    command.stdin(their_input).stdout(their_output).stderr(their_stderr);
    if let Some(directory) = &server.directory {
        command.current_dir(directory);
    }
    let pipe = server.guard.as_ref().map(|guard| guard.pipe()).transpose().map_err(failed)?;
    let followed = Followed::prepare(&server.name, mark, &mut command);
    let record = Record { news: News::Born, pid: 0, serial: mark.serial };
    let tell = pipe.map(|pipe| (pipe, record));
    system::before_server(&mut command, tell, server.new_privileges, restrictions);

    match followed.spawn(&mut command) {
        Ok(leader) => {
            let group = Group::new(leader, followed, server.guard.clone());
            Ok(Spawned { group, input, output, stderr })
        }
        Err(error) => {
            if let Some(guard) = &server.guard {
                guard.gone(mark); // The child had told it, and is reaped.
            }
            Err(diagnose::fault(server, &error))
        }
    }
}
