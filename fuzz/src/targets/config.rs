//! The configuration: any file is read or refused, within bounds, and no secret shows in what is said about it.

use std::collections::BTreeSet;
use std::io::Write;

use regrow_gateway::config::{Config, Process, Reach, ServerConfig, Surroundings};

const SECRET: &str = "the-secret-that-nobody-must-see";

pub(super) fn run(input: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("there is room for a small file");
    file.write_all(input).expect("there is room for a small file");
    let mut surroundings =
        Surroundings { directory: "/".into(), home: Some("/home/a".into()), ..Surroundings::default() };
    surroundings.variables.insert("SECRET".into(), SECRET.into());
    match Config::read(&[file.path()], &surroundings) {
        Ok(config) => {
            assert!(config.servers.len() <= 1000);
            let names: BTreeSet<_> = config.servers.iter().map(|server| &server.name).collect();
            assert_eq!(names.len(), config.servers.len(), "two servers of one name");
            // A program and its folder are named in every message about them; what a secret is for stands elsewhere.
            let is_named = |server: &ServerConfig| match &server.reach {
                Reach::Process(Process { program, directory, .. }) => {
                    format!("{program:?} {directory:?}").contains(SECRET)
                }
                Reach::Remote(_) | Reach::Broken(_) => false,
            };
            let text = format!("{config:?}");
            assert!(config.servers.iter().any(is_named) || !text.contains(SECRET), "a secret shows: {text}");
        }
        Err(problems) => {
            assert!(!problems.0.is_empty(), "refused for no reason");
            let text = problems.to_string();
            assert!(!text.contains(SECRET), "a secret shows: {text}");
        }
    }
}
