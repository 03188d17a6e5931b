//! What Linux tells about processes in `/proc`.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::Pid;

/// An environment is read up to this size. The kernel allows no larger one under the usual limits.
const ENVIRONMENT_LIMIT: u64 = 2 << 20;

/// Every process on this machine that we can see.
pub(super) fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Pid::from_raw)
}

/// Whether it is there and no zombie.
pub(super) fn runs(pid: Pid) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return false };
    // The name stands in parentheses and may itself contain any character; the state follows the last one.
    let state = memchr::memrchr(b')', &stat).and_then(|end| stat.get(end + 2));
    !matches!(state, None | Some(b'Z' | b'X'))
}

/// Whether it belongs to the user that we are, so that its environment is ours to read.
pub(super) fn is_ours(pid: Pid) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|entry| entry.uid() == rustix::process::geteuid().as_raw())
}

/// Whether it was started with an environment in which an entry begins so. `buffer` is only there to be used again.
pub(super) fn has_variable(pid: Pid, prefix: &[u8], buffer: &mut Vec<u8>) -> bool {
    buffer.clear();
    let Ok(file) = File::open(format!("/proc/{pid}/environ")) else { return false };
    if file.take(ENVIRONMENT_LIMIT).read_to_end(buffer).is_err() {
        return false; // It has ended meanwhile, or is not ours to look at.
    }
    buffer.split(|&byte| byte == 0).any(|entry| entry.starts_with(prefix))
}
