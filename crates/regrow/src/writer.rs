//! Lines on their way into a stream: written at once where the stream takes them, kept in order where it does not.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

/// At most this many lines leave in one write.
const LINES: usize = 64;
/// At most this many bytes are kept where more lines follow at once.
const CORKED: usize = 64 << 10;

/// A stream and the lines that it has not taken yet. `K` says what a line belongs to.
pub(crate) struct LineWriter<S, K> {
    stream: S,
    queue: VecDeque<(K, Bytes, bool)>,
    queued: usize,
    accepted: u64,
    /// How many of those have left the stream's own buffer, where it has one.
    flushed: u64,
    /// The pump waits for the stream, or has been told to. Only one can wait for a stream, so nobody else may ask it.
    pumping: bool,
    /// More lines follow at once, and leave together.
    corked: bool,
    /// The pump is about to run, and writes what comes until then.
    gathering: bool,
}

impl<S: AsyncWrite + Unpin, K: Copy + PartialEq> LineWriter<S, K> {
    pub(crate) fn new(stream: S) -> LineWriter<S, K> {
        LineWriter {
            stream,
            queue: VecDeque::new(),
            queued: 0,
            accepted: 0,
            flushed: 0,
            pumping: false,
            corked: false,
            gathering: false,
        }
    }

    /// The stream itself.
    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    /// How many bytes the stream has taken.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// How many bytes have left through the stream.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// How many bytes it has not taken yet.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// How much memory they take: a short line takes more than its bytes.
    pub(crate) fn held(&self) -> usize {
        self.queued + self.queue.len() * size_of::<(K, Bytes, bool)>()
    }

    /// Adds a line. If the pump is not at work, writes it here and now as far as the stream takes it, without a hop to
    /// another task; returns whether the pump must be woken for the rest. `begun` hears which lines begin where.
    pub(crate) fn push(&mut self, key: K, line: Bytes, begun: impl FnMut(K, u64)) -> io::Result<bool> {
        self.queued += line.len();
        self.queue.push_back((key, line, false));
        if (self.corked || self.gathering) && self.queued < CORKED {
            return Ok(false);
        }
        self.write(begun)
    }

    /// More lines follow at once: they are kept until [`uncork`](LineWriter::uncork), and leave together.
    pub(crate) fn cork(&mut self) {
        self.corked = true;
    }

    /// Writes what was kept, as [`push`](LineWriter::push) does.
    pub(crate) fn uncork(&mut self, begun: impl FnMut(K, u64)) -> io::Result<bool> {
        self.corked = false;
        if self.queue.is_empty() { Ok(false) } else { self.write(begun) }
    }

    /// Others are about to add lines: those that come before the pump runs leave together. Returns whether it must be woken for that.
    pub(crate) fn gather(&mut self) -> bool {
        !self.pumping && !std::mem::replace(&mut self.gathering, true)
    }

    fn write(&mut self, begun: impl FnMut(K, u64)) -> io::Result<bool> {
        if self.pumping {
            return Ok(false); // Also where all that it waited for was taken back.
        }
        match self.poll_flush(&mut Context::from_waker(Waker::noop()), begun) {
            Poll::Ready(done) => done.map(|()| false),
            Poll::Pending => Ok(true),
        }
    }

    /// Takes back the lines of this key of which no byte has been taken.
    pub(crate) fn revoke(&mut self, key: K) {
        let queued = &mut self.queued;
        self.queue.retain(|(of, line, begun)| {
            let keep = *of != key || *begun;
            if !keep {
                *queued -= line.len();
            }
            keep
        });
    }

