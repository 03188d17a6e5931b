//! Standard input and output, and those of a child process, for tokio.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use tokio::net::unix::pipe::{Receiver, Sender};

/// What a process reads from its client and writes to it.
pub(crate) fn own() -> io::Result<(Receiver, Sender)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((Receiver::from_owned_fd(input)?, Sender::from_owned_fd(output)?))
}

/// Starts a server and returns what it reads and what it writes.
pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Sender, Receiver)> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input: OwnedFd = child.stdin.take().expect("piped").into();
    let output: OwnedFd = child.stdout.take().expect("piped").into();
    Ok((child, Sender::from_owned_fd(input)?, Receiver::from_owned_fd(output)?))
}
