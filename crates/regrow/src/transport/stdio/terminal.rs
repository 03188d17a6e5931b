//! Recognizes a server that wants to ask a person something: it has no terminal, so the log explains why it fails.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memmem::Finder;

/// How programs complain that they have no terminal: ssh, gpg and scripts; sudo, new and old; git.
///
/// All sessions share them: together they take 1.5 KiB.
static COMPLAINTS: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| {
    let complaints = [
        TERMINAL,
        "a terminal is required",
        "no tty present",
        "could not read Username for",
        "could not read Password for",
    ];
    complaints.map(Finder::new)
});
const TERMINAL: &str = "/dev/tty";

/// Logs a hint with the first such complaint of a session.
#[derive(Default)]
pub(super) struct Hint {
    logged: AtomicBool,
}

impl Hint {
    /// Looks at one line of the server's standard error.
    pub(super) fn look(&self, server: &str, line: &[u8]) {
        if self.logged.load(Ordering::Relaxed) || !is_complaint(line) {
            return;
        }
        self.logged.store(true, Ordering::Relaxed);
        tracing::warn!(
            server,
            "the server tried to use a terminal, but it has none: programs such as ssh, sudo, gpg and git cannot ask for a \
             password here (use a key, an agent or an askpass helper)"
        );
    }
}

fn is_complaint(line: &[u8]) -> bool {
    COMPLAINTS.iter().any(|complaint| match complaint.find(line) {
        // `/dev/ttyUSB0` is a serial port.
        Some(at) if complaint.needle() == TERMINAL.as_bytes() => {
            !line.get(at + TERMINAL.len()).is_some_and(u8::is_ascii_alphanumeric)
        }
        found => found.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::is_complaint;

    #[test]
    fn complaints_of_well_known_programs_are_recognized() {
        for line in [
            "sh: 1: cannot open /dev/tty: No such device or address",
            "gpg: cannot open '/dev/tty': No such device or address",
            "OSError: [Errno 6] No such device or address: '/dev/tty'",
            "sudo: a terminal is required to read the password; either use the -S option",
            "sudo: no tty present and no askpass program specified",
            "fatal: could not read Username for 'https://example.com': No such device or address",
        ] {
            assert!(is_complaint(line.as_bytes()), "{line}");
        }
        for line in ["opened /dev/ttyUSB0 at 9600 baud", "terminal server ready", ""] {
            assert!(!is_complaint(line.as_bytes()), "{line}");
        }
    }
}
