//! A child that shares our memory until its exec, as that of `posix_spawn` does. The thread that starts it waits until then.
//!
//! A fork would copy the page tables of all our memory, and every page that we write to afterwards would be faulted in again. std forks for every
//! child that has something to do before its exec.
//!
//! Until its exec, the child makes nothing but system calls, on values that were built before: no allocation, no lock, no panic. It has
//! descriptors, a working directory, signal handlers and rights of its own. `errno` is that of the thread that waits.

#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read as _};
use std::iter::once;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::{null, null_mut};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::super::environment::search_path;
use super::super::pipes;
use super::super::system::Steps;
use super::{Launch, Started};

mod clone;

pub(in super::super) use clone::can_clone_into;

/// Enough for the system calls. glibc needs a pointer more for each argument when it hands a script without an interpreter to the shell.
const STACK: usize = 64 << 10;

pub(super) fn start(launch: Launch<'_>, cgroup: Option<OwnedFd>) -> io::Result<Started> {
    let (report, theirs) = pipes::pipe()?;
    let theirs = above_streams(theirs)?;
    let [input, output, errors] = launch.streams;
    let child = Child {
        candidates: candidates(launch.program, search_path(launch.environment))?,
        args: Strings::new(once(launch.program).chain(launch.args.iter().map(AsRef::as_ref)).map(text))?,
        environment: Strings::new(launch.environment.iter().map(|(name, value)| variable(name, value)))?,
        directory: launch.directory.map(|directory| text(directory.as_os_str())).transpose()?,
        streams: [above_streams(input)?, above_streams(output)?, above_streams(errors)?],
        steps: launch.steps,
        report: theirs.as_raw_fd(),
    };
    let mut stack = clone::Stack::new(STACK + child.args.pointers.len() * size_of::<usize>());
    let started = without_signals(|| {
        let argument = (&raw const child).cast_mut().cast();
        // SAFETY: `run` makes system calls only. The child, its stack and what it points to live until the pipe has ended.
        unsafe { clone::start(run, argument, &mut stack, cgroup.as_ref()) }
    });
    drop(theirs); // The child has a copy, which its exec or its end closes.
    let started = started?;

    // Also where the child does not stop us, as under some emulators, it needs the stack no more after this.
    let mut errno = vec![];
    // It fails only if it is interrupted, and then it is tried again.
    let _ = File::from(report).read_to_end(&mut errno);
    match errno.first_chunk() {
        None => Ok(started),
        Some(&errno) => {
            reap(started.pid);
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
        }
    }
}

/// All that the child needs.
struct Child {
    /// Paths where the program may be, in this order.
    candidates: Vec<CString>,
    args: Strings,
    environment: Strings,
    directory: Option<CString>,
    streams: [OwnedFd; 3],
    steps: Steps,
    /// Where it says why there was no exec. It closes that, or its copy, with the exec.
    report: RawFd,
}

extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: this is what `start` handed over, and nobody changes it.
    let child = unsafe { &*child.cast::<Child>() };
    let error = match child.prepare() {
        Ok(()) => child.exec(),
        Err(error) => error,
    };
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
    // SAFETY: it writes these bytes, and ends the process without running anything of it.
    unsafe {
        libc::write(child.report, errno.as_ptr().cast(), errno.len());
        libc::_exit(1)
    }
}

impl Child {
    fn prepare(&self) -> io::Result<()> {
        forget_handlers();
        set_handler(libc::SIGPIPE, libc::SIG_IGN); // The guard may have ended.
        set_mask(&no_signals());
        if let Some(directory) = &self.directory {
            rustix::process::chdir(directory.as_c_str())?;
        }
        self.steps.take()?;
        for (number, stream) in (0..).zip(&self.streams) {
            // SAFETY: it replaces a standard stream of the child, which has descriptors of its own.
            if unsafe { libc::dup2(stream.as_raw_fd(), number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        set_handler(libc::SIGPIPE, libc::SIG_DFL); // As std does.
        Ok(())
    }

    /// As `execvp` does, with the `PATH` of the server instead of ours. Returns only if no candidate could be started.
    fn exec(&self) -> io::Error {
        let (mut last, mut is_denied) = (libc::ENOENT, false);
        for path in &self.candidates {
            // SAFETY: the path and both lists end with a zero. The path has a slash, or is empty: nothing is searched for it.
            unsafe {
                libc::execvpe(path.as_ptr(), self.args.pointers.as_ptr(), self.environment.pointers.as_ptr())
            };
            let error = io::Error::last_os_error();
            last = error.raw_os_error().unwrap_or(last);
            match last {
                libc::EACCES => is_denied = true,
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return error,
            }
        }
        io::Error::from_raw_os_error(if is_denied { libc::EACCES } else { last })
    }
}

/// Where `execvp` looks for a program. All have a slash, but for the path of a program without a name.
fn candidates(program: &OsStr, folders: &OsStr) -> io::Result<Vec<CString>> {
    let program = program.as_bytes();
    if program.is_empty() || program.contains(&b'/') {
        return Ok(vec![CString::new(program)?]);
    }
    let folders = folders.as_bytes().split(|&byte| byte == b':');
    let folders = folders.filter(|folder| folder.len() < libc::PATH_MAX as usize);
    let folders = folders.map(|folder| if folder.is_empty() { b"." } else { folder });
    folders.map(|folder| Ok(CString::new([folder, b"/", program].concat())?)).collect()
}

fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    Ok(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?)
}

/// Strings as an exec takes them.
struct Strings {
    /// To each of them, and a null pointer.
    pointers: Vec<*const c_char>,
    /// What the pointers lead to.
    _strings: Vec<CString>,
}

impl Strings {
    fn new(strings: impl Iterator<Item = io::Result<CString>>) -> io::Result<Strings> {
        let strings = strings.collect::<io::Result<Vec<CString>>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain(once(null())).collect();
        Ok(Strings { pointers, _strings: strings })
    }
}

/// The child replaces 0, 1 and 2, which other files have where our host has closed its own standard streams.
fn above_streams(file: OwnedFd) -> io::Result<OwnedFd> {
    match file.as_raw_fd() {
        0..=2 => Ok(rustix::io::fcntl_dupfd_cloexec(&file, 3)?),
        _ => Ok(file),
    }
}

/// Blocks all signals meanwhile, also in the child: a handler of ours would run there in our memory.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let mut all = no_signals();
    // SAFETY: it fills a set.
    unsafe { libc::sigfillset(&raw mut all) };
    let before = set_mask(&all);
    let done = work();
    set_mask(&before);
    done
}

fn no_signals() -> libc::sigset_t {
    let mut none = MaybeUninit::uninit();
    // SAFETY: it initializes the set.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        none.assume_init()
    }
}

