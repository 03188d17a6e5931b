//! A running server: its exit is seen, its standard error drained, and it is ended on demand.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regrow_core::{Fault, Ladder};
use rustix::process::Pid;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::ending::{self, Times};
use super::group::{self, Group, Leader};
use super::pipes::Reader;
use super::stderr::{Drain, Tail, Wanted};
use crate::excerpt::Excerpt;
use crate::transport::{BoxFuture, Ended, Process};

/// Other tasks run after each piece of this size.
const PIECE: usize = 4 << 10;
/// As much as a pipe usually holds.
const PIPE: usize = 64 << 10;
/// When a server has exited, so much that it wrote before is read at once.
const LAST_WORDS: usize = 1 << 20;

/// The process behind a link.
pub(super) struct Server {
    group: Arc<Group>,
    exit: watch::Receiver<Option<Fault>>,
    tail: Arc<Tail>,
    runtime: Handle,
    phase: Mutex<Phase>,
}

/// Whether it is being ended.
enum Phase {
    /// It is left alone. The attendant works as long as this is held.
    Running { attendant: oneshot::Sender<()> },
    /// The steps are under way or done.
    Ending { times: watch::Sender<Times>, ended: watch::Receiver<Option<Ended>> },
}

impl Server {
    /// Begins to watch over a group. Must be called inside a runtime.
    pub(super) fn watch(group: Group, stderr: Reader, drain: Drain) -> io::Result<Server> {
        let exit = Exit::of(group.leader())?;
        let (attendant, dismissed) = oneshot::channel();
        let (news, seen) = watch::channel(None);
        let tail = drain.tail();
        let runtime = Handle::current();
        runtime.spawn(attend(exit, news, stderr, drain, dismissed));
        Ok(Server {
            group: Arc::new(group),
            exit: seen,
            tail,
            runtime,
            phase: Phase::Running { attendant }.into(),
        })
    }

    /// Starts the work of ending it.
    fn start_ending(&self, times: Times, attendant: oneshot::Sender<()>) -> Phase {
        let (times, due) = watch::channel(times);
        let (result, ended) = watch::channel(None);
        let work = ending::end(self.group.clone(), self.exit.clone(), due);
        self.runtime.spawn(async move {
            let ended = work.await;
            drop(attendant); // A helper may hold stderr open forever; nobody listens to it from here on.
            result.send_replace(Some(ended));
        });
        Phase::Ending { times, ended }
    }
}

impl Process for Server {
    fn exited(&self) -> BoxFuture<Fault> {
        let mut exit = self.exit.clone();
        Box::pin(async move {
            // Without an attendant the runtime is shutting down.
            exit.wait_for(Option::is_some).await.ok().and_then(|fault| fault.clone()).unwrap_or(Fault::Closed)
        })
    }

    fn end(&self, ladder: Ladder) -> BoxFuture<Ended> {
        let new = Times::new(Instant::now(), ladder);
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Running { attendant } = &mut *phase {
            let attendant = std::mem::replace(attendant, oneshot::channel().0);
            *phase = self.start_ending(new, attendant);
        }
        let Phase::Ending { times, ended } = &*phase else { unreachable!("it was started above") };
        times.send_if_modified(|times| {
            let earlier = times.or(new);
            std::mem::replace(times, earlier) != earlier
        });
        let mut ended = ended.clone();
        Box::pin(async move {
            // Without a result the runtime is shutting down; then the group is killed as it is dropped.
            ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()).unwrap_or_default()
        })
    }

    #[cfg(target_os = "linux")]
    fn sweep(&self, grace: Duration) -> BoxFuture<usize> {
        Box::pin(super::sweep::sweep(self.group.followed(), grace))
    }

    /// There is no way to look into another process's environment that we trust.
    #[cfg(not(target_os = "linux"))]
    fn sweep(&self, _: Duration) -> BoxFuture<usize> {
        Box::pin(std::future::ready(0))
    }

    fn stderr(&self) -> Excerpt {
        self.tail.excerpt()
    }

    fn pid(&self) -> Option<u32> {
        u32::try_from(self.group.leader().as_raw_nonzero().get()).ok()
    }
}

/// How the exit of a leader comes to us.
enum Exit {
    /// A pidfd becomes readable.
    #[cfg(target_os = "linux")]
    Pidfd(Pid, tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    /// A thread waits: macOS, and Linux before 5.3.
    Thread(oneshot::Receiver<Leader>),
}

impl Exit {
    fn of(leader: Pid) -> io::Result<Exit> {
        #[cfg(target_os = "linux")]
        if let Ok(pidfd) = rustix::process::pidfd_open(leader, rustix::process::PidfdFlags::empty()) {
            return Ok(Exit::Pidfd(leader, super::system::watched(pidfd, tokio::io::Interest::READABLE)?));
        }
        Exit::by_thread(leader)
    }