    /// Writes what is queued, as far as the stream takes it. If it does not take all, the pump waits for the stream from now on.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        mut begun: impl FnMut(K, u64),
    ) -> Poll<io::Result<()>> {
        self.gathering = false;
        while let Some((_, first, _)) = self.queue.front() {
            let written = if self.queue.len() > 1 && self.stream.is_write_vectored() {
                let mut lines = [IoSlice::new(&[]); LINES];
                let count = self.queue.len().min(LINES);
                lines
                    .iter_mut()
                    .zip(&self.queue)
                    .for_each(|(slice, (_, line, _))| *slice = IoSlice::new(line));
                Pin::new(&mut self.stream).poll_write_vectored(cx, &lines[..count])
            } else {
                Pin::new(&mut self.stream).poll_write(cx, first)
            };
            let mut taken = match written {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => taken,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.pumping = true;
                    // It is full. What it has taken before may have left all the same.
                    if Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
                        self.flushed = self.accepted;
                    }
                    return Poll::Pending;
                }
            };
            self.queued -= taken;
            while taken > 0
                && let Some((key, line, has_begun)) = self.queue.front_mut()
            {
                if !std::mem::replace(has_begun, true) {
                    begun(*key, self.accepted);
                }
                let of_line = taken.min(line.len());
                line.advance(of_line);
                self.accepted += of_line as u64;
                taken -= of_line;
                if line.is_empty() {
                    self.queue.pop_front();
                }
            }
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.pumping = flushed.is_pending();
        if let Poll::Ready(Ok(())) = flushed {
            self.flushed = self.accepted;
        }
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;
    use tokio::io::{AsyncReadExt, duplex};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_line_that_the_stream_takes_leaves_at_once_and_the_rest_waits_in_order() {
        let (near, mut far) = duplex(4);
        let mut writer = LineWriter::new(near);
        let mut begun = vec![];
        assert!(
            writer
                .push('a', Bytes::from_static(b"one\n"), |k, at| begun.push((k, at)))
                .is_ok_and(|wake| !wake)
        );
        assert!(
            writer
                .push('b', Bytes::from_static(b"two\n"), |k, at| begun.push((k, at)))
                .is_ok_and(|wake| wake)
        );
        assert!(
            writer
                .push('c', Bytes::from_static(b"six\n"), |k, at| begun.push((k, at)))
                .is_ok_and(|wake| !wake)
        );
        assert_eq!(begun, [('a', 0)]);
        writer.revoke('b');
        assert_eq!(writer.queued(), 4);

        let mut read = [0; 4];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one\n");
        std::future::poll_fn(|cx| writer.poll_flush(cx, |k, at| begun.push((k, at)))).await.unwrap();
        assert_eq!(begun, [('a', 0), ('c', 4)]);
        assert_eq!(writer.accepted(), 8);
    }

    #[tokio::test]
    async fn lines_that_follow_at_once_leave_together_in_order() {
        let (near, mut far) = duplex(10);
        let mut writer = LineWriter::new(near);
        let mut begun = vec![];
        writer.cork();
        for (key, line) in [('a', "one\n"), ('b', "two\n"), ('c', "three\n"), ('d', "four\n")] {
            assert!(
                writer
                    .push(key, Bytes::from_static(line.as_bytes()), |k, at| begun.push((k, at)))
                    .is_ok_and(|wake| !wake)
            );
        }
        assert!(begun.is_empty());
        assert_eq!(writer.accepted(), 0);
        writer.revoke('b');
        assert!(writer.uncork(|k, at| begun.push((k, at))).is_ok_and(|wake| wake), "it does not take all");
        assert_eq!((begun.clone(), writer.accepted(), writer.queued()), (vec![('a', 0), ('c', 4)], 10, 5));
        let mut read = [0; 10];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one\nthree\n");
        std::future::poll_fn(|cx| writer.poll_flush(cx, |k, at| begun.push((k, at)))).await.unwrap();
        assert_eq!(begun.last(), Some(&('d', 10)));
        let line = writer.push('e', Bytes::from_static(b"six\n"), |k, at| begun.push((k, at)));
        assert!(line.is_ok_and(|wake| !wake));
        assert_eq!(begun.last(), Some(&('e', 15)), "it leaves at once again");
    }

    #[tokio::test]
    async fn lines_that_come_before_the_pump_runs_leave_together() {
        let (near, _far) = duplex(100);
        let mut writer = LineWriter::new(near);
        let mut begun = vec![];
        let mut push = |writer: &mut LineWriter<_, _>, key, line: &'static str| {
            let wake =
                writer.push(key, Bytes::from_static(line.as_bytes()), |k, at| begun.push((k, at))).unwrap();
            (wake, begun.len())
        };
        assert_eq!(push(&mut writer, 'a', "one\n"), (false, 1), "the first leaves at once");
        assert!(writer.gather() && !writer.gather(), "the pump is woken once");
        assert_eq!(push(&mut writer, 'b', "two\n"), (false, 1));
        assert_eq!(push(&mut writer, 'c', "three\n"), (false, 1));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(writer.poll_flush(&mut cx, |_, _| {}).is_ready());
        assert_eq!((writer.accepted(), writer.queued()), (14, 0));
        assert_eq!(push(&mut writer, 'd', "four\n"), (false, 2), "it leaves at once again");
    }

    #[tokio::test]
    async fn a_pump_that_finds_the_stream_full_with_what_was_gathered_keeps_its_place() {
        let (near, mut far) = duplex(4);
        let mut writer = LineWriter::new(near);
        assert!(writer.push('a', Bytes::from_static(b"one\n"), |_, _| {}).is_ok_and(|wake| !wake));
        assert!(writer.gather());
        assert!(writer.push('b', Bytes::from_static(b"two\n"), |_, _| {}).is_ok_and(|wake| !wake));
        let pump = Arc::new(Woken::default());
        let waker = Waker::from(pump.clone());
        assert!(writer.poll_flush(&mut Context::from_waker(&waker), |_, _| {}).is_pending());
        assert!(writer.push('c', Bytes::from_static(b"six\n"), |_, _| {}).is_ok_and(|wake| !wake));
        far.read_exact(&mut [0; 4]).await.unwrap();
        assert!(pump.0.load(Ordering::Relaxed), "the pump still hears of room");
    }

    #[tokio::test]
    async fn a_line_that_comes_while_the_pump_waits_for_the_stream_does_not_take_its_place() {
        let (near, mut far) = duplex(4);
        let mut writer = LineWriter::new(near);
        assert!(writer.push('a', Bytes::from_static(b"one\n"), |_, _| {}).is_ok_and(|wake| !wake));
        assert!(writer.push('b', Bytes::from_static(b"two\n"), |_, _| {}).is_ok_and(|wake| wake));
        let mut read = [0; 4];
        let pump = Arc::new(Woken::default());
        let waker = Waker::from(pump.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(writer.poll_flush(&mut cx, |_, _| {}).is_pending());
        writer.revoke('b');
        assert!(writer.push('c', Bytes::from_static(b"six\n"), |_, _| {}).is_ok_and(|wake| !wake));
        far.read_exact(&mut read).await.unwrap();
        assert!(pump.0.load(Ordering::Relaxed), "the pump still hears of room");
        assert!(writer.poll_flush(&mut cx, |_, _| {}).is_ready());
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"six\n");
    }
}
