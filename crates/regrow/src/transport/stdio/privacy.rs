//! What other processes of the same user may see of ours.

/// Forbids other processes to read our memory and environment, and the system to write them into a core dump. A server that we start runs as the
/// same user, and must not find there what was given to us alone.
///
/// For the whole process, at its start. On Linux; elsewhere only core dumps are forbidden.
pub fn keep_private() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    // Neither fails for a process itself; and without them we are where other programs are.
    let _ = setrlimit(Resource::Core, limit);
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
