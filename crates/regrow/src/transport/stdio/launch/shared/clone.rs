//! The system calls that make the child.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::null_mut;

use rustix::process::Pid;

use super::Started;

/// What a child runs. It does not return, but ends its process.
type Function = extern "C" fn(*mut c_void) -> c_int;

/// Shares the memory, and stops the calling thread until the exec.
const SHARED: c_int = libc::CLONE_VM | libc::CLONE_VFORK;

/// What the child has as its stack, as aligned as it must be.
pub(super) struct Stack(Box<[MaybeUninit<u128>]>);

impl Stack {
    pub(super) fn new(size: usize) -> Stack {
        Stack(Box::new_uninit_slice(size.div_ceil(size_of::<u128>())))
    }
}

/// Starts a child, in the cgroup if the kernel allows it.
///
/// # Safety
///
/// What the function does must be safe in a child that shares the memory. The argument and the stack must live until the child has called exec or ended.
pub(super) unsafe fn start(
    function: Function,
    argument: *mut c_void,
    stack: &mut Stack,
    cgroup: Option<&OwnedFd>,
) -> io::Result<Started> {
    let range = stack.0.as_mut_ptr_range();
    if let Some(cgroup) = cgroup {
        let size = size_of_val(&*stack.0) as u64;
        let arguments = CloneArguments {
            stack: range.start as u64,
            stack_size: size,
            ..CloneArguments::into(cgroup, SHARED, libc::SIGCHLD)
        };
        // SAFETY: as the caller promises. The kernel lets the stack of the child begin at its end.
        let pid = unsafe { clone3(&arguments, size_of::<CloneArguments>(), function, argument) };
        if let Some(pid) = Pid::from_raw(pid.max(0) as i32) {
            return Ok(Started { pid, is_in_cgroup: true });
        }
    }
    // SAFETY: as the caller promises. Stacks grow downwards.
    let pid = unsafe { libc::clone(function, range.end.cast(), SHARED | libc::SIGCHLD, argument) };
    match Pid::from_raw(pid.max(0)) {
        Some(pid) => Ok(Started { pid, is_in_cgroup: false }),
        None => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel, and a filter that a container may have, know children that start in a cgroup. It starts no process: the signal is none, which the
/// kernel looks at after it has understood the rest.
pub(in super::super::super) fn can_clone_into(cgroup: &OwnedFd) -> bool {
    const NO_SIGNAL: c_int = 65;
    extern "C" fn end(_: *mut c_void) -> c_int {
        // SAFETY: it ends the calling process without running anything of it.
        unsafe { libc::_exit(0) } // A kernel that does not mind.
    }
    let arguments = CloneArguments::into(cgroup, 0, NO_SIGNAL);
    // SAFETY: without a shared memory and without a stack this is a fork, and its child ends at once.
    let result = unsafe { clone3(&arguments, size_of::<CloneArguments>(), end, null_mut()) };
    result == -(libc::EINVAL as isize)
}

/// As the kernel takes them.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

impl CloneArguments {
    fn into(cgroup: &OwnedFd, flags: c_int, exit_signal: c_int) -> CloneArguments {
        const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
        CloneArguments {
            flags: flags as u64 | CLONE_INTO_CGROUP,
            exit_signal: exit_signal as u64,
            cgroup: cgroup.as_raw_fd() as u64,
            ..CloneArguments::default()
        }
    }
}

/// The system call, after which the child calls the function: its id, or an error as a negative number.
///
/// The C library has no function for it, and one that returned in the child as well would return into frames that are not on its stack.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn clone3(
    arguments: *const CloneArguments,
    size: usize,
    function: Function,
    argument: *mut c_void,
) -> isize {
    std::arch::naked_asm!(
        "mov r8, rcx", // The kernel overwrites rcx and r11.
        "mov eax, {number}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "xor ebp, ebp", // The last of all frames.
        "mov rdi, r8",
        "call rdx",
        "ud2",
        number = const libc::SYS_clone3,
    )
}

/// The same.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn clone3(
    arguments: *const CloneArguments,
    size: usize,
    function: Function,
    argument: *mut c_void,
) -> isize {
    std::arch::naked_asm!(
        "mov x8, {number}",
        "svc #0",
        "cbz x0, 2f",
        "ret",
        "2:",
        "mov x29, xzr", // The last of all frames.
        "mov x0, x3",
        "blr x2",
        "brk #1",
        number = const libc::SYS_clone3,
    )
}

/// On other processors, servers have no cgroups.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3(_: &CloneArguments, _: usize, _: Function, _: *mut c_void) -> isize {
    -(libc::ENOSYS as isize)
}
