//! `regrow man`: writes a man page for Regrow and for each of its commands.

use std::fs;

use clap::CommandFactory;

use crate::arguments::{Arguments, Man};
use crate::{DONE, WE_FAILED};

pub(crate) fn run(options: &Man) -> u8 {
    let folder = &options.folder;
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    match written {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!(
                "regrow: cannot write man pages to {}: {error}; name a folder that you may write to",
                folder.display()
            );
            WE_FAILED
        }
    }
}
