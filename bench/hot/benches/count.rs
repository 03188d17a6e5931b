//! How many instructions a piece takes: valgrind runs this program twice, and the difference is that of the calls on top.

use std::process::Command;
use std::thread;

use crate::pieces::{PIECES, Piece};

/// Of all pieces, in their order.
pub(crate) fn all(slow: bool) -> Result<Vec<u64>, String> {
    let half = PIECES.len() / 2;
    let count = |pieces: &[Piece]| pieces.iter().map(|piece| one(piece, slow)).collect::<Result<Vec<_>, _>>();
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| count(&PIECES[..half]));
        (first.join(), count(&PIECES[half..]))
    });
    let mut counts = first.map_err(|_| "a thread panicked")??;
    counts.extend(second?);
    Ok(counts)
}

fn one(piece: &Piece, slow: bool) -> Result<u64, String> {
    let times = piece.times;
    let difference = total(piece, 3 * times, slow)?.saturating_sub(total(piece, times, slow)?);
    Ok(difference / (2 * times as u64))
}

/// From the start to the end of a process that does this so many times.
fn total(piece: &Piece, times: usize, slow: bool) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // The counts must not depend on the environment: its size moves the stack.
    let run = Command::new("valgrind")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args(["run", piece.name, &times.to_string()])
        .args(slow.then_some("slow"))
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let log = String::from_utf8_lossy(&run.stderr);
    let counted = log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    counted.filter(|_| run.status.success()).ok_or_else(|| format!("{}: {log}", piece.name))
}
