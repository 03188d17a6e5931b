//! Threads that serve clients beside the first, which does everything else.
//!
//! Each has a runtime of its own. Tokio's runtime with several threads took twice the CPU time for a call: it wakes idle threads to look for
//! work, and each part of a call may run on another.

use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::arguments::{Serve, Transport};

/// More would take memory that most gateways have no use for.
const MOST: usize = 4;

pub(super) struct Threads {
    runtimes: Vec<Handle>,
    /// They run as long as it is there.
    _running: watch::Sender<()>,
}

impl Threads {
    /// One client on standard input has no use for any.
    pub(super) fn start(options: &Serve) -> io::Result<Threads> {
        let processors = || thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let count = match options.transport {
            Transport::Stdio => 0,
            Transport::Http => options.http.threads.map_or_else(processors, usize::from) - 1,
        };
        let (running, _) = watch::channel(());
        let start = |_| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (handle, mut running) = (runtime.handle().clone(), running.subscribe());
            thread::Builder::new().name("regrow".to_owned()).spawn(move || {
                let _ = runtime.block_on(running.changed()); // Fails when nobody can send any more.
                runtime.shutdown_background();
            })?;
            Ok(handle)
        };
        let runtimes = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Threads { runtimes, _running: running })
    }

    pub(super) fn runtimes(&self) -> Vec<Handle> {
        self.runtimes.clone()
    }
}
