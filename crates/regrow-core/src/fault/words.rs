//! Signals and lengths of time as people read them.

use std::time::Duration;

/// `SIGKILL` rather than `9`, where we know the name.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        SIGBUS => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// Each number means something else on the other system.
pub(super) const SIGBUS: i32 = if cfg!(target_os = "macos") { 10 } else { 7 };

/// `60 s`, `0.3 s`: a length of time as people read it.
pub fn seconds(length: Duration) -> String {
    let millis = length.as_millis();
    if millis.is_multiple_of(1000) {
        format!("{} s", millis / 1000)
    } else {
        format!("{} s", format!("{}.{:03}", millis / 1000, millis % 1000).trim_end_matches('0'))
    }
}
