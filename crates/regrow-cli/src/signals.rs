//! Signals that ask us to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// What a shell reports for a program that a signal ended, above the signal's number.
pub(crate) const ENDED_BY_SIGNAL: u8 = 128;

/// Resolves with the number of the signal that asks us to end.
pub(crate) fn told_to_end() -> io::Result<impl Future<Output = u8>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = hangup.recv() => 1,
            _ = interrupt.recv() => 2,
            _ = terminate.recv() => 15,
        }
    })
}
