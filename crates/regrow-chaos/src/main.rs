//! `regrow-chaos server`: the misbehaving server as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("server") {
        return serve();
    }
    eprintln!(
        "usage: regrow-chaos server [--http ADDRESS]   (configured by CHAOS, CHAOS_DIR and CHAOS_LIFE)"
    );
    ExitCode::from(64)
}

#[cfg(unix)]
fn serve() -> ExitCode {
    regrow_chaos::server::run()
}

#[cfg(not(unix))]
fn serve() -> ExitCode {
    eprintln!("regrow-chaos: the server needs a Unix system");
    ExitCode::from(64)
}
