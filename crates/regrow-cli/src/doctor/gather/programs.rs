//! Where programs are found: by a shell, and by apps that are started from the desktop.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use regrow_gateway::config::Surroundings;

use crate::adopt::program::OF_DESKTOP;

/// How long a program may take that only prints a few lines.
const LIMIT: Duration = Duration::from_secs(10);
/// More of its output is not read.
const LONGEST: u64 = 64 << 10;

/// The folders in which programs are looked for.
pub(super) struct Paths {
    pub(super) shell: Vec<PathBuf>,
    pub(super) desktop: Vec<PathBuf>,
}

impl Paths {
    pub(super) fn find(surroundings: &Surroundings) -> Paths {
        let shell = surroundings.variables.get("PATH").map(|path| folders(path)).unwrap_or_default();
        let desktop = desktop_path(&shell)
            .map_or_else(|| OF_DESKTOP.iter().map(PathBuf::from).collect(), |path| folders(&path));
        Paths { shell, desktop }
    }
}

pub(super) fn folders(path: &str) -> Vec<PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}

/// The program of this name in these folders; or at this path, which may begin in this directory.
pub(super) fn find(program: &str, folders: &[PathBuf], directory: &Path) -> Option<PathBuf> {
    match program.contains('/') {
        true => Some(directory.join(program)).filter(|path| is_executable(path)),
        false => folders.iter().map(|folder| folder.join(program)).find(|path| is_executable(path)),
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What the session manager of the desktop says; none where it says nothing.
fn desktop_path(folders: &[PathBuf]) -> Option<String> {
    let (program, arguments): (&str, &[&str]) = match cfg!(target_os = "macos") {
        true => ("launchctl", &["getenv", "PATH"]),
        false => ("systemctl", &["--user", "show-environment"]),
    };
    let said = output_of(&find(program, folders, Path::new("/"))?, arguments)?;
    let path = match cfg!(target_os = "macos") {
        true => Some(said.trim()),
        false => said.lines().find_map(|line| line.strip_prefix("PATH=")),
    };
    path.filter(|path| path.starts_with('/')).map(str::to_owned)
}

/// What this program prints, if it soon does. It is ended in any case.
pub(super) fn output_of(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = output.take(LONGEST).read_to_string(&mut text);
        let _ = sender.send(read.map(|_| text)); // Nobody waits any more.
    });
    let text = receiver.recv_timeout(LIMIT);
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    text.ok()?.ok()
}
