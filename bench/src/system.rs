//! What the kernel knows about a process: its CPU time to the nanosecond, its instructions, its memory.

#![allow(unsafe_code)] // Clocks and counters of another process.

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

/// What a process has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// None where the machine does not count them.
    pub(crate) instructions: Option<u64>,
}

impl Usage {
    pub(crate) fn since(self, before: Usage) -> Usage {
        let instructions = self.instructions.zip(before.instructions);
        Usage {
            cpu: self.cpu.saturating_sub(before.cpu),
            instructions: instructions.map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

/// Watches all threads of a process.
pub(crate) struct Meter {
    clock: libc::clockid_t,
    counters: Vec<File>,
}

impl Meter {
    pub(crate) fn new(pid: u32) -> io::Result<Meter> {
        let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
        let mut clock = MaybeUninit::uninit();
        // SAFETY: the pointer is valid; the clock is written if the function returns 0.
        let clock = match unsafe { libc::clock_getcpuclockid(pid, clock.as_mut_ptr()) } {
            0 => unsafe { clock.assume_init() },
            error => return Err(io::Error::from_raw_os_error(error)),
        };
        let threads = fs::read_dir(format!("/proc/{pid}/task"))?;
        let threads = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
        let counters = threads.map(instruction_counter).collect::<io::Result<_>>().unwrap_or_default();
        Ok(Meter { clock, counters })
    }

    pub(crate) fn read(&self) -> io::Result<Usage> {
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the pointer is valid; the time is written if the function returns 0.
        let time = match unsafe { libc::clock_gettime(self.clock, time.as_mut_ptr()) } {
            0 => unsafe { time.assume_init() },
            _ => return Err(io::Error::last_os_error()),
        };
        let cpu = Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64);
        let mut instructions = 0;
        for mut counter in &self.counters {
            let mut value = [0; 8];
            counter.read_exact(&mut value)?;
            instructions += u64::from_ne_bytes(value);
        }
        Ok(Usage { cpu, instructions: (!self.counters.is_empty()).then_some(instructions) })
    }
}

/// Counts instructions of a thread and of those that it starts. Fails where the machine or its administrator does not allow it.
fn instruction_counter(thread: libc::pid_t) -> io::Result<File> {
    /// The first version of `struct perf_event_attr`.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample: [u64; 3],
        flags: u64,
        wakeup: u32,
        breakpoint_kind: u32,
        breakpoint: u64,
    }
    const INSTRUCTIONS: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const ANY_CPU: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let size = size_of::<Attributes>() as u32;
    let attributes = Attributes { size, config: INSTRUCTIONS, flags: INHERIT, ..Attributes::default() };
    // SAFETY: the pointer is valid and its size is in the structure; the other arguments are numbers.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            ANY_CPU,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has just opened it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) }.into())
}

/// In KiB: `VmRSS` is what a process uses now, `VmHWM` the most that it has used.
pub(crate) fn memory(pid: u32, what: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("no {what} in /proc/{pid}/status")))
}
