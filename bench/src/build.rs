//! Builds the `regrow` that is measured.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// In the profile that this program was built in. Cargo puts both into the same folder.
pub(crate) fn regrow() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or_else(|| io::Error::other("this program is in no folder"))?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let built = Command::new(cargo)
        .args(["build", "--package", "regrow-cli", "--profile", profile, "--manifest-path", manifest])
        .status()?;
    match built.success() {
        true => Ok(folder.join("regrow")),
        false => Err(io::Error::other("regrow does not build; or name an executable with --regrow")),
    }
}
