//! Counts the instructions of the hot functions and of one whole call in memory, and compares them with `bench/hot/counts.txt`.
//!
//! Valgrind counts, so a busy or slow machine changes nothing. Instructions in the kernel are not counted. See docs/performance.md.

mod count;
mod memory;
mod pieces;
mod pins;

use std::process::ExitCode;

use pieces::PIECES;

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [] => count::all(false).and_then(|counts| pins::compare(&counts)),
        ["--slow"] => count::all(true).and_then(|counts| pins::compare(&counts)),
        ["--write"] => count::all(false).and_then(|counts| pins::write(&counts)),
        ["run", piece, times, ref slow @ ..] => run(piece, times, !slow.is_empty()),
        _ => Err("usage: hot [--slow | --write]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hot: {error}");
            ExitCode::FAILURE
        }
    }
}

/// In the process that valgrind watches. If it is to be slow, it also parses a message each time, which the comparison must notice.
fn run(name: &str, times: &str, slow: bool) -> Result<(), String> {
    let piece = PIECES.iter().find(|piece| piece.name == name).ok_or("no such piece")?;
    let times = times.parse().map_err(|_| "not a number")?;
    (piece.run)(times);
    if slow {
        pieces::parse_request(times);
    }
    Ok(())
}
