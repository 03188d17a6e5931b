//! The counts that were written down, and by how much new ones may exceed them.

use std::collections::BTreeMap;
use std::fs;

use crate::pieces::PIECES;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt");

/// Compilers and C libraries differ by less; an allocation or a copy more in a hot function is more.
const TOLERANCE_PERCENT: u64 = 8;

/// An error names each piece that takes more instructions than was written down, or so few that it may not have done its work.
pub(crate) fn compare(counts: &[u64]) -> Result<(), String> {
    let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let pinned: BTreeMap<&str, u64> = text.lines().filter_map(pin).collect();
    let mut complaints = vec![];
    println!("{:>12} {:>12}", "instructions", "pinned");
    for (piece, &count) in PIECES.iter().zip(counts) {
        let Some(&pinned) = pinned.get(piece.name) else {
            complaints.push(format!("{}: not pinned", piece.name));
            continue;
        };
        println!("{count:>12} {pinned:>12}  {}", piece.name);
        if count * 100 > pinned * (100 + TOLERANCE_PERCENT) || count * 2 < pinned {
            complaints.push(format!("{}: {count} instructions instead of {pinned}", piece.name));
        }
    }
    match complaints.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("{}\nIf that is intended, pin the new counts with --write", complaints.join("\n")))
        }
    }
}

fn pin(line: &str) -> Option<(&str, u64)> {
    let (count, name) = line.trim().split_once("  ")?;
    Some((name, count.parse().ok()?))
}

pub(crate) fn write(counts: &[u64]) -> Result<(), String> {
    let lines = PIECES.iter().zip(counts).map(|(piece, count)| format!("{count:>8}  {}\n", piece.name));
    fs::write(FILE, lines.collect::<String>()).map_err(|error| format!("{FILE}: {error}"))
}
