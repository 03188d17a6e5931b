//! Which variables a server that fails may be missing: ours that it does not get, by name only.

use std::collections::BTreeSet;

use regrow_gateway::config::{Reach, ServerConfig};
use regrow_gateway::environment_of;
use regrow_gateway::tool_filter::Glob;

/// What the programs that start most servers look for, beyond what every server gets.
const LAUNCHERS: [(&str, &[&str]); 9] = [
    ("npx", &["NODE_AUTH_TOKEN", "NODE_OPTIONS", "NPM_CONFIG_*", "NPM_TOKEN", "npm_config_*"]),
    ("npm", &["NODE_AUTH_TOKEN", "NODE_OPTIONS", "NPM_CONFIG_*", "NPM_TOKEN", "npm_config_*"]),
    ("node", &["NODE_OPTIONS", "NODE_PATH"]),
    ("uvx", &["PIP_*", "UV_*"]),
    ("uv", &["PIP_*", "UV_*", "VIRTUAL_ENV"]),
    ("python", &["PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"]),
    ("python3", &["PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"]),
    ("docker", &["DOCKER_*"]),
    ("podman", &["CONTAINER_HOST", "DOCKER_*"]),
];
/// More are not shown.
const MOST: usize = 10;

/// The names of variables that are set here, that the server does not get, and that it names on stderr or that its launcher looks for.
pub(super) fn missing(server: &ServerConfig, stderr: &[String]) -> Vec<String> {
    let Reach::Process(process) = &server.reach else { return vec![] };
    let passed = environment_of(process, &server.options);
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| !passed.contains_key(name));
    let ours = ours.filter_map(|name| name.into_string().ok());
    among(ours, &process.program, stderr)
}

fn among(ours: impl Iterator<Item = String>, program: &str, stderr: &[String]) -> Vec<String> {
    let program = program.rsplit('/').next().unwrap_or_default();
    let known = LAUNCHERS.iter().filter(|(name, _)| *name == program).flat_map(|(_, known)| *known);
    let known: Vec<Glob> = known.map(|name| Glob::new(name)).collect();
    let is_known = |name: &str| known.iter().any(|glob| glob.matches(name));
    let words: BTreeSet<&str> = stderr.iter().flat_map(|line| line.split(|c| !is_of_name(c))).collect();
    let mut missing: Vec<String> =
        ours.filter(|name| is_telling(name) && (words.contains(&**name) || is_known(name))).collect();
    missing.sort();
    missing.truncate(MOST);
    missing
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Not `_`, and not an ordinary word that happens to be a variable.
fn is_telling(name: &str) -> bool {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase());
    name.len() > 2 && !is_word && name.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_that_the_server_or_its_launcher_looks_for() {
        let stderr = ["Error: set GITHUB_TOKEN (or GH_TOKEN_2) in your shell", "name _ MY_GITHUB_TOKENS"];
        let stderr = stderr.map(str::to_owned);
        let found = |program: &str, ours: &[&str]| {
            among(ours.iter().map(|name| (*name).to_owned()), program, &stderr).join(" ")
        };
        assert_eq!(
            found("sh", &["GITHUB_TOKEN", "GH_TOKEN", "GITHUB", "name", "_", "EDITOR"]),
            "GITHUB_TOKEN"
        );
        let npm = ["npm_config_proxy", "NPM_TOKEN", "UV_OFFLINE"];
        assert_eq!(found("/usr/bin/npx", &npm), "NPM_TOKEN npm_config_proxy");
        assert_eq!((found("uvx", &npm), found("sh", &npm)), ("UV_OFFLINE".into(), String::new()));
    }
}
