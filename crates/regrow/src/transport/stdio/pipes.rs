//! The pipes to and from a server: our ends, read and written without blocking.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::system;
use crate::transport::Input;

/// A pipe that no other child inherits: the end to read from, the end to write to.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let ends = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    #[cfg(target_os = "macos")]
    let ends = {
        // Not in one step on macOS: a child that another thread forks just now may inherit it.
        let ends = rustix::pipe::pipe()?;
        rustix::io::fcntl_setfd(&ends.0, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::fcntl_setfd(&ends.1, rustix::io::FdFlags::CLOEXEC)?;
        ends
    };
    Ok(ends)
}

/// Makes our end of a pipe nonblocking. The other end is not affected.
pub(super) fn set_nonblocking(end: &OwnedFd) -> io::Result<()> {
    fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
    Ok(())
}

/// The end of a server's standard input that we write to.
///
/// Like everything written to pipes from Rust, it relies on SIGPIPE being ignored, which is so in a Rust program.
pub(super) struct Writer {
    end: Option<AsyncFd<OwnedFd>>,
}

impl Writer {
    /// Must be called inside a runtime.
    pub(super) fn new(end: OwnedFd) -> io::Result<Writer> {
        set_nonblocking(&end)?;
        Ok(Writer { end: Some(system::watched(end, Interest::WRITABLE)?) })
    }

    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&OwnedFd) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let Some(end) = &self.end else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        loop {
            match write(end.get_ref()) {
                Err(Errno::AGAIN) => ready!(end.poll_write_ready(cx))?.clear_ready(),
                Err(Errno::INTR) => {}
                written => return Poll::Ready(Ok(written?)),
            }
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |end| rustix::io::write(end, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |end| rustix::io::writev(end, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end = None;
        Poll::Ready(Ok(()))
    }
}

impl Input for Writer {
    /// Linux keeps what is in a pipe as long as one end is open, and tells that nobody has the other end any more.
    ///
    /// Another child has it, too, until its exec, and meanwhile nothing is told.
    /// (A server that looked at bytes without taking them, by `tee(2)`, would be wronged. Nobody does.)
    #[cfg(target_os = "linux")]
    fn unread(&self) -> Option<u64> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let end = self.end.as_ref()?.get_ref();
        let mut polled = [PollFd::new(end, PollFlags::OUT)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        if !polled[0].revents().contains(PollFlags::ERR) {
            return None; // Somebody can still read.
        }
        rustix::io::ioctl_fionread(end).ok()
    }
}

/// The end of a server's standard output that we read from.
///
/// It asks the kernel before it says `Pending`, and takes no part in tokio's budget: `Pending` means an empty pipe.
pub(super) struct Reader {
    end: AsyncFd<OwnedFd>,
}

impl Reader {
    /// Must be called inside a runtime.
    pub(super) fn new(end: OwnedFd) -> io::Result<Reader> {
        set_nonblocking(&end)?;
        Ok(Reader { end: system::watched(end, Interest::READABLE)? })
    }

    /// Reads what there is. `WouldBlock` when there is nothing now, `Ok(0)` when there never will be.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(self.end.get_ref(), &mut *buffer) {
                Err(Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }

    /// Reads as soon as there is something, `most` bytes at most, and has no buffer until then; nothing at the end.
    /// Nothing is lost when the future is dropped.
    pub(super) async fn read(&self, most: usize) -> io::Result<Vec<u8>> {
        loop {
            let mut ready = self.end.readable().await?;
            let mut buffer = vec![0; most];
            match self.try_read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                read => {
                    buffer.truncate(read?);
                    return Ok(buffer);
                }
            }
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            // Asked before the read: what becomes ready after that must not be forgotten.
            let mut ready = self.end.poll_read_ready(cx)?;
            let read = system::read(self.end.get_ref(), buffer);
            let is_empty = read == Err(Errno::AGAIN) || read.is_ok() && buffer.remaining() > 0;
            if is_empty && let Poll::Ready(ready) = &mut ready {
                ready.clear_ready();
            }
            match read {
                Err(Errno::AGAIN) => ready!(ready.map(drop)),
                Err(Errno::INTR) => {}
                read => return Poll::Ready(Ok(read?)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_returns_what_is_there_and_nothing_at_the_end() {
        let (output, input) = pipe().unwrap();
        let reader = Reader::new(output).unwrap();
        rustix::io::write(&input, b"abc").unwrap();
        assert_eq!(reader.read(2).await.unwrap(), b"ab");
        assert_eq!(reader.read(64 << 10).await.unwrap(), b"c");
        drop(input);
        assert_eq!(reader.read(2).await.unwrap(), b"");
    }
}
