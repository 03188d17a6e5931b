//! Finds the configuration where no file was named: the project's own, then those of the hosts that users have.

use std::path::PathBuf;

use super::surroundings::Surroundings;

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
        if path.is_file() && !found.contains(&path) && super::has_servers(&path) {
            found.push(path);
        }
    }
    let mut found = found.into_iter();
    let taken = found.next()?;
    let is_of_folder = !of_user(surroundings).contains(&taken);
    Some(Discovery { taken, is_of_folder, others: found.collect() })
}

/// Where files are looked for, the first choice first.
pub(super) fn candidates(surroundings: &Surroundings) -> Vec<PathBuf> {
    let in_project = [".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"];
    let in_project = in_project.map(|path| surroundings.directory.join(path));
    in_project.into_iter().chain(of_user(surroundings)).collect()
}

/// The user's own files, in the home folder.
fn of_user(surroundings: &Surroundings) -> Vec<PathBuf> {
    let Some(home) = &surroundings.home else { return vec![] };
    let settings = match surroundings.variable("XDG_CONFIG_HOME").map(PathBuf::from) {
        _ if cfg!(target_os = "macos") => home.join("Library/Application Support"),
        Some(folder) if folder.is_absolute() => folder,
        _ => home.join(".config"),
    };
    vec![
        settings.join("regrow/mcp.json"),
        home.join(".claude.json"),
        settings.join("Claude/claude_desktop_config.json"),
        home.join(".cursor/mcp.json"),
        settings.join("Code/User/mcp.json"),
        home.join(".codeium/windsurf/mcp_config.json"),
    ]
}

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
