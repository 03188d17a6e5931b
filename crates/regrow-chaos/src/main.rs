//! `regrow-chaos server`: the misbehaving server as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("server") {
        return regrow_chaos::server::run();
    }
    eprintln!(
        "usage: regrow-chaos server [--http ADDRESS]   (configured by CHAOS, CHAOS_DIR and CHAOS_LIFE)"
    );
    ExitCode::from(64)
}
