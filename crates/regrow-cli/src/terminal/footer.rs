//! Lines below the log on a terminal, redrawn in place while the log goes on above them. A terminal that takes nothing is left alone:
//! nobody may wait for it.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Live, Screen};

/// What is shown now.
static FOOTER: Mutex<Option<Footer>> = Mutex::new(None);

struct Footer {
    live: Live,
    lines: Vec<String>,
}

/// A terminal takes nothing while somebody else writes to it, another thread of ours included. That takes far less than this, unless the
/// terminal is stopped or nobody reads it.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether standard error takes something now. A terminal is waited for, but not again after that was in vain, until it takes something.
pub(crate) fn stderr_is_ready() -> bool {
    static STUCK: AtomicBool = AtomicBool::new(false);
    let stderr = io::stderr();
    let takes_within =
        |limit| poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&limit)).is_ok_and(|ready| ready > 0);
    let is_ready = takes_within(Timespec::default())
        || !STUCK.load(Ordering::Relaxed) && stderr.is_terminal() && takes_within(TURN);
    STUCK.store(!is_ready, Ordering::Relaxed);
    is_ready
}

/// Shows these lines instead of those before.
pub(crate) fn set_footer(lines: Vec<String>) {
    let mut footer = FOOTER.lock().unwrap_or_else(PoisonError::into_inner);
    let footer = footer.get_or_insert_with(|| Footer { live: Live::new(Screen::stderr()), lines: vec![] });
    footer.lines = lines;
    if stderr_is_ready() {
        let _ = footer.live.draw(&footer.lines); // It is only for the eye.
    }
}

/// Removes the lines.
pub(crate) fn remove_footer() {
    let footer = FOOTER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut footer) = footer
        && stderr_is_ready()
    {
        let _ = footer.live.clear(); // It is only for the eye.
    }
}

/// Writes to standard error, above the lines. It must be ready for that.
pub(crate) fn write_above_footer(write: impl FnOnce()) {
    let mut footer = FOOTER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(footer) = &mut *footer else { return write() };
    let _ = footer.live.clear();
    write();
    let _ = footer.live.draw(&footer.lines);
}
