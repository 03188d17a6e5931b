//! Finds the configuration where no file was named: the project's own, then those of the hosts that users have.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use super::surroundings::Surroundings;
use crate::hosts::{File, HOSTS, Host, fits};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// The file to take.
    pub taken: PathBuf,
    /// Whether it came with the working directory, rather than being the user's own: then somebody else may have written it.
    pub is_of_folder: bool,
    /// Others that have servers, too. They are left alone unless they are named.
    pub others: Vec<PathBuf>,
}

/// A file that may hold servers.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is. None for the file that users have for Regrow alone.
    pub host: Option<&'static Host>,
    /// Whether it came with the working directory, rather than being the user's own.
    pub is_of_folder: bool,
}

/// The first file that has servers in it, of the project or of the user.
///
/// One is taken, not all: what runs should be seen in one place.
pub fn discover(surroundings: &Surroundings) -> Option<Discovery> {
    let mut found = files_with_servers(surroundings).into_iter();
    let FoundFile { path: taken, is_of_folder, .. } = found.next()?;
    Some(Discovery { taken, is_of_folder, others: found.map(|file| file.path).collect() })
}

/// All files that have servers in them, or that cannot be read, the first choice first.
pub fn files_with_servers(surroundings: &Surroundings) -> Vec<FoundFile> {
    let found = existing(candidates(surroundings));
    found.into_iter().filter(|file| super::has_servers(&file.path, surroundings)).collect()
}

/// The files of hosts that this user has, in the order of the table; not those of projects, and not Regrow's own.
pub fn files_of_user(surroundings: &Surroundings) -> Vec<PathBuf> {
    let hosts = existing(of_user(surroundings)).into_iter().filter(|file| file.host.is_some());
    hosts.map(|file| file.path).collect()
}

/// Where files are looked for, the first choice first.
pub(super) fn candidates(surroundings: &Surroundings) -> Vec<FoundFile> {
    let of_user = of_user(surroundings);
    let in_project = files().flat_map(|(host, file)| {
        let paths = file.of_project(&surroundings.directory).map_or(vec![], matching).into_iter();
        paths.map(move |path| (host, path))
    });
    let in_project = in_project.map(|(host, path)| {
        let is_of_folder = !of_user.iter().any(|own| own.path == path);
        FoundFile { path, host, is_of_folder }
    });
    in_project.chain(of_user.iter().cloned()).collect()
}

/// The user's own files, in the home folder: Regrow's, then those of hosts.
fn of_user(surroundings: &Surroundings) -> Vec<FoundFile> {
    let Some(home) = &surroundings.home else { return vec![] };
    let folder = |name: &str| surroundings.variable(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let found = |(host, file): (Option<&'static Host>, &File)| {
        let paths = file.of_user(home, folder).map_or(vec![], matching).into_iter();
        paths.map(move |path| FoundFile { path, host, is_of_folder: false })
    };
    [(None, &OURS)].into_iter().chain(files()).flat_map(found).collect()
}

/// The path itself, or all files that there are where its name is `*.yaml` or the like, in the order of their names.
fn matching(path: PathBuf) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return vec![path];
    };
    if !name.starts_with('*') {
        return vec![path];
    }
    // A folder that is not there or cannot be read has no files for us.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.filter(|entry| fits(name, &entry.file_name())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Those that there are, each once.
fn existing(candidates: Vec<FoundFile>) -> Vec<FoundFile> {
    let mut found: Vec<FoundFile> = vec![];
    for file in candidates {
        if file.path.is_file() && !found.iter().any(|other| other.path == file.path) {
            found.push(file);
        }
    }
    found
}

fn files() -> impl Iterator<Item = (Option<&'static Host>, &'static File)> {
    HOSTS.iter().flat_map(|host| host.files.iter().map(move |file| (Some(host), file)))
}

/// The file that users may have for Regrow alone.
static OURS: File = File {
    linux: "~/.config/regrow/mcp.json",
    macos: "~/Library/Application Support/regrow/mcp.json",
    windows: "%APPDATA%/regrow/mcp.json",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_file_comes_first_and_files_without_servers_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        fs::create_dir_all(home.join(".cursor")).unwrap();
        fs::create_dir_all(&project).unwrap();
        let surroundings =
            Surroundings { home: Some(home.clone()), directory: project.clone(), ..Surroundings::default() };
        assert_eq!(discover(&surroundings), None);

        let one = r#"{ "mcpServers": { "a": { "command": "a" } } }"#;
        fs::write(home.join(".claude.json"), r#"{ "numStartups": 7, "mcpServers": {} }"#).unwrap();
        fs::write(home.join(".cursor/mcp.json"), one).unwrap();
        let found = discover(&surroundings).unwrap();
        let own = Discovery { taken: home.join(".cursor/mcp.json"), is_of_folder: false, others: vec![] };
        assert_eq!(found, own);
        let at_home = Surroundings { directory: home.clone(), ..surroundings.clone() };
        assert_eq!(discover(&at_home), Some(own), "the user's own file is no other in the home folder");

        fs::write(project.join(".mcp.json"), "not even JSON, and its user should hear of it").unwrap();
        let found = discover(&surroundings).unwrap();
        let others = vec![home.join(".cursor/mcp.json")];
        assert_eq!(found, Discovery { taken: project.join(".mcp.json"), is_of_folder: true, others });
    }

    #[test]
    fn folders_that_variables_name_and_files_of_any_name_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        let (codex, claude) = (folder.path().join("codex"), folder.path().join("claude"));
        let of_user = home.join(".continue/mcpServers");
        let of_project = project.join(".continue/mcpServers");
        for folder in [&codex, &claude, &of_user, &of_project] {
            fs::create_dir_all(folder).unwrap();
        }
        let yaml = "mcpServers:\n  - name: a\n    command: a\n";
        for file in [of_user.join("b.yml"), of_user.join("a.yaml"), of_project.join("c.yaml")] {
            fs::write(file, yaml).unwrap();
        }
        fs::write(of_user.join("notes.txt"), yaml).unwrap();
        fs::write(codex.join("config.toml"), "[mcp_servers.a]\ncommand = 'a'\n").unwrap();
        fs::write(claude.join(".claude.json"), r#"{ "mcpServers": { "a": { "command": "a" } } }"#).unwrap();
        let variables = [("CODEX_HOME", &codex), ("CLAUDE_CONFIG_DIR", &claude)]
            .map(|(name, folder)| (name.to_owned(), folder.to_str().unwrap().to_owned()));
        let surroundings =
            Surroundings { home: Some(home), directory: project, variables: variables.into_iter().collect() };

        let found = files_with_servers(&surroundings);
        let found: Vec<(&str, PathBuf, bool)> =
            found.into_iter().map(|it| (it.host.unwrap().name, it.path, it.is_of_folder)).collect();
        let expected = [
            ("Continue", of_project.join("c.yaml"), true),
            ("Claude Code", claude.join(".claude.json"), false),
            ("Codex", codex.join("config.toml"), false),
            ("Continue", of_user.join("a.yaml"), false),
            ("Continue", of_user.join("b.yml"), false),
        ];
        assert_eq!(found, expected);

        let without = Surroundings { variables: Default::default(), ..surroundings };
        assert_eq!(files_of_user(&without), [of_user.join("a.yaml"), of_user.join("b.yml")]);
    }
}
