//! The guard, which ends servers if we are killed: our own executable in another role.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use regrow::transport::stdio::{Guard, follow_helpers};

/// It is started with the first server. Also has helpers of servers followed: we start nothing but servers.
pub(crate) fn of_servers() -> io::Result<Arc<Guard>> {
    follow_helpers();
    Ok(Arc::new(Guard::new(&ourselves()?, &["guard"])))
}

/// Our own executable, also after an upgrade has put another in its place.
fn ourselves() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
