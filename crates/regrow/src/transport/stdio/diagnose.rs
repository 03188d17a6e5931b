//! Why a program did not start. The operating system says "not found" and means one of four things.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use regrow_core::Fault;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::Stdio;
use super::environment::search_path;

/// The fault behind an error that the spawn gave.
pub(super) fn fault(server: &Stdio, error: &io::Error) -> Fault {
    let program = || server.program.to_string_lossy().into_owned();
    let cannot = |reason: String| Fault::NotExecutable { program: program(), reason };
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => {
            if let Some(fault) = bad_directory(server) {
                return fault;
            }
            match locate(server) {
                None => Fault::NotFound { program: program() },
                Some(path) if path.is_dir() => cannot("it is a directory".to_owned()),
                Some(path) if error.kind() == io::ErrorKind::NotFound => cannot(missing_interpreter(&path)),
                Some(_) if server.sandbox.is_some() => {
                    cannot(format!("{}; its interpreter may have to be added to sandbox.read", words(error)))
                }
                Some(_) => cannot(words(error)),
            }
        }
        Some(Errno::NOTRECOVERABLE) if server.sandbox.is_some() => {
            Fault::Unsandboxed { reason: "the kernel refused it".to_owned() }
        }
        Some(Errno::NOEXEC) => cannot("it is not a program for this machine".to_owned()),
        Some(Errno::PERM | Errno::ISDIR | Errno::INVAL | Errno::TOOBIG) => cannot(words(error)),
        // No error of the system: std refuses a NUL byte.
        None => cannot(words(error)),
        Some(_) => spawn_failed(server, error),
    }
}

/// It may work later.
pub(super) fn spawn_failed(server: &Stdio, error: &io::Error) -> Fault {
    Fault::SpawnFailed { program: server.program.to_string_lossy().into_owned(), reason: words(error) }
}

fn bad_directory(server: &Stdio) -> Option<Fault> {
    let directory = server.directory.as_ref()?;
    let reason = match fs::metadata(directory) {
        Err(error) => words(&error),
        Ok(found) if !found.is_dir() => "it is not a directory".to_owned(),
        Ok(_) => words(&access(directory, Access::EXEC_OK).err()?.into()),
    };
    Some(Fault::BadDirectory { path: directory.to_string_lossy().into_owned(), reason })
}

/// Where the program is: as the system looks for it, in the server's own `PATH` and working directory.
pub(super) fn locate(server: &Stdio) -> Option<PathBuf> {
    let base = server.directory.clone().unwrap_or_default();
    if server.program.as_bytes().contains(&b'/') {
        let path = base.join(&server.program);
        return path.exists().then_some(path);
    }
    let folders = search_path(&server.environment);
    let found = || std::env::split_paths(folders).map(|folder| base.join(folder).join(&server.program));
    let can_run = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    found().find(can_run).or_else(|| found().find(|path| path.exists()))
}

/// The program is there, so "not found" means what it needs to run.
fn missing_interpreter(path: &Path) -> String {
    let mut start = vec![];
    // What cannot be read is not named.
    let _ = File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    let line = start.split(|&byte| byte == b'\n').next().and_then(|line| line.strip_prefix(b"#!"));
    let interpreter = line.and_then(|line| line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()));
    match interpreter {
        Some(name) => format!("its interpreter {:?} was not found", String::from_utf8_lossy(name)),
        None => "its loader or interpreter was not found".to_owned(),
    }
}

/// `permission denied` rather than `Permission denied (os error 13)`.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}
