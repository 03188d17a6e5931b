//! Starts a server's process.

use std::io;
use std::os::fd::OwnedFd;

use regrow_core::{Epoch, Fault};

use super::follow::Followed;
use super::group::Group;
use super::launch::Launch;
use super::mark::{self, Mark};
use super::record::{News, Record};
use super::system::Steps;
use super::{Stdio, diagnose, pipes, sandbox};

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
    let mut environment = (*server.environment).clone();
    environment.insert(mark::VARIABLE.into(), mark.value().into());
    let pipe = server.guard.as_ref().map(|guard| guard.pipe()).transpose().map_err(failed)?;
    let record = Record { news: News::Born, pid: 0, serial: mark.serial };
    let launch = Launch {
        program: &server.program,
        args: &server.args,
        environment: &environment,
        directory: server.directory.as_deref(),
        streams: [their_input, their_output, their_stderr],
        steps: Steps {
            tell: pipe.map(|pipe| (pipe, record)),
            new_privileges: server.new_privileges,
            restrictions,
        },
    };

    match Followed::start(&server.name, mark, launch) {
        Ok((followed, leader)) => {
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
