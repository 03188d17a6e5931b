//! A client for `regrow chaos client`: the crate as its documentation shows it, driven over the line protocol (docs/chaos.md).

mod client;

use std::process::ExitCode;

use regrow::transport::stdio::{Guard, guard_main};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The guard is this program again: it ends the servers if we are killed.
    if std::env::args().nth(1).as_deref() == Some("guard") {
        return guard_main();
    }
    match std::env::current_exe() {
        Ok(program) => {
            client::serve(Guard::new(&program, &["guard"])).await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot find the guard: {error}");
            ExitCode::FAILURE
        }
    }
}
