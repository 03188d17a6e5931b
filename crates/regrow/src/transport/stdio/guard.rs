//! A small process that ends our servers when we are killed: our side of it.
//!
//! It holds the read end of a pipe whose write end only we hold, so it sees our end whatever the cause. Through the
//! same pipe it is told of each server. A host that forks without exec (some Python programs do) gives its forks the
//! pipe as well; then the guard acts when the last of them has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::mark::{self, Mark};
use super::record::{News, Record};
use super::{follow, pipes, system};

/// Tells the guard whose servers it guards.
pub(super) const NONCE: &str = "REGROW_GUARD_NONCE";

/// The guard of any number of servers. Its process is started before the first of them, and lives as long as they do.
///
/// Dropping it lets the guard process end; a thread reaps it, so nobody waits.
pub struct Guard {
    program: PathBuf,
    args: Vec<OsString>,
    nonce: u64,
    post: Mutex<Post>,
}

/// The process, and what it was told.
#[derive(Default)]
struct Post {
    /// `None` before the first server.
    pipe: Option<Arc<OwnedFd>>,
    child: Option<Child>,
    servers: BTreeMap<u64, i32>,
}

impl Guard {
    /// The guard that is started by `program` with `args`, which must do nothing but call [`guard_main`](super::guard_main).
    ///
    /// A server does not start if its guard cannot be started. One that dies later is started again on its own.
    pub fn new(program: &Path, args: &[&str]) -> Guard {
        let args = args.iter().map(Into::into).collect();
        Guard { program: program.to_owned(), args, nonce: mark::nonce(), post: Mutex::default() }
    }

    /// Starts it now, on a thread of its own, for a program that is about to start a server: that has less to wait for then.
    pub fn start_early(self: &Arc<Guard>) {
        let guard = self.clone();
        // What fails here fails again for the server, which tells it.
        let start = move || drop(guard.pipe());
        let _ = std::thread::Builder::new().name("guard".into()).spawn(start);
    }

    /// The id of the guard's process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner).child.as_ref().map(Child::id)
    }

    /// What the marks of all its servers begin with.
    pub(super) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// The pipe to a guard that lives, for a child to tell of itself.
    pub(super) fn pipe(&self) -> io::Result<Arc<OwnedFd>> {
        let mut post = self.post.lock().unwrap_or_else(PoisonError::into_inner);
        match &post.pipe {
            Some(pipe) if !is_broken(pipe) => return Ok(pipe.clone()),
            Some(_) => self.replace(&mut post),
            None => {
                let (pipe, child) = launch(&self.program, &self.args, self.nonce).map_err(|error| {
                    let what = "cannot start the guard process, which stops servers if Regrow is killed";
                    io::Error::new(error.kind(), format!("{what}: {error}"))
                })?;
                (post.pipe, post.child) = (Some(Arc::new(pipe)), Some(child));
            }
        }
        Ok(post.pipe.clone().expect("it was set above"))
    }

    /// A server runs. It has told so itself; we repeat it, in case the guard was replaced in between.
    pub(super) fn born(&self, mark: Mark, leader: Pid) {
        let mut post = self.post.lock().unwrap_or_else(PoisonError::into_inner);
        post.servers.insert(mark.serial, leader.as_raw_nonzero().get());
        self.tell(&mut post, News::Born, mark.serial, leader.as_raw_nonzero().get());
    }

    /// A server's group id is about to be free for others.
    pub(super) fn gone(&self, mark: Mark) {
        let mut post = self.post.lock().unwrap_or_else(PoisonError::into_inner);
        post.servers.remove(&mark.serial);
        self.tell(&mut post, News::Gone, mark.serial, 0);
    }

    fn tell(&self, post: &mut Post, news: News, serial: u64, pid: i32) {
        let Some(pipe) = &post.pipe else { return }; // Nobody was told of anything.
        let record = Record { news, pid, serial };
        // One that is dead, or does not read, would be wrong about who lives. A new one is told of all servers.
        if is_broken(pipe) || rustix::io::write(pipe, &record.to_bytes()).is_err() {
            self.replace(post);
        }
    }

    fn replace(&self, post: &mut Post) {
        if let Some(mut old) = post.child.take() {
            // It may be dead already; either way it is killed before it can see the end of its pipe.
            let _ = old.kill();
            let _ = old.wait();
            follow::guard_ended(&old);
        }
        let pipe = match launch(&self.program, &self.args, self.nonce) {
            Ok((pipe, child)) => {
                tracing::warn!("the guard process died and was restarted");
                post.child = Some(child);
                post.pipe.insert(Arc::new(pipe))
            }
            Err(error) => {
                tracing::warn!(%error, "the guard process died and cannot be restarted for now");
                return;
            }
        };
        for (&serial, &pid) in &post.servers {
            let record = Record { news: News::Born, pid, serial };
            // If this one is dead too, the next message finds out.
            let _ = rustix::io::write(&*pipe, &record.to_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let post = self.post.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(mut child) = post.child.take() else { return };
        // It ends when our end of the pipe is dropped, which comes next.
        let reap = move || {
            let _ = child.wait(); // Nobody asks how it ended.
            follow::guard_ended(&child);
        };
        // Without a thread it stays a zombie for as long as we live.
        let _ = std::thread::Builder::new().name("regrow-guard".to_owned()).spawn(reap);
    }
}

fn launch(program: &Path, args: &[OsString], nonce: u64) -> io::Result<(OwnedFd, Child)> {
    let (theirs, ours) = pipes::pipe()?;
    pipes::set_nonblocking(&ours)?;
    let mut command = Command::new(program);
    command.args(args).env_clear().env(NONCE, nonce.to_string()).current_dir("/");
    command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
    system::before_guard(&mut command);
    Ok((ours, follow::start_guard(&mut command)?))
}

/// Whether nobody reads any more. Called before each write, since a program that does not ignore SIGPIPE would die of it.
fn is_broken(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe, PollFlags::OUT)];
    let asked = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    asked.is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
