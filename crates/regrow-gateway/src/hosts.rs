//! The MCP hosts that Regrow knows: where each keeps its servers, and how it writes them.
//!
//! To add a host, add a row to [`HOSTS`], and a file as the host writes it to `regrow-cli/tests/hosts/fixtures`.

mod format;
mod members;
mod table;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use format::Format;
pub use members::Members;
pub use table::HOSTS;

/// A host, as far as its configuration goes.
#[derive(Debug)]
pub struct Host {
    /// What people call it.
    pub name: &'static str,
    /// The files that may hold its servers, all in one format: the user's own, and those of a project.
    pub files: &'static [File],
    /// The members that hold servers, as paths: `mcp/servers`. A `*` stands for any member.
    pub sections: &'static [&'static str],
    /// The members of a server.
    pub members: &'static Members,
    /// What stands for a variable in a text.
    pub variables: Variables,
    /// Whether people start it from a desktop, where it does not get the `PATH` of their shell.
    pub is_desktop: bool,
    /// How its user makes a change take effect.
    pub reload: &'static str,
}

/// A file of a host on each system. `~` is the home folder, and `$NAME` the folder that this variable names, if it is set; a path that begins with
/// neither is in the folder of a project. A file name such as `*.yaml` stands for all such files of the folder.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // They are the names of systems.
pub struct File {
    pub linux: &'static str,
    pub macos: &'static str,
    pub windows: &'static str,
}

/// What stands for a variable in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variables {
    /// `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${input:id}`, `${workspaceFolder}` and `${userHome}`.
    Dollar,
    /// These, and `$VAR`.
    Shell,
    /// `{env:VAR}`.
    Braces,
    /// `${{ secrets.VAR }}`.
    Secrets,
    /// Nothing: texts are taken as they are.
    None,
}

impl Host {
    /// The host of this name.
    pub fn named(name: &str) -> Option<&'static Host> {
        HOSTS.iter().find(|host| host.name == name)
    }

    /// The format of its files.
    pub fn format(&self) -> Format {
        self.files.first().map_or(Format::Json, |file| Format::of(Path::new(file.linux)))
    }

    /// The hosts whose files are in this format.
    pub fn all_of(format: Format) -> impl Iterator<Item = &'static Host> {
        HOSTS.iter().filter(move |host| host.format() == format)
    }

    /// The hosts that this file may belong to, by the end of its path; all hosts of its format where no path of a host ends like it.
    pub fn of_file(path: &Path) -> Vec<&'static Host> {
        let alike: Vec<(usize, &Host)> = Host::all_of(Format::of(path))
            .map(|host| (host.files.iter().map(|file| file.alike(path)).max().unwrap_or(0), host))
            .collect();
        let most = alike.iter().map(|(alike, _)| *alike).max().unwrap_or(0);
        alike.into_iter().filter(|(alike, _)| *alike == most).map(|(_, host)| host).collect()
    }

    /// The project that a file belongs to: where the path of a project's file begins.
    pub fn project_of(path: &Path) -> Option<&Path> {
        let ends_like = |file: &&File| {
            file.alike(path) == file.here().split('/').filter(|part| !part.starts_with(['~', '$'])).count()
        };
        let files: Vec<&File> = HOSTS.iter().flat_map(|host| host.files).filter(ends_like).collect();
        let longest = files.iter().max_by_key(|file| file.alike(path))?;
        longest.is_of_project().then(|| path.ancestors().nth(longest.alike(path))).flatten()
    }
}

impl File {
    /// The same path on every system.
    const fn everywhere(path: &'static str) -> File {
        File { linux: path, macos: path, windows: path }
    }

    /// Where it is on this system, if it is no file of a project. `folder` is what a variable holds if that is an absolute path.
    pub fn of_user(&self, home: &Path, folder: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        if let Some((variable, rest)) = self.here().strip_prefix('$').and_then(|path| path.split_once('/')) {
            return Some(folder(variable)?.join(rest));
        }
        let path = self.here().strip_prefix("~/")?;
        let settings = path.strip_prefix(".config/").filter(|_| cfg!(not(target_os = "macos")));
        match settings.and_then(|rest| Some(folder("XDG_CONFIG_HOME")?.join(rest))) {
            Some(path) => Some(path),
            None => Some(home.join(path)),
        }
    }

    /// Where it is in this project, if it is a file of a project.
    pub fn of_project(&self, project: &Path) -> Option<PathBuf> {
        self.is_of_project().then(|| project.join(self.here()))
    }

    /// Whether it is a file of a project, rather than the user's own.
    pub fn is_of_project(&self) -> bool {
        !self.here().starts_with(['~', '$'])
    }

    fn here(&self) -> &'static str {
        if cfg!(target_os = "macos") { self.macos } else { self.linux }
    }

    /// How many parts at the end of both paths are the same.
    fn alike(&self, path: &Path) -> usize {
        let parts = |ours: &'static str| ours.rsplit('/').zip(path.components().rev());
        let same = |ours| match parts(ours).take_while(|(ours, other)| fits(ours, other.as_os_str())).count()
        {
            // Any file is called like that; only its folder tells whose it is.
            1 if ours.contains('*') => 0,
            count => count,
        };
        same(self.linux).max(same(self.macos))
    }
}

/// Whether a file or folder of this name is meant by a part of a path in the table, such as `*.yaml`.
pub(crate) fn fits(part: &str, name: &OsStr) -> bool {
    match part.strip_prefix('*') {
        Some(end) => name.to_str().is_some_and(|name| name.ends_with(end)),
        None => name == part,
    }
}
