//! The process itself: how it ends, whom it leaves behind, and that nothing of it lives forever.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Resource, Rlimit, Signal, getpid, getppid, getrlimit, kill_process, setrlimit, setsid,
};

use super::evidence::Evidence;

/// Tells a server that was executed again, to ignore a signal, which life it already is.
pub(super) const RESUMED: &str = "CHAOS_RESUMED";

const LONGEST_HELP: Duration = Duration::from_secs(120);

/// A way to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    Exit(u8),
    Kill,
    Segv,
    Abort,
}

impl Death {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "exit0" => Self::Exit(0),
            "exit1" => Self::Exit(1),
            "kill" => Self::Kill,
            "segv" => Self::Segv,
            "abort" => Self::Abort,
            _ => return None,
        })
    }

    /// Dies so, now.
    pub(super) fn die(self) -> ! {
        match self {
            Self::Exit(code) => process::exit(code.into()),
            Self::Kill => signal_until_dead(Signal::KILL),
            Self::Segv => signal_until_dead(Signal::SEGV),
            Self::Abort => signal_until_dead(Signal::ABORT),
        }
    }
}

/// More than once, because the handler of the standard library swallows the first SIGSEGV that no fault caused.
fn signal_until_dead(signal: Signal) -> ! {
    loop {
        send_to_self(signal);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Stops this process until somebody continues it; a guard outside ends it when its time is up.
pub(super) fn stop(life_time: Duration) {
    let own = process::id().to_string();
    let guard = again(&["guard", &own, &life_time.as_millis().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match guard {
        Ok(_) => send_to_self(Signal::STOP),
        Err(error) => eprintln!("regrow-chaos: no guard, so no stop: {error}"),
    }
}

fn send_to_self(signal: Signal) {
    if let Err(error) = kill_process(getpid(), signal) {
        eprintln!("regrow-chaos: cannot signal itself: {error}");
    }
}

/// Ends this process when its time is up, whatever else it does.
pub(super) fn limit_life(life_time: Duration, evidence: impl Fn() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("life".into()).stack_size(64 * 1024).spawn(move || {
        thread::sleep(life_time);
        evidence();
        Death::Kill.die()
    })?;
    Ok(())
}

/// Deaths by signal are meant here, so they write no core file.
pub(super) fn forbid_core_files() {
    let limit = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    if let Err(error) = setrlimit(Resource::Core, limit) {
        eprintln!("regrow-chaos: core files stay allowed: {error}");
    }
}

/// Becomes the same program with SIGTERM ignored. A shell sets that up, since an ignored signal stays so over `exec`.
pub(super) fn ignore_term(life: u32) -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    Command::new("/bin/sh")
        .args(["-c", "trap '' TERM; exec \"$@\"", "sh"])
        .arg(program)
        .args(env::args_os().skip(1))
        .env(RESUMED, life.to_string())
        .exec()
}

/// Starts a helper that outlives us: in our group or in a session of its own, holding our pipes or not.
pub(super) fn start_helper(own_session: bool, holds_pipes: bool) -> io::Result<u32> {
    let mut command = again(&["helper", if own_session { "setsid" } else { "group" }]);
    if !holds_pipes {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    Ok(command.spawn()?.id())
}

/// This program again, in another role. The first argument is what led to `run`, so it is kept.
fn again(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap_or_else(|_| "regrow-chaos".into()));
    command.args(env::args_os().nth(1)).args(arguments);
    command
}

/// The role of a helper: be there.
pub(super) fn help(session: &str, life_time: Duration, evidence: &Evidence) -> ExitCode {
    if session == "setsid"
        && let Err(error) = setsid()
    {
        eprintln!("regrow-chaos: a helper without its own session: {error}");
    }
    evidence.note(&format!("helper {}", process::id()));
    thread::sleep(life_time.min(LONGEST_HELP));
    ExitCode::SUCCESS
}

/// The role of a guard: end a stopped server when its time is up, and leave as soon as it is gone.
pub(super) fn guard(server: &str, life_time: &str) -> ExitCode {
    let (Ok(server), Ok(life_time)) = (server.parse::<i32>(), life_time.parse()) else {
        return ExitCode::from(64);
    };
    // A group of our own keeps signals to the server's group from us. Failing only means that we go with it.
    let _ = setsid();
    let deadline = Instant::now() + Duration::from_millis(life_time);
    // Our parent changes at the moment the server dies, so its number cannot have been given to somebody else.
    while let Some(parent) = getppid()
        && parent.as_raw_pid() == server
    {
        if Instant::now() >= deadline {
            // If it cannot be signalled it has just died, which the next round sees.
            let _ = kill_process(parent, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(20));
    }
    ExitCode::SUCCESS
}

/// Writes `bytes` to stderr as fast as it is read: one megabyte without a newline, then bytes that are not UTF-8, a NUL,
/// and lines; the last line is `flood: last line`.
pub(super) fn flood_stderr(bytes: u64) {
    let mut stderr = io::stderr().lock();
    let opening = usize::try_from(bytes / 2).unwrap_or(usize::MAX).min(1_000_000);
    let line = [&[b'f'; 99][..], b"\n"].concat();
    let block = line.repeat(640);
    let written: io::Result<()> = (|| {
        stderr.write_all(&vec![b'-'; opening])?;
        stderr.write_all(b"\nflood: \xff\xfe\xc3\x28 not UTF-8\nflood: a NUL \0 inside\n")?;
        let mut left = bytes.saturating_sub(opening as u64);
        while left > 0 {
            let size = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
            stderr.write_all(&block[..size])?;
            left -= size as u64;
        }
        stderr.write_all(b"\nflood: last line\n")
    })();
    // Where nobody reads stderr any more there is nobody to tell.
    let _ = written;
}