    fn by_thread(leader: Pid) -> io::Result<Exit> {
        let (sender, receiver) = oneshot::channel();
        // Nobody waits for a server that was dropped.
        let work = move || drop(sender.send(group::wait(leader)));
        std::thread::Builder::new().name("regrow-wait".to_owned()).spawn(work)?;
        Ok(Exit::Thread(receiver))
    }

    /// Resolves when the leader has exited. May be dropped and called again.
    async fn seen(&mut self) -> Fault {
        loop {
            let leader = match self {
                Exit::Thread(news) => news.await.unwrap_or(Leader::Taken),
                #[cfg(target_os = "linux")]
                Exit::Pidfd(leader, pidfd) => {
                    // It fails only while the runtime shuts down.
                    let _ = pidfd.readable().await;
                    group::look(*leader)
                }
            };
            match (leader, &self) {
                (Leader::Dead(fault), _) => return fault,
                // A debugger may hold the news back.
                #[cfg(target_os = "linux")]
                (Leader::Running, Exit::Pidfd(leader, _)) => match Exit::by_thread(*leader) {
                    Ok(thread) => *self = thread,
                    Err(error) => return Fault::Broken { reason: error.to_string() },
                },
                (Leader::Running | Leader::Taken, _) => {
                    let reason = "another part of this program took its exit status".to_owned();
                    return Fault::Broken { reason };
                }
            }
        }
    }
}

/// Drains stderr and tells of the exit, until both have ended or it is dismissed.
async fn attend(
    mut exit: Exit,
    news: watch::Sender<Option<Fault>>,
    stderr: Reader,
    drain: Drain,
    mut dismissed: oneshot::Receiver<()>,
) {
    let mut most = PIECE;
    let mut is_running = true;
    let mut is_open = true;
    while is_running || is_open {
        tokio::select! {
            biased;
            _ = &mut dismissed => break,
            fault = exit.seen(), if is_running => {
                is_running = false;
                read_rest(&stderr, &drain, most);
                news.send_replace(Some(fault));
            }
            read = stderr.read(most), if is_open => match read.unwrap_or_default() {
                read if read.is_empty() => is_open = false, // A pipe that cannot be read has nothing more to say.
                read => {
                    let Wanted { first, left_out, last } = drain.wanted(&read);
                    for (part, then_left_out) in [(first, left_out), (last, 0)] {
                        for piece in part.chunks(PIECE) {
                            drain.feed(piece);
                            // A flooding server shares the thread with other tasks.
                            tokio::task::yield_now().await;
                        }
                        drain.leave_out(then_left_out);
                    }
                    if read.len() == most {
                        most = PIPE; // Of a flood, as much as possible is skipped.
                    }
                }
            },
        }
    }
    read_rest(&stderr, &drain, most);
    drain.finish();
}

/// Reads what is there now, `most` bytes at a time, so that the last words of a server are in its tail.
fn read_rest(stderr: &Reader, drain: &Drain, most: usize) {
    let mut buffer = vec![0; most];
    let mut total = 0;
    while total < LAST_WORDS {
        let Ok(count @ 1..) = stderr.try_read(&mut buffer) else { return };
        drain.take(&buffer[..count]);
        total += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Mask;
    use crate::transport::stdio::{Stderr, pipes};

    /// There is one for each server.
    #[tokio::test]
    async fn to_attend_to_a_quiet_server_takes_little_memory() {
        let (stderr, _other_end) = pipes::pipe().unwrap();
        let drain = Drain::new("quiet".to_owned(), Stderr::Keep, Mask::default());
        let (news, exit, dismissed) = (watch::Sender::new(None), oneshot::channel().1, oneshot::channel().1);
        let attending = attend(Exit::Thread(exit), news, Reader::new(stderr).unwrap(), drain, dismissed);
        assert!(size_of_val(&attending) < 1024, "{} bytes", size_of_val(&attending));
    }

    #[tokio::test]
    async fn a_thread_sees_the_exit_where_there_are_no_pidfds() {
        let mut child = std::process::Command::new("sh").args(["-c", "exit 4"]).spawn().unwrap();
        let mut exit = Exit::by_thread(Pid::from_child(&child)).unwrap();
        assert_eq!(exit.seen().await, Fault::Exited { code: 4 });
        assert_eq!(child.wait().unwrap().code(), Some(4), "it was not reaped");
    }
}
