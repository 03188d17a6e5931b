//! A gzip stream that is small on the wire and large when it is unpacked.

use std::io;

/// How much is written at once.
const PIECE: usize = 16 * 1024;
/// The longest run that one code of the format stands for.
const LONGEST_RUN: u64 = 258;

/// Packs `head`, `count` times the letter x, and `tail`; every 159 letters take one byte.
pub(crate) fn bomb(
    head: &str,
    count: u64,
    tail: &str,
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut bits = Bits { bytes: b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec(), ..Bits::default() };
    let mut check = Check { crc: u32::MAX, size: 0 };
    bits.push(0b011, 3); // The last block, with the codes that the format fixes.
    for byte in head.bytes() {
        bits.letter(byte);
        check.add(byte);
    }
    let mut left = count;
    // The first letters stand as they are, so that there is something to repeat.
    while left > 0 {
        if left < count && left >= LONGEST_RUN {
            bits.code(0b1100_0101, 8); // A run of 258 ...
            bits.code(0, 5); // ... of what was the last letter.
            (0..LONGEST_RUN).for_each(|_| check.add(b'x'));
            left -= LONGEST_RUN;
        } else {
            bits.letter(b'x');
            check.add(b'x');
            left -= 1;
        }
        if bits.bytes.len() >= PIECE {
            send(&std::mem::take(&mut bits.bytes))?;
        }
    }
    for byte in tail.bytes() {
        bits.letter(byte);
        check.add(byte);
    }
    bits.code(0, 7); // The end of the block.
    bits.push(0, (8 - bits.used) % 8);
    bits.bytes.extend((!check.crc).to_le_bytes());
    bits.bytes.extend(check.size.to_le_bytes());
    send(&bits.bytes)
}

/// Bits, the lowest of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    partial: u8,
    used: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for at in 0..count {
            self.partial |= u8::from(value >> at & 1 == 1) << self.used;
            self.used += 1;
            if self.used == 8 {
                self.bytes.push(self.partial);
                (self.partial, self.used) = (0, 0);
            }
        }
    }

    /// A Huffman code, which stands with its highest bit first.
    fn code(&mut self, value: u32, count: u32) {
        self.push(value.reverse_bits() >> (32 - count), count);
    }

    /// A byte that stands for itself.
    fn letter(&mut self, byte: u8) {
        match u32::from(byte) {
            low @ 0..144 => self.code(0b0011_0000 + low, 8),
            high => self.code(0b1_1001_0000 + high - 144, 9),
        }
    }
}

struct Check {
    crc: u32,
    size: u32,
}

impl Check {
    fn add(&mut self, byte: u8) {
        self.size = self.size.wrapping_add(1);
        self.crc = (self.crc >> 8) ^ TABLE[((self.crc ^ u32::from(byte)) & 0xff) as usize];
    }
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut round = 0;
        while round < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            round += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_bomb_is_gzip_and_small() {
        let mut packed = vec![];
        let sent = bomb("head\u{e9}", 1_000_003, "tail", |piece| {
            packed.extend_from_slice(piece);
            Ok(())
        });
        sent.unwrap();
        assert!(packed.len() < 7_000, "{}", packed.len());
        let Ok(mut gzip) =
            Command::new("gzip").args(["-dc"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        else {
            return; // Nobody here who could check it.
        };
        gzip.stdin.take().unwrap().write_all(&packed).unwrap();
        let output = gzip.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, ["head\u{e9}", &"x".repeat(1_000_003), "tail"].concat().as_bytes());
    }
}
