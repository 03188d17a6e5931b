//! Finds the configuration where no file was named: the project's own, then those of the hosts that users have.

use std::path::PathBuf;

use super::surroundings::Surroundings;
use crate::hosts::{File, HOSTS};

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

/// The first file that has servers in it, of the project or of the user.
///
/// One is taken, not all: what runs should be seen in one place.
pub fn discover(surroundings: &Surroundings) -> Option<Discovery> {
    let mut found: Vec<PathBuf> = vec![];
    for path in candidates(surroundings) {
        if path.is_file() && !found.contains(&path) && super::has_servers(&path, surroundings) {
            found.push(path);
        }
    }
    let mut found = found.into_iter();
    let taken = found.next()?;
    let is_of_folder = !own_files(surroundings).contains(&taken);
    Some(Discovery { taken, is_of_folder, others: found.collect() })
}

/// The files of hosts that this user has, in the order of the table; not those of projects, and not Regrow's own.
pub fn files_of_user(surroundings: &Surroundings) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = vec![];
    for path in of_user(files(), surroundings) {
        if path.is_file() && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Where files are looked for, the first choice first.
pub(super) fn candidates(surroundings: &Surroundings) -> Vec<PathBuf> {
    let in_project = files().filter_map(|file| file.of_project(&surroundings.directory));
    in_project.chain(own_files(surroundings)).collect()
}

/// The user's own files: Regrow's, then those of hosts.
fn own_files(surroundings: &Surroundings) -> Vec<PathBuf> {
    of_user([&OURS].into_iter().chain(files()), surroundings)
}

/// Where these are in the home folder.
fn of_user(files: impl Iterator<Item = &'static File>, surroundings: &Surroundings) -> Vec<PathBuf> {
    let Some(home) = &surroundings.home else { return vec![] };
    let settings = surroundings.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    files.filter_map(|file| file.of_user(home, settings.as_deref())).collect()
}

fn files() -> impl Iterator<Item = &'static File> {
    HOSTS.iter().flat_map(|host| host.files)
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
    use std::fs;

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
}