/// Sets which signals the calling thread blocks. Tells which it did.
fn set_mask(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut before = no_signals();
    // SAFETY: it reads one set and writes the other.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, &raw mut before) };
    before
}

/// How the kernel takes the handling of a signal: the handler comes first, and the rest is shorter everywhere.
type Handling = [libc::sighandler_t; 8];
/// The size of the kernel's set of signals.
const SIGNALS: usize = 8;

/// Has no signal run a handler of ours. What is ignored stays so.
fn forget_handlers() {
    for signal in 1..=64 {
        let mut handling: Handling = [0; 8];
        // SAFETY: it writes no more than that. musl's own function takes a lock.
        let known = unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, null::<Handling>(), &raw mut handling, SIGNALS)
        };
        if known == 0 && handling[0] != libc::SIG_DFL && handling[0] != libc::SIG_IGN {
            set_handler(signal, libc::SIG_DFL);
        }
    }
}

/// To the default, or to ignore it.
fn set_handler(signal: c_int, handler: libc::sighandler_t) {
    let handling: Handling = [handler, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: it installs no handler. The child has its own table of them.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, &raw const handling, null_mut::<Handling>(), SIGNALS)
    };
}

fn reap(child: Pid) {
    while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

    use regrow_core::Fault;

    use super::super::super::environment::Environment;
    use super::super::super::group::{self, Leader};
    use super::super::super::record::{News, Record};
    use super::*;

    #[test]
    fn a_name_is_looked_up_in_each_folder_and_a_path_is_not() {
        let found = |program: &str, folders: &str| -> Vec<String> {
            let candidates = candidates(program.as_ref(), folders.as_ref()).unwrap();
            candidates.into_iter().map(|path| path.into_string().unwrap()).collect()
        };
        assert_eq!(
            found("cat", "/bin:tools/::/usr/bin"),
            ["/bin/cat", "tools//cat", "./cat", "/usr/bin/cat"]
        );
        assert_eq!(found("cat", ""), ["./cat"]);
        for path in ["/bin/cat", "./cat", ""] {
            assert_eq!(found(path, "/bin"), [path]);
        }
        let long = "a".repeat(5000);
        assert_eq!(found("cat", &format!("/{long}:/bin")), ["/bin/cat"], "no file has such a path");
    }

    fn null() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    /// Starts a program that ends at once, and tells how it did.
    fn run_true(tell: Option<(Arc<OwnedFd>, Record)>, cgroup: Option<OwnedFd>) -> Leader {
        let launch = Launch {
            program: OsStr::new("true"),
            args: &[],
            environment: &Environment::new(),
            directory: None,
            streams: [null(), null(), null()],
            steps: Steps { tell, new_privileges: false, restrictions: None },
        };
        let started = start(launch, cgroup).unwrap();
        assert!(!started.is_in_cgroup);
        let ended = group::wait(started.pid);
        reap(started.pid);
        ended
    }

    #[test]
    fn a_guard_that_ends_just_now_takes_no_server_with_it() {
        let (read, write) = pipes::pipe().unwrap();
        drop(read);
        let record = Record { news: News::Born, pid: 0, serial: 1 };
        assert_eq!(run_true(Some((Arc::new(write), record)), None), Leader::Dead(Fault::Exited { code: 0 }));
    }

    #[test]
    fn a_server_starts_outside_of_its_cgroup_where_the_kernel_refuses() {
        assert_eq!(run_true(None, Some(null())), Leader::Dead(Fault::Exited { code: 0 }));
    }

    #[test]
    fn no_handler_of_ours_runs_in_a_child() {
        static RAN_IN_CHILD: AtomicBool = AtomicBool::new(false);
        static OWN: AtomicI32 = AtomicI32::new(0);
        extern "C" fn handler(_: c_int) {
            // SAFETY: it tells a number.
            if unsafe { libc::getpid() } != OWN.load(Relaxed) {
                RAN_IN_CHILD.store(true, Relaxed);
            }
        }
        OWN.store(rustix::process::getpid().as_raw_nonzero().get(), Relaxed);
        // SAFETY: the handler makes a system call and changes an atomic number. Programs that do not handle this signal ignore it.
        unsafe { libc::signal(libc::SIGWINCH, handler as *const () as libc::sighandler_t) };
        let starts = std::thread::spawn(|| {
            for _ in 0..100 {
                assert_eq!(run_true(None, None), Leader::Dead(Fault::Exited { code: 0 }));
            }
        });
        while !starts.is_finished() {
            rustix::process::kill_current_process_group(rustix::process::Signal::WINCH).unwrap();
        }
        starts.join().unwrap();
        assert!(!RAN_IN_CHILD.load(Relaxed));
    }
}
