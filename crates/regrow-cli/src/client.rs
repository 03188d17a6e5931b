//! Our own standard input and output, as streams that never block the program.
//!
//! Hosts give us pipes or sockets. Those are made nonblocking and used directly; anything else (a file, a terminal)
//! goes through threads, since the mode of a terminal is shared with the shell.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use regrow::Port;
#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
#[cfg(target_os = "linux")]
use tokio::io::Interest;
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

/// Prints what we wait for where a person sits at a terminal: hosts start this command, people seldom do.
pub(crate) fn say_what_is_awaited() {
    if io::stdin().is_terminal() {
        eprintln!(
            "regrow: waiting for JSON-RPC messages of an MCP client on standard input. This command is for the configuration \
             of an MCP host (see `regrow adopt`).\nregrow: to see what Regrow does, run `regrow demo`; to test your servers, \
             `regrow check`. Ctrl-C ends this."
        );
    }
}

/// Tells the port when nobody can read our output any more, also while nothing is written. Where that cannot be seen, the next write
/// tells.
pub(crate) fn watch_output(port: &Arc<Port>) {
    let port = port.clone();
    tokio::spawn(async move {
        if output_closed().await.is_ok() {
            port.nobody_reads();
        }
    });
}

/// Resolves when the other end of the pipe or socket is closed. A file or a terminal always counts as being read.
#[cfg(target_os = "linux")]
async fn output_closed() -> io::Result<()> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    match kind(&fd)? {
        FileType::Fifo => pipe::Sender::from_owned_fd(fd)?.ready(Interest::ERROR).await.map(drop),
        FileType::Socket => {
            let socket = socket(fd)?;
            loop {
                let ready = socket.ready(Interest::READABLE).await?;
                if is_closed(&socket) {
                    return Ok(());
                }
                if ready.is_read_closed() {
                    return Err(io::ErrorKind::Unsupported.into()); // Only its input is closed, for good: the rest is not reported.
                }
                // Something that is not ours to read: look again when there is more.
                let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether the other end is closed in both directions.
#[cfg(target_os = "linux")]
fn is_closed(socket: &UnixStream) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(not(target_os = "linux"))]
async fn output_closed() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn kind(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
