//! What a contestant needs to start, and what it keeps when nobody calls.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use crate::case::Case;
use crate::contestant::Contestant;
use crate::load::call::Calls;
use crate::load::{Load, Stop};
use crate::results::{Memory, Rest};
use crate::running::Server;
use crate::system;

pub(crate) const CALLS: usize = 10_000;
pub(crate) const IN_FLIGHT: usize = 16;

/// How long a process gets to release what it no longer needs.
const SETTLE: Duration = Duration::from_millis(500);

/// Starts it twice with the same empty folder: the second start finds what the first one left there.
pub(crate) async fn measure(contestant: &Contestant, case: &Case, folder: &Path) -> io::Result<Rest> {
    let calls = Calls::new(case.era, 100);
    let server = Server::start(case)?;
    let mut running = contestant.start(case, &server, folder)?;
    running.client.greet(&calls).await.map_err(|error| running.explain(&error))?;
    let first_list_ms = milliseconds(running.started.elapsed());
    let memory = match running.pid().filter(|_| contestant.is_proxy()) {
        None => None,
        Some(pid) => {
            sleep(SETTLE).await;
            let at_rest = mib(pid, "VmRSS")?;
            let load = Load { calls: calls.clone(), in_flight: IN_FLIGHT, stop: Stop::Calls(CALLS) };
            let called = running.client.run(&load, None).await;
            called.map_err(|error| running.explain(&error))?;
            sleep(SETTLE).await;
            Some(Memory { at_rest, after_calls: mib(pid, "VmRSS")?, peak: mib(pid, "VmHWM")? })
        }
    };
    drop(running);
    let mut running = contestant.start(case, &server, folder)?;
    running.client.greet(&calls).await.map_err(|error| running.explain(&error))?;
    let warm_list_ms = milliseconds(running.started.elapsed());
    let (shape, contestant) = (case.shape, contestant.name.clone());
    Ok(Rest { shape, contestant, first_list_ms, warm_list_ms, memory })
}

fn mib(pid: u32, what: &str) -> io::Result<f64> {
    Ok(system::memory(pid, what)? as f64 / 1024.0)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
