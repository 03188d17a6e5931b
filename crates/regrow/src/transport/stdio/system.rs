//! The few calls that demand unsafe code, most of them in a child before its exec.
//!
//! There, only system calls are made: no allocation, no lock, no panic.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use rustix::process::Pid;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

use super::record::Record;
use super::sandbox::Restrictions;

/// What the process of a server does before it becomes the server: it leads a session of its own, tells the guard about itself, and keeps nothing
/// open but its three streams.
///
/// Without a session of its own, a server that reads a password from `/dev/tty` would be stopped by SIGTTIN whenever we run in a
/// terminal. In its own session it has no terminal: opening that file fails at once, and the server can say so.
///
/// We may be killed before the exec. Until the exec closes it, the child's copy of the pipe keeps the guard
/// from seeing the end; and by then its record is in the pipe. So the guard never misses a child.
///
/// Unless it may gain privileges, no program that it starts has more than it has itself. A sandbox is set last.
pub(super) struct Steps {
    pub(super) tell: Option<(Arc<OwnedFd>, Record)>,
    pub(super) new_privileges: bool,
    pub(super) restrictions: Option<Restrictions>,
}

impl Steps {
    /// To be called in the child, where SIGPIPE is ignored. It makes system calls only, on values that were built before.
    pub(super) fn take(&self) -> io::Result<()> {
        rustix::process::setsid()?; // It leads a group of that session, too, before the guard hears of it.
        close_all_on_exec();
        if let Some((pipe, record)) = &self.tell {
            let record = Record { pid: rustix::process::getpid().as_raw_nonzero().get(), ..*record };
            // If the guard cannot be told now, our parent notices, and tells it as well.
            let _ = rustix::io::write(pipe, &record.to_bytes());
        }
        if !self.new_privileges || self.restrictions.is_some() {
            forbid_new_privileges()?;
        }
        #[cfg(target_os = "linux")]
        if let Some(restrictions) = &self.restrictions {
            // Whatever the reason is, the server must not run; `diagnose` knows this number.
            restrict(restrictions).map_err(|_| io::Error::from_raw_os_error(libc::ENOTRECOVERABLE))?;
        }
        Ok(())
    }
}

/// Has a child that std forks take these steps.
#[cfg(not(target_os = "linux"))]
pub(super) fn before_server(command: &mut Command, steps: Steps) {
    let step = move || {
        // SAFETY: no handler is installed; std has set this signal to its default just before.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        steps.take()?;
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure makes system calls only, on values that were built before the fork.
    unsafe { command.pre_exec(step) };
}

#[cfg(target_os = "linux")]
fn forbid_new_privileges() -> io::Result<()> {
    // SAFETY: it sets a flag of the calling thread.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What root in a sandbox loses at its exec, because it opens the memory of other processes or of the kernel: SYS_MODULE, SYS_RAWIO, SYS_PTRACE,
/// SYS_ADMIN, PERFMON and BPF.
#[cfg(target_os = "linux")]
const DROPPED: [libc::c_ulong; 6] = [16, 17, 19, 21, 38, 39];

/// Puts the calling process into its sandbox, which it and everything that it starts cannot leave.
#[cfg(target_os = "linux")]
fn restrict(restrictions: &Restrictions) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    for capability in DROPPED {
        // SAFETY: it changes a set of the calling process. It fails for one that is not root, which has none of them.
        let _ = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    if let Some(ruleset) = &restrictions.ruleset {
        // SAFETY: it takes an open descriptor and flags.
        if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if let Some(filter) = &restrictions.filter {
        let program = super::sandbox::program(filter);
        // SAFETY: the program points to the filter, which lives until the end of this function; the kernel copies it.
        if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// What the kernel can do for a sandbox.
#[cfg(target_os = "linux")]
pub(super) fn sandbox_support() -> super::sandbox::Support {
    const VERSION: u32 = 1; // LANDLOCK_CREATE_RULESET_VERSION
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag it only tells the version.
    let landlock = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    // SAFETY: without a program nothing is set. Where filters are known, the error is about the missing program.
    let refused = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, nothing) };
    let has_filters = refused != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    super::sandbox::Support { landlock: landlock.max(0), seccomp: has_filters && super::sandbox::HAS_FILTER }
}

/// There is no such flag.
#[cfg(not(target_os = "linux"))]
fn forbid_new_privileges() -> io::Result<()> {
    Ok(())
}

/// Takes the guard out of our session and makes it deaf to the signals that end us: it ends after us, on its own.
pub(super) fn before_guard(command: &mut Command) {
    let step = || {
        rustix::process::setsid()?;
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            // SAFETY: to ignore a signal installs no handler; an exec keeps it ignored.
            if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        close_all_on_exec();
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(step) };
}

/// The group of a process, or our own for `None`. No group that we can name: kernel threads, and processes from
/// outside our container. (rustix assumes that there always is one.)
pub(super) fn group_of(pid: Option<Pid>) -> Option<Pid> {
    // SAFETY: it takes a number and gives one.
    let group = unsafe { libc::getpgid(Pid::as_raw(pid)) };
    (group > 0).then(|| Pid::from_raw(group)).flatten()
}

/// Has the runtime watch a file. Must be called inside a runtime.
pub(super) fn watched(file: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and the same until it is dropped, and nobody here replaces it.
    Ok(unsafe { AsyncFd::register_with_interest(file, interest)? })
}

/// Reads into what is free of a buffer, without clearing it first: that can take longer than to read.
pub(super) fn read(file: &OwnedFd, buffer: &mut ReadBuf<'_>) -> rustix::io::Result<()> {
    // SAFETY: nothing here takes back what is initialized.
    let free = unsafe { buffer.unfilled_mut() };
    let read = rustix::io::read(file, free)?.0.len();
    // SAFETY: the kernel has written these bytes.
    unsafe { buffer.assume_init(read) };
    buffer.advance(read);
    Ok(())
}

/// Files that our host left open for us are none of a server's business.
fn close_all_on_exec() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: it only marks descriptors; nothing is closed before the exec.
        let marked = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if marked == 0 {
            return;
        }
    }
    // macOS, and Linux before 5.11.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(65_536);
    for fd in 3..limit.min(65_536) as i32 {
        // SAFETY: it only marks a descriptor; one that is not open gives an error, which is as good.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Who of a process group still runs, zombies left out.
#[cfg(target_os = "macos")]
pub(super) fn group_members(group: i32) -> Vec<i32> {
    let mut pids = vec![0_i32; 1024];
    let size = (pids.len() * size_of::<i32>()) as i32;
    // SAFETY: the buffer is as large as we say.
    let count = unsafe { libc::proc_listpgrppids(group, pids.as_mut_ptr().cast(), size) };
    pids.truncate(usize::try_from(count).unwrap_or(0));
    pids.retain(|&pid| pid > 0 && !is_zombie(pid));
    pids
}

/// A process about which nothing is told counts as one.
#[cfg(target_os = "macos")]
fn is_zombie(pid: i32) -> bool {
    let size = size_of::<libc::proc_bsdinfo>() as i32;
    // SAFETY: plain numbers, for which zero is a value.
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the buffer is as large as we say.
    let got = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast(), size) };
    got != size || info.pbi_status == libc::SZOMB
}
