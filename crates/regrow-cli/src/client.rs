//! Our own standard input and output, as streams that never block the program.
//!
//! Hosts give us pipes or sockets. Those are made nonblocking and used directly; anything else (a file, a terminal)
//! goes through threads, since the mode of a terminal is shared with the shell.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

pub(crate) fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let fd = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(match kind(&fd)? {
        FileType::Fifo => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        FileType::Socket => Box::new(socket(fd)?),
        _ => Box::new(tokio::io::stdin()),
    })
}

pub(crate) fn output() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(match kind(&fd)? {
        FileType::Fifo => Box::new(pipe::Sender::from_owned_fd(fd)?),
        FileType::Socket => Box::new(socket(fd)?),
        _ => Box::new(tokio::io::stdout()),
    })
}

/// Says what we wait for where a person sits at a terminal: hosts start this command, people seldom do.
pub(crate) fn say_what_is_awaited() {
    if io::stdin().is_terminal() {
        eprintln!(
            "regrow: waiting for JSON-RPC messages of an MCP client on standard input. This command is for the configuration \
             of an MCP host (see `regrow adopt`).\nregrow: to see what Regrow does, run `regrow demo`; to test your servers, \
             `regrow check`. Ctrl-C ends this."
        );
    }
}

fn kind(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
