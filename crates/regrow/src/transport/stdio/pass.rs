//! Passes lines of servers on to our own standard error, without ever waiting for its reader.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// At most this many lines wait to be written; more are left out.
const QUEUE: usize = 256;

static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Writes `[name] line` as soon as our standard error takes it, or leaves it out.
pub(super) fn on(name: &str, line: &str) {
    static LINES: OnceLock<SyncSender<String>> = OnceLock::new();
    if LINES.get_or_init(start).try_send(format!("[{name}] {line}\n")).is_err() {
        LEFT_OUT.fetch_add(1, Ordering::Relaxed);
    }
}

/// One thread for all servers: it alone may wait.
fn start() -> SyncSender<String> {
    let (sender, lines) = sync_channel(QUEUE);
    // Without a thread every line is left out, and the servers run all the same.
    let _ = std::thread::Builder::new().name("regrow-stderr".to_owned()).spawn(|| write_all(lines));
    sender
}

fn write_all(lines: Receiver<String>) {
    for line in lines {
        write(line.as_bytes());
        let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let count =
                format!("[regrow] left out {left_out} lines of servers: stderr was not read in time\n");
            write(count.as_bytes());
        }
    }
}

/// Not through std's handle: its lock, held while we wait, would stop everybody else who wants to say something.
fn write(mut bytes: &[u8]) {
    let stderr = rustix::stdio::stderr();
    while !bytes.is_empty() {
        match rustix::io::write(stderr, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Our host made it nonblocking. A failed wait only means to try again.
                let _ = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None);
            }
            Err(_) => return, // Nobody is there to read it, and nobody to tell.
        }
    }
}
