//! `regrow doctor`: explains on one page what is wrong on this machine, and what to do next. It changes nothing.

mod facts;
mod finding;
mod gather;
mod judge;
mod page;
mod target;

use std::io;

use crate::arguments::Doctor;
use crate::signals::ENDED_BY_SIGNAL;
use crate::table::print;
use crate::{DONE, SERVER_FAILED, WE_FAILED};
use finding::Level;

pub(crate) fn run(options: &Doctor) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let examined = runtime.block_on(examine(options));
    runtime.shutdown_background();
    examined.unwrap_or_else(|error| failed(&error))
}

async fn examine(options: &Doctor) -> io::Result<u8> {
    let facts = match gather::gather(options.timeout).await? {
        Ok(facts) => facts,
        Err(signal) => return Ok(ENDED_BY_SIGNAL + signal),
    };
    let findings = judge::judge(&facts);
    print(&match options.json {
        true => page::json(&facts, &findings),
        false => page::text(&facts, &findings),
    })?;
    let is_broken = findings.iter().any(|finding| finding.level == Level::Broken);
    Ok(if is_broken { SERVER_FAILED } else { DONE })
}

fn failed(error: &io::Error) -> u8 {
    eprintln!("regrow: cannot examine this machine: {error}");
    WE_FAILED
}
