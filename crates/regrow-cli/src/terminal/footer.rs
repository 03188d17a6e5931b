//! Lines below the log on a terminal, redrawn in place while the log goes on above them. A terminal that takes nothing now is left alone:
//! nobody may wait for it.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Live, Screen};

/// What is shown now.
static FOOTER: Mutex<Option<Footer>> = Mutex::new(None);

struct Footer {
    live: Live,
    lines: Vec<String>,
}

/// Whether standard error takes something now.
pub(crate) fn stderr_is_ready() -> bool {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
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
