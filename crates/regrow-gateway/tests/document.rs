//! The options in docs/configuration.md are those in the code. `UPDATE=1 cargo test -p regrow-gateway --test document`
//! writes them anew. Its example is read, too.

#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

use std::fs;

use regrow::transport::stdio::environment::ALLOWED;
use regrow_gateway::config::{Config, Kind, OPTIONS, Surroundings};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
const MARK: &str = "<!-- options -->\n\n";

fn table() -> String {
    let mut table = String::from("| option | value | default | means |\n|---|---|---|---|\n");
    for option in OPTIONS {
        let value = match option.kind {
            Kind::Duration => "a time".to_owned(),
            Kind::Limit => "a time, or `\"none\"`".to_owned(),
            Kind::Size => "a size in `KiB`, `MiB` or `GiB`".to_owned(),
            Kind::Pace => "N per S seconds".to_owned(),
            Kind::PaceOrNone => "N per S seconds (`\"100/1\"`), or `\"none\"`".to_owned(),
            Kind::Number => "a number".to_owned(),
            Kind::NumberOrNone => "a number, or `\"none\"`".to_owned(),
            Kind::Flag => "`true`, `false`".to_owned(),
            Kind::Word(words) => {
                words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
            }
            Kind::List => "a list of names, `*` in them".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Tools => "[an object](#tools)".to_owned(),
            Kind::SignIn => "[an object](#sign-in)".to_owned(),
            Kind::Sandbox => "[an object](#sandbox), or `\"none\"`".to_owned(),
        };
        let default = option.default.map_or("none".to_owned(), |default| format!("`{default}`"));
        let meaning = match option.meaning.split_once("Gateway: ") {
            Some((before, after)) => {
                format!("*Gateway.* {before}{}{}", after[..1].to_uppercase(), &after[1..])
            }
            None => option.meaning.to_owned(),
        };
        table.push_str(&format!("| `{}` | {value} | {default} | {meaning} |\n", option.name));
    }
    table
}

#[test]
fn the_options_in_the_document_are_those_in_the_code() {
    let old = fs::read_to_string(PATH).unwrap();
    let start = old.find(MARK).unwrap() + MARK.len();
    let end = start + old[start..].find("## ").unwrap();
    let new = format!("{}{}\n{}", &old[..start], table(), &old[end..]);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(PATH, &new).unwrap();
    }
    assert_eq!(fs::read_to_string(PATH).unwrap(), new, "run it with UPDATE=1, and look at what changes");
}

#[test]
fn the_variables_in_the_document_are_those_in_the_code() {
    let mut table = String::from("| for | variables |\n|---|---|\n");
    for group in ALLOWED {
        let names: Vec<String> = group.names.iter().map(|name| format!("`{name}`")).collect();
        table.push_str(&format!("| {} | {} |\n", group.purpose, names.join(", ")));
    }
    let document = fs::read_to_string(PATH).unwrap();
    assert!(document.contains(&table), "docs/configuration.md must have this table:\n{table}");
}

#[test]
fn the_example_in_the_document_is_read() {
    let document = fs::read_to_string(PATH).unwrap();
    let example = document.split("```jsonc\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".mcp.json");
    fs::write(&path, example).unwrap();
    let variables = ["GITHUB_TOKEN", "DOCS_TOKEN"].map(|name| (name.to_owned(), "x".to_owned()));
    let surroundings = Surroundings { variables: variables.into(), ..Surroundings::default() };
    let config = Config::read(&[path], &surroundings).unwrap();
    assert_eq!(config.servers.len(), 2);
    assert_eq!(config.servers[0].options.safe_tools.len(), 3);
}
