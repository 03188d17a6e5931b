//! Lines on their way into a stream: written at once where the stream takes them, kept in order where it does not.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use regrow_protocol::frame::{Edit, Frame, Parts};
use tokio::io::AsyncWrite;

/// A shorter line is copied to the others, and leaves with them in one write.
const SHORT: usize = 16 << 10;
/// A longer message is not copied to get another id, to save memory. For shorter ones a copy takes less time: the kernel writes what starts on a
/// boundary faster to a pipe.
const LARGE: usize = 256 << 10;
/// A line with more parts than this leaves in several writes. One with a new id has four at most.
const MOST_PARTS: usize = 4;
/// At most this many bytes are kept where more lines follow at once.
const CORKED: usize = 64 << 10;

/// A stream and the lines that it has not taken yet. `K` says what a line belongs to.
pub(crate) struct LineWriter<S, K> {
    stream: S,
    queue: VecDeque<Line<K>>,
    queued: usize,
    /// Short lines, one after the other, and how much of them the stream has taken.
    short: Vec<u8>,
    taken: usize,
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

struct Line<K> {
    key: K,
    /// How many bytes of it the stream has not taken.
    left: usize,
    begun: bool,
    /// Its bytes, unless it is short.
    long: Option<Parts>,
}

impl<S: AsyncWrite + Unpin, K: Copy + PartialEq> LineWriter<S, K> {
    pub(crate) fn new(stream: S) -> LineWriter<S, K> {
        LineWriter {
            stream,
            queue: VecDeque::new(),
            queued: 0,
            short: vec![],
            taken: 0,
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
        self.queued + self.queue.len() * size_of::<Line<K>>()
    }

    /// Adds a line. It leaves with the next [`write`](LineWriter::write).
    pub(crate) fn add(&mut self, key: K, line: Bytes) {
        if line.len() < SHORT {
            self.short.extend_from_slice(&line);
            self.note(key, line.len(), None);
        } else {
            self.note(key, line.len(), Some(line.into()));
        }
    }

    /// Adds a message with these values replaced.
    pub(crate) fn add_edited<const N: usize>(&mut self, key: K, message: &Frame, edits: [Edit<'_>; N]) {
        if message.bytes().len() < SHORT {
            let before = self.short.len();
            message.append_with(edits, &mut self.short);
            self.note(key, self.short.len() - before, None);
            return;
        }
        let parts = if message.bytes().len() < LARGE { None } else { message.line_parts(edits) };
        match parts {
            Some(parts) => self.note(key, parts.len(), Some(parts)),
            None => self.add(key, message.with(edits)),
        }
    }

    fn note(&mut self, key: K, left: usize, long: Option<Parts>) {
        self.queued += left;
        self.queue.push_back(Line { key, left, begun: false, long });
    }

    /// Writes what was added, unless more follows or the pump is at work: here and now as far as the stream takes it, without a hop to another
    /// task. Returns whether the pump must be woken for the rest. `begun` hears which lines begin where.
    pub(crate) fn write(&mut self, begun: impl FnMut(K, u64)) -> io::Result<bool> {
        if (self.corked || self.gathering) && self.queued < CORKED {
            return Ok(false);
        }
        self.write_all(begun)
    }

    /// More lines follow at once: they are kept until [`uncork`](LineWriter::uncork), and leave together.
    pub(crate) fn cork(&mut self) {
        self.corked = true;
    }

    /// Writes what was kept, as [`write`](LineWriter::write) does.
    pub(crate) fn uncork(&mut self, begun: impl FnMut(K, u64)) -> io::Result<bool> {
        self.corked = false;
        if self.queue.is_empty() { Ok(false) } else { self.write_all(begun) }
    }

    /// Others are about to add lines: those that come before the pump runs leave together. Returns whether it must be woken for that.
    pub(crate) fn gather(&mut self) -> bool {
        !self.corked && !self.pumping && !std::mem::replace(&mut self.gathering, true)
    }

    fn write_all(&mut self, begun: impl FnMut(K, u64)) -> io::Result<bool> {
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
        let (queued, short) = (&mut self.queued, &mut self.short);
        let mut at = self.taken;
        self.queue.retain(|line| {
            let keep = line.key != key || line.begun;
            if !keep {
                *queued -= line.left;
            }
            if line.long.is_none() {
                if keep {
                    at += line.left;
                } else {
                    short.drain(at..at + line.left);
                }
            }
            keep
        });
        self.reuse();
    }

    /// Writes what is queued, as far as the stream takes it. If it does not take all, the pump waits for the stream from now on.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        mut begun: impl FnMut(K, u64),
    ) -> Poll<io::Result<()>> {
        self.gathering = false;
        while let Some(first) = self.queue.front() {
            let stream = Pin::new(&mut self.stream);
            let taken = match &first.long {
                Some(long) => {
                    let mut slices = [IoSlice::new(&[]); MOST_PARTS];
                    slices.iter_mut().zip(long.slices()).for_each(|(to, part)| *to = IoSlice::new(part));
                    stream.poll_write_vectored(cx, &slices)
                }
                None => {
                    let together = self.queue.iter().take_while(|line| line.long.is_none());
                    let together = together.map(|line| line.left).sum();
                    stream.poll_write(cx, &self.short[self.taken..][..together])
                }
            };
            let taken = match taken {
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
            self.take(taken, &mut begun);
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.pumping = flushed.is_pending();
        if let Poll::Ready(Ok(())) = flushed {
            self.flushed = self.accepted;
        }
        flushed
    }

    /// The stream has taken so much of what was queued.
    fn take(&mut self, mut taken: usize, begun: &mut impl FnMut(K, u64)) {
        self.queued -= taken;
        while taken > 0
            && let Some(line) = self.queue.front_mut()
        {
            if !std::mem::replace(&mut line.begun, true) {
                begun(line.key, self.accepted);
            }
            let of_line = taken.min(line.left);
            match &mut line.long {
                Some(long) => long.advance(of_line),
                None => self.taken += of_line,
            }
            line.left -= of_line;
            self.accepted += of_line as u64;
            taken -= of_line;
            if line.left == 0 {
                self.queue.pop_front();
            }
        }
        self.reuse();
    }

    /// Makes room of what was taken of the short lines.
    fn reuse(&mut self) {
        if self.taken == self.short.len() {
            self.short.clear();
            self.short.shrink_to(2 * CORKED);
        } else if self.taken >= CORKED.max(self.short.len() / 2) {
            self.short.drain(..self.taken);
        } else {
            return;
        }
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_protocol::frame::RawId;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn push(
        writer: &mut LineWriter<DuplexStream, char>,
        key: char,
        line: &str,
        begun: &mut Vec<(char, u64)>,
    ) -> io::Result<bool> {
        writer.add(key, Bytes::copy_from_slice(line.as_bytes()));
        writer.write(|key, at| begun.push((key, at)))
    }

    #[tokio::test]
    async fn a_line_that_the_stream_takes_leaves_at_once_and_the_rest_waits_in_order() {
        let (near, mut far) = duplex(4);
        let mut writer = LineWriter::new(near);
        let mut begun = vec![];
        assert!(push(&mut writer, 'a', "one\n", &mut begun).is_ok_and(|wake| !wake));
        assert!(push(&mut writer, 'b', "two\n", &mut begun).is_ok_and(|wake| wake));
        assert!(push(&mut writer, 'c', "six\n", &mut begun).is_ok_and(|wake| !wake));
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
            assert!(push(&mut writer, key, line, &mut begun).is_ok_and(|wake| !wake));
        }
        assert!(begun.is_empty());
        assert_eq!(writer.accepted(), 0);
        assert!(!writer.gather(), "they leave together already");
        writer.revoke('b');
        assert!(writer.uncork(|k, at| begun.push((k, at))).is_ok_and(|wake| wake), "it does not take all");
        assert_eq!((begun.clone(), writer.accepted(), writer.queued()), (vec![('a', 0), ('c', 4)], 10, 5));
        let mut read = [0; 10];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one\nthree\n");
        std::future::poll_fn(|cx| writer.poll_flush(cx, |k, at| begun.push((k, at)))).await.unwrap();
        assert_eq!(begun.last(), Some(&('d', 10)));
        let line = push(&mut writer, 'e', "six\n", &mut begun);
        assert!(line.is_ok_and(|wake| !wake));
        assert_eq!(begun.last(), Some(&('e', 15)), "it leaves at once again");
    }

    #[tokio::test]
    async fn lines_that_come_before_the_pump_runs_leave_together() {
        let (near, _far) = duplex(100);
        let mut writer = LineWriter::new(near);
        let mut begun = vec![];
        let mut push = |writer: &mut LineWriter<_, _>, key, line: &'static str| {
            let wake = push(writer, key, line, &mut begun).unwrap();
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
        assert!(push(&mut writer, 'a', "one\n", &mut vec![]).is_ok_and(|wake| !wake));
        assert!(writer.gather());
        assert!(push(&mut writer, 'b', "two\n", &mut vec![]).is_ok_and(|wake| !wake));
        let pump = Arc::new(Woken::default());
        let waker = Waker::from(pump.clone());
        assert!(writer.poll_flush(&mut Context::from_waker(&waker), |_, _| {}).is_pending());
        assert!(push(&mut writer, 'c', "six\n", &mut vec![]).is_ok_and(|wake| !wake));
        far.read_exact(&mut [0; 4]).await.unwrap();
        assert!(pump.0.load(Ordering::Relaxed), "the pump still hears of room");
    }

    #[tokio::test]
    async fn a_line_that_comes_while_the_pump_waits_for_the_stream_does_not_take_its_place() {
        let (near, mut far) = duplex(4);
        let mut writer = LineWriter::new(near);
        assert!(push(&mut writer, 'a', "one\n", &mut vec![]).is_ok_and(|wake| !wake));
        assert!(push(&mut writer, 'b', "two\n", &mut vec![]).is_ok_and(|wake| wake));
        let mut read = [0; 4];
        let pump = Arc::new(Woken::default());
        let waker = Waker::from(pump.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(writer.poll_flush(&mut cx, |_, _| {}).is_pending());
        writer.revoke('b');
        assert!(push(&mut writer, 'c', "six\n", &mut vec![]).is_ok_and(|wake| !wake));
        far.read_exact(&mut read).await.unwrap();
        assert!(pump.0.load(Ordering::Relaxed), "the pump still hears of room");
        assert!(writer.poll_flush(&mut cx, |_, _| {}).is_ready());
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"six\n");
    }

    #[tokio::test]
    async fn short_and_long_lines_leave_in_order_and_any_may_be_taken_back() {
        let (near, mut far) = duplex(3);
        let mut writer = LineWriter::new(near);
        let mut begun = vec![];
        let long = |byte: &str| byte.repeat(SHORT) + "\n";
        for (key, line) in [
            ('a', "one\n"),
            ('b', "two\n"),
            ('c', &*long("3")),
            ('d', &long("4")),
            ('e', "five\n"),
            ('f', "six\n"),
        ] {
            push(&mut writer, key, line, &mut begun).unwrap();
        }
        assert_eq!(begun, [('a', 0)]);
        for key in ['a', 'b', 'd', 'e'] {
            writer.revoke(key); // The first has begun, and stays.
        }
        let expected = format!("one\n{}six\n", long("3"));
        assert_eq!(writer.queued(), expected.len() - 3);
        let mut read = vec![0; expected.len()];
        let flushing = std::future::poll_fn(|cx| writer.poll_flush(cx, |key, at| begun.push((key, at))));
        let (_, flushed) = tokio::join!(far.read_exact(&mut read), flushing);
        flushed.unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), expected);
        assert_eq!(begun, [('a', 0), ('c', 4), ('f', 5 + SHORT as u64)]);
        assert_eq!(writer.queued(), 0);
    }

    #[tokio::test]
    async fn a_long_message_leaves_with_its_new_id_whole_and_in_its_place() {
        let text = "x".repeat(LARGE);
        for message in [
            format!(r#"{{"jsonrpc":"2.0","id":5,"result":"{text}"}}"#),
            format!(r#"{{"result":"{text}","id":5}}"#),
            format!("{{\n\"result\":\"{text}\",\r\n\"id\":5}}"),
        ] {
            let frame = Frame::parse(message.clone().into()).unwrap();
            for room in [7, 30, SHORT, 2 * LARGE] {
                let (near, mut far) = duplex(room);
                let mut writer = LineWriter::new(near);
                let mut begun = vec![];
                push(&mut writer, 'a', "one\n", &mut begun).unwrap();
                writer.add_edited('b', &frame, [Edit::Id(&RawId::from(12345))]);
                writer.add_edited('c', &frame, [Edit::Id(&RawId::from(6))]);
                push(&mut writer, 'd', "two\n", &mut begun).unwrap();
                writer.revoke('c'); // Unless it has begun.
                let one_line = message.replace(['\r', '\n'], " ");
                let mut expected = format!("one\n{}\n", one_line.replace(":5", ":12345"));
                if begun.iter().any(|(key, _)| *key == 'c') {
                    expected += &(one_line.replace(":5", ":6") + "\n");
                }
                expected += "two\n";
                let mut read = vec![0; expected.len()];
                let flushing =
                    std::future::poll_fn(|cx| writer.poll_flush(cx, |key, at| begun.push((key, at))));
                let (_, flushed) = tokio::join!(far.read_exact(&mut read), flushing);
                flushed.unwrap();
                assert!(read == expected.as_bytes(), "room for {room}: {}", &message[..20]);
                assert_eq!((writer.queued(), writer.accepted()), (0, expected.len() as u64));
                assert_eq!(begun[1], ('b', 4));
            }
        }
    }

    #[tokio::test]
    async fn what_was_taken_makes_room_also_while_lines_keep_coming() {
        let (near, mut far) = duplex(1000);
        let mut writer = LineWriter::new(near);
        let line = "x".repeat(999) + "\n";
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = vec![0; 1000];
        for _ in 0..100 {
            push(&mut writer, 'a', &line, &mut vec![]).unwrap();
        }
        for _ in 0..2000 {
            tokio::task::yield_now().await; // Tokio holds up a task that does much at a stretch.
            far.read_exact(&mut read).await.unwrap();
            assert_eq!(read, line.as_bytes());
            push(&mut writer, 'a', &line, &mut vec![]).unwrap();
            assert!(writer.poll_flush(&mut cx, |_, _| {}).is_pending());
            assert!(writer.short.len() <= writer.queued() + 2 * CORKED);
        }
        assert_eq!(writer.queued(), 99 * 1000);
        for _ in 0..100 {
            tokio::task::yield_now().await;
            far.read_exact(&mut read).await.unwrap();
            let _ = writer.poll_flush(&mut cx, |_, _| {});
        }
        assert_eq!((writer.queued(), writer.short.len()), (0, 0));
        assert!(writer.short.capacity() <= 2 * CORKED);
    }
}
