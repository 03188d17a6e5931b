//! `regrow completions`: prints the completion script for a shell.

use clap::CommandFactory;

use crate::arguments::{Arguments, Completions};
use crate::table::print;
use crate::{DONE, WE_FAILED};

pub(crate) fn run(options: &Completions) -> u8 {
    // Not written to standard output at once: the generator panics if its reader has left.
    let mut script = vec![];
    clap_complete::generate(options.shell, &mut Arguments::command(), "regrow", &mut script);
    match print(&String::from_utf8_lossy(&script)) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("regrow: cannot write to standard output: {error}");
            WE_FAILED
        }
    }
}
