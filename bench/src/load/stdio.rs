//! Calls through a pair of pipes.

use std::io;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use memchr::{memchr, memmem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::Load;
use super::call::Calls;
use super::recorder::{Recorder, Tally};

pub(crate) struct Pipes {
    input: Sender,
    lines: Lines,
}

impl Pipes {
    pub(super) fn new(input: Sender, output: Receiver) -> Pipes {
        Pipes { input, lines: Lines { output, buffer: BytesMut::new(), searched: 0 } }
    }

    pub(super) async fn greet(&mut self, calls: &Calls) -> io::Result<()> {
        for message in calls.greeting() {
            self.input.write_all(format!("{message}\n").as_bytes()).await?;
            if !Calls::is_request(&message) {
                continue;
            }
            loop {
                if let Some(line) = self.lines.next() {
                    if Calls::is_greeting_response(line.trim_ascii_end())? {
                        break;
                    }
                } else {
                    self.lines.read().await?;
                }
            }
        }
        Ok(())
    }

    /// Subscribes to so many resources, one after the other, and hears of an update after each.
    pub(crate) async fn subscribe(&mut self, count: usize) -> io::Result<()> {
        for number in 0..count {
            let request = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":\"s{number}\",\"method\":\"resources/subscribe\",\"params\":{{\"uri\":\"echo:{number}\"}}}}\n"
            );
            self.input.write_all(request.as_bytes()).await?;
            let mut heard = (false, false);
            while heard != (true, true) {
                match self.lines.next() {
                    None => self.lines.read().await?,
                    Some(line) if memmem::find(&line, b"resources/updated").is_some() => heard.1 = true,
                    Some(line) => heard.0 |= Calls::is_greeting_response(&line)?,
                }
            }
        }
        Ok(())
    }

    pub(super) async fn run(&mut self, load: &Load, mut recorder: Recorder) -> io::Result<Tally> {
        recorder.start()?;
        // Each slot has one call at a time: its id, and when it was sent.
        let mut slots: Vec<(usize, Instant)> = vec![];
        let (mut out, mut written) = (vec![], 0);
        for id in 0..load.in_flight {
            load.calls.write(id, &mut out);
            out.push(b'\n');
            slots.push((id, Instant::now()));
        }
        let mut outstanding = load.in_flight;
        while outstanding > 0 {
            tokio::select! {
                biased;
                count = self.input.write(&out[written..]), if written < out.len() => {
                    written += count?;
                    if written == out.len() {
                        out.clear();
                        written = 0;
                    }
                }
                read = self.lines.read() => {
                    read?;
                    while let Some(line) = self.lines.next() {
                        let Some(id) = load.calls.check(&line)? else { continue };
                        let (expected, sent) = &mut slots[id % load.in_flight];
                        if *expected != id {
                            return Err(io::Error::other(format!("response {id} where {expected} is in flight")));
                        }
                        recorder.ended(*sent)?;
                        *expected = id + load.in_flight;
                        if recorder.is_done {
                            outstanding -= 1;
                        } else {
                            *sent = Instant::now();
                            load.calls.write(*expected, &mut out);
                            out.push(b'\n');
                        }
                    }
                }
            }
        }
        Ok(recorder.finish())
    }
}

/// What the proxy writes, line by line.
struct Lines {
    output: Receiver,
    buffer: BytesMut,
    /// There is no end of a line before this.
    searched: usize,
}

impl Lines {
    async fn read(&mut self) -> io::Result<()> {
        self.buffer.reserve(64 * 1024);
        match self.output.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the proxy closed its output")),
            _ => Ok(()),
        }
    }

    fn next(&mut self) -> Option<BytesMut> {
        let Some(end) = memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + end);
        self.buffer.advance(1);
        self.searched = 0;
        Some(line)
    }
}
