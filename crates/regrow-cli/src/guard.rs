//! The guard, which ends servers if we are killed: our own executable in another role.

use std::io;
use std::path::PathBuf;

use regrow::transport::stdio::{Guard, follow_helpers};

/// Also has helpers of servers followed: we start nothing but servers.
pub(crate) fn start() -> io::Result<Guard> {
    follow_helpers();
    let guard = ourselves().and_then(|program| Guard::start(&program, &["guard"]));
    guard.map_err(|error| {
        let what = "cannot start the guard process, which stops servers if regrow is killed";
        io::Error::new(error.kind(), format!("{what}: {error}"))
    })
}

/// Our own executable, also after an upgrade has put another in its place.
fn ourselves() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
