//! The table of options is true.

use super::*;
use crate::config::syntax;
use std::path::Path;

fn set(options: &mut Options, described: &Described, json: &str) -> Result<(), String> {
    let text = format!("{{\"value\": {json}}}");
    let object = syntax::parse(Path::new("x.json"), &text).unwrap();
    let value = &object.properties[0].value;
    let setting = match (described.kind, value.as_string_lit()) {
        (Kind::Path, Some(path)) => Setting::Path(PathBuf::from(&*path.value)),
        (Kind::Sandbox, Some(word)) if word.value == "none" => Setting::Sandbox(None),
        (Kind::Sandbox, None) if json.contains("read") => Setting::Sandbox(Some(Sandbox::default())),
        (Kind::Tools, None) if json.contains("prefix") => {
            Setting::Tools(ToolFilter { prefix: Some(String::new()), ..ToolFilter::default() })
        }
        (Kind::SignIn, None) if json.contains("account") => {
            Setting::SignIn(SignIn { account: "work".into(), ..SignIn::default() })
        }
        _ => Setting::Value(value),
    };
    (described.set)(options, &setting)
}

#[test]
fn the_defaults_that_people_are_told_are_the_defaults() {
    for described in OPTIONS {
        let mut options = Options::default();
        if let Some(default) = described.default {
            set(&mut options, described, default).unwrap();
        }
        assert_eq!(options, Options::default(), "{}", described.name);
    }
}

#[test]
fn every_option_changes_something_of_its_own() {
    let mut seen: Vec<Options> = vec![Options::default()];
    for described in OPTIONS {
        let other = match described.kind {
            Kind::Duration | Kind::Limit => "\"7m\"",
            Kind::Size => "\"7KiB\"",
            Kind::Pace | Kind::PaceOrNone => "\"7/7\"",
            Kind::Number | Kind::NumberOrNone => "7",
            Kind::Flag if described.default == Some("true") => "false",
            Kind::Flag => "true",
            Kind::Word(words) => &format!("\"{}\"", words[words.len() - 1]),
            Kind::List => "[\"get_*\"]",
            Kind::Path => "\"/x\"",
            Kind::Tools => "{\"prefix\": \"\"}",
            Kind::SignIn => "{\"account\": \"work\"}",
            Kind::Sandbox => "{\"read\": []}",
        };
        let mut options = Options::default();
        set(&mut options, described, other).unwrap();
        assert!(!seen.contains(&options), "{}", described.name);
        seen.push(options);
    }
}

#[test]
fn what_is_not_understood_is_answered_with_what_to_write_and_not_quoted() {
    for described in OPTIONS {
        for wrong in ["null", "\"s3cr3t\"", "-1", "{}", "0"] {
            let result = set(&mut Options::default(), described, wrong);
            if described.kind == Kind::Path && wrong == "\"s3cr3t\"" {
                continue;
            }
            let problem = result.unwrap_err();
            assert!(!problem.is_empty() && !problem.contains("s3cr3t"), "{}: {problem}", described.name);
        }
    }
}
