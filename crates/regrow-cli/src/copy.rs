//! `memcpy` and `memmove` of the static Linux binary for x86-64.
//!
//! Those of musl use a string instruction for every copy. It takes some 15 ns to start, and a short call makes 17 copies. Nobody calls these
//! by name: the linker finds them before those of musl. On ARM64 musl has fast ones of its own.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__m128i as Block, _mm_loadu_si128 as load, _mm_storeu_si128 as store};

/// From this size on, the string instruction is as fast as a loop or faster.
const LONG: usize = 1024;

/// # Safety
///
/// As [`copy`]. That the two do not overlap makes no difference.
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    // SAFETY: the same is asked of our caller.
    unsafe { copy(to, from, size) }
}

/// # Safety
///
/// As [`copy`].
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    // SAFETY: the same is asked of our caller.
    unsafe { copy(to, from, size) }
}

/// # Safety
///
/// `size` bytes can be read from `from`, and written to `to`. The two may overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    // SAFETY: what each of these copies has this size at most.
    unsafe {
        match size {
            257.. => return long(to, from, size),
            129.. => ends::<(Turn, Turn)>(to, from, size),
            65.. => ends::<Turn>(to, from, size),
            33.. => ends::<(Block, Block)>(to, from, size),
            16.. => ends::<Block>(to, from, size),
            8.. => ends::<u64>(to, from, size),
            4.. => ends::<u32>(to, from, size),
            2.. => ends::<u16>(to, from, size),
            1 => to.write(from.read()),
            0 => {}
        }
    }
    to
}

/// Copies the first bytes and the last ones, which may overlap each other. Everything is read before something is written.
///
/// # Safety
///
/// As [`copy`], with at least the size of a `T`.
#[inline(always)]
unsafe fn ends<T: Piece>(to: *mut u8, from: *const u8, size: usize) {
    let last = size - size_of::<T>();
    // SAFETY: both start and end within the size.
    unsafe {
        let pieces = (T::read(from), T::read(from.add(last)));
        pieces.0.write(to);
        pieces.1.write(to.add(last));
    }
}

/// # Safety
///
/// As [`copy`], with more than a turn.
#[inline(never)] // Or shorter copies pay for the registers that this needs.
unsafe fn long(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    let turns = (size - 1) / size_of::<Turn>();
    let last = size - size_of::<Turn>();
    // How far the target starts behind the source; wraps around if it starts before it.
    let behind = to.addr().wrapping_sub(from.addr());
    // SAFETY: the turns are within the size, and so are the first and the last one. What is written before all is read was read, or is not needed any more.
    unsafe {
        if behind < size {
            let first = Turn::read(from);
            copy_turns(to.add(last), from.add(last), turns, -(size_of::<Turn>() as isize));
            first.write(to);
        } else {
            let rest = Turn::read(from.add(last));
            // Where the target overlaps the start of the source, the instruction can take far longer than the loop.
            if size >= LONG && behind.wrapping_neg() >= size {
                copy_words(to, from, size / 8);
            } else {
                copy_turns(to, from, turns, size_of::<Turn>() as isize);
            }
            rest.write(to.add(last));
        }
    }
    to
}

/// The bytes that one turn of the loop copies.
type Turn = ((Block, Block), (Block, Block));

/// What is read and written at once, wherever it stands.
trait Piece: Sized {
    /// # Safety
    ///
    /// The bytes of a `Self` can be read.
    unsafe fn read(from: *const u8) -> Self;

    /// # Safety
    ///
    /// The bytes of a `Self` can be written.
    unsafe fn write(self, to: *mut u8);
}

macro_rules! number {
    ($($number:ty),*) => {
        $(impl Piece for $number {
            #[inline(always)]
            unsafe fn read(from: *const u8) -> $number {
                // SAFETY: as our caller says.
                unsafe { from.cast::<$number>().read_unaligned() }
            }

            #[inline(always)]
            unsafe fn write(self, to: *mut u8) {
                // SAFETY: as our caller says.
                unsafe { to.cast::<$number>().write_unaligned(self) }
            }
        })*
    };
}

number!(u16, u32, u64);

impl Piece for Block {
    #[inline(always)]
    unsafe fn read(from: *const u8) -> Block {
        // SAFETY: as our caller says.
        unsafe { load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u8) {
        // SAFETY: as our caller says.
        unsafe { store(to.cast(), self) }
    }
}

/// One after the other.
impl<T: Piece> Piece for (T, T) {
    #[inline(always)]
    unsafe fn read(from: *const u8) -> (T, T) {
        // SAFETY: as our caller says.
        unsafe { (T::read(from), T::read(from.add(size_of::<T>()))) }
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u8) {
        // SAFETY: as our caller says.
        unsafe {
            self.0.write(to);
            self.1.write(to.add(size_of::<T>()));
        }
    }
}

/// Copies turns of 64 bytes, each `step` bytes after the one before it. In assembly, because the compiler would make a call of `memmove` from the loop.
///
/// # Safety
///
/// There is one turn or more, and each can be read and written.
unsafe fn copy_turns(to: *mut u8, from: *const u8, turns: usize, step: isize) {
    // SAFETY: it touches the turns only, and no register that it does not name.
    unsafe {
        asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, {step}",
            "add {to}, {step}",
            "dec {turns}",
            "jnz 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            turns = inout(reg) turns => _,
            step = in(reg) step,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
///
/// `words` words of 8 bytes can be read and written.
unsafe fn copy_words(to: *mut u8, from: *const u8, words: usize) {
    // SAFETY: it touches these words only. The direction is upward wherever a function is called.
    unsafe {
        asm!(
            "rep movsq",
            inout("rcx") words => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sizes of short copies, and those around powers of two.
    fn sizes() -> impl Iterator<Item = usize> {
        let around = [9, 10, 11, 12, 16].into_iter().flat_map(|power| {
            let middle = 1 << power;
            middle - 3..middle + 4
        });
        (0..300).chain(around)
    }

    /// Copies within a buffer, and compares it with what the standard library makes of it.
    fn check(size: usize, from: usize, to: usize) {
        let mut ours: Vec<u8> = (0..from.max(to) + size + 64).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut theirs = ours.clone();
        theirs.copy_within(from..from + size, to);
        let start = ours.as_mut_ptr();
        // SAFETY: the buffer reaches beyond both.
        let returned = unsafe { memmove(start.add(to), start.add(from), size) };
        assert_eq!(returned.addr(), start.addr() + to);
        assert!(ours == theirs, "{size} bytes from {from} to {to}");
    }

    #[test]
    fn every_size_is_copied_whole_and_nothing_else_changes() {
        for size in sizes() {
            for (from, to) in [(0, size + 64), (5, size + 70), (size + 67, 3), (size + 64, 0)] {
                check(size, from, to);
            }
            let (from, mut to) = (vec![7_u8; size], vec![0_u8; size]);
            // SAFETY: both have this size.
            unsafe { memcpy(to.as_mut_ptr(), from.as_ptr(), size) };
            assert!(from == to, "{size} bytes");
        }
    }

    #[test]
    fn what_overlaps_is_copied_as_it_was() {
        for size in sizes() {
            for distance in [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 128, 1000] {
                check(size, 32, 32 + distance);
                check(size, 32 + distance, 32);
            }
        }
    }
}
