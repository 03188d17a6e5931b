//! The seccomp filter of a server without network: it can open no socket; pairs of connected ones stay.
//!
//! Unix sockets are denied as well: through the session bus or a container engine's socket, a server could have a process started outside
//! of its sandbox.

use libc::{sock_filter, sock_fprog};

/// The architecture whose system calls have the numbers that we know, as the kernel names it.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// The calls of the x32 ABI have these numbers, on x86-64 only. Nothing else has numbers as high.
const X32: u32 = 0x4000_0000;
/// Where the kernel shows a filter the number of the call,
const NUMBER: u32 = 0;
/// and the architecture.
const CALLED_ARCHITECTURE: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Whether there is a filter for this architecture.
pub(in super::super) const IS_AVAILABLE: bool = ARCHITECTURE.is_some();

/// The program. A process of another architecture is killed: its numbers mean other calls. `io_uring` would open sockets without a call.
pub(super) fn no_sockets() -> Option<Vec<sock_filter>> {
    let deny = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    // The next instruction if it holds, the one after that if not.
    let only_if = |code, value| sock_filter { code, jt: 0, jf: 1, k: value };
    let only_unless = |code, value| sock_filter { code, jt: 1, jf: 0, k: value };
    let step = |code, value| sock_filter { code, jt: 0, jf: 0, k: value };
    Some(vec![
        step(LOAD, CALLED_ARCHITECTURE),
        only_unless(IF_EQUAL, ARCHITECTURE?),
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, NUMBER),
        only_if(IF_AT_LEAST, X32),
        step(RETURN, deny(libc::ENOSYS)),
        only_if(IF_EQUAL, libc::SYS_socket as u32),
        step(RETURN, deny(libc::EACCES)),
        only_if(IF_EQUAL, libc::SYS_io_uring_setup as u32),
        step(RETURN, deny(libc::EPERM)),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ])
}

/// As the kernel takes it. It must not outlive the filter.
pub(in super::super) fn program(filter: &[sock_filter]) -> sock_fprog {
    sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() }
}
