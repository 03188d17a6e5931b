//! The scripts and files that packages are made with, as far as linters can judge them without building a package.

#![cfg(target_os = "linux")]

use std::process::Command;

#[test]
fn scripts_and_files_of_packaging_pass_their_linters() {
    let lint = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/lint");
    let output = Command::new(lint).output().expect("the script starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
}
