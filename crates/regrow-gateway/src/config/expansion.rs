//! What `${...}` stands for in a text: variables, folders, and inputs that a person would be asked for.

use std::ops::Range;
use std::path::Path;

use super::inputs::Inputs;
use super::message::printable;
use super::surroundings::Surroundings;
use crate::hosts::Variables;

/// A longer text is no path, argument or header.
const MAX_BYTES: usize = 1 << 20;

/// What references are looked up in.
pub(super) struct Scope<'a> {
    pub(super) surroundings: &'a Surroundings,
    /// What `${workspaceFolder}` stands for.
    pub(super) workspace: &'a Path,
    pub(super) inputs: &'a Inputs,
    /// What stands for a variable.
    pub(super) variables: Variables,
}

impl Scope<'_> {
    /// The text with every reference replaced; or what is wrong with each that cannot be. Values are not looked into
    /// again. What is no reference, such as `${#name}` of a shell, is left alone.
    pub(super) fn expand(&self, text: &str) -> Result<String, Vec<String>> {
        let mut expanded = String::with_capacity(text.len());
        let mut problems = vec![];
        let mut rest = text;
        while let Some(at) = self.first_reference(rest) {
            expanded.push_str(&rest[..at.start]);
            match self.value(&rest[at.clone()]) {
                Some(Ok(value)) => expanded.push_str(&value),
                Some(Err(problem)) => problems.push(problem),
                None => expanded.push_str(&rest[at.clone()]),
            }
            if expanded.len() > MAX_BYTES {
                problems.push("it is longer than 1 MiB after its variables are filled in; shorten it".into());
                break;
            }
            rest = &rest[at.end..];
        }
        expanded.push_str(rest);
        if problems.is_empty() { Ok(expanded) } else { Err(problems) }
    }

    /// Where the first part of a text stands that may be a reference.
    fn first_reference(&self, text: &str) -> Option<Range<usize>> {
        let between = |opening: &str, closing: &str| {
            let start = text.find(opening)?;
            Some(start..start + text[start..].find(closing)? + closing.len())
        };
        match self.variables {
            Variables::None => None,
            Variables::Dollar => between("${", "}"),
            Variables::Secrets => between("${{", "}}"),
            Variables::Braces => {
                let both = [between("{env:", "}"), between("{file:", "}")];
                both.into_iter().flatten().min_by_key(|at| at.start)
            }
            Variables::Shell => {
                let start = text.find('$')?;
                let name = &text[start + 1..];
                if name.starts_with('{') {
                    return between("${", "}");
                }
                let length = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
                Some(start..start + 1 + length.unwrap_or(name.len()))
            }
        }
    }

    /// What a reference stands for. None if it is none.
    fn value(&self, reference: &str) -> Option<Result<String, String>> {
        match self.variables {
            Variables::Braces => Some(match reference.strip_prefix("{env:") {
                Some(name) => self.variable(name.trim_end_matches('}'), None),
                None => Err("Regrow does not read {file:...}; use {env:VAR} and set the variable".into()),
            }),
            Variables::Secrets => {
                let name = reference.trim_start_matches("${{").trim_end_matches("}}").trim();
                name.strip_prefix("secrets.").map(|name| self.variable(name, None))
            }
            // As the shell of its host does, a variable that is not set is left alone.
            Variables::Shell if !reference.starts_with("${") => {
                self.surroundings.variable(&reference[1..]).map(|value| Ok(value.to_owned()))
            }
            _ => self.look_up(&reference[2..reference.len() - 1]),
        }
    }

    /// None if this is no reference.
    fn look_up(&self, reference: &str) -> Option<Result<String, String>> {
        if reference == "/" {
            return Some(Ok("/".into()));
        }
        let (name, rest) = reference.split_at(reference.find(':').unwrap_or(reference.len()));
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name {
            return None;
        }
        let folder = |path: &Path| Ok(path.to_string_lossy().into_owned());
        Some(match (name, rest) {
            ("workspaceFolder", "") => folder(self.workspace),
            ("workspaceFolderBasename", "") => {
                Ok(self.workspace.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }
            ("userHome", "") => match &self.surroundings.home {
                Some(home) => folder(home),
                None => Err("${userHome} is not known; set the variable HOME".into()),
            },
            ("pathSeparator", "") => Ok("/".into()),
            ("env", _) => self.variable(&rest[rest.len().min(1)..], None),
            ("input", _) => self.inputs.resolve(&rest[rest.len().min(1)..], self.surroundings),
            (_, "") => self.variable(name, None),
            (_, rest) => match rest.strip_prefix(":-") {
                Some(default) => self.variable(name, Some(default)),
                None => Err(format!(
                    "${{{}:...}} is not known here; known are ${{VAR}}, ${{VAR:-default}}, ${{env:VAR}}, \
                     ${{input:id}}, ${{workspaceFolder}} and ${{userHome}}",
                    printable(name)
                )),
            },
        })
    }

    /// As in a shell, a default also stands in for a variable that is set to nothing.
    fn variable(&self, name: &str, default: Option<&str>) -> Result<String, String> {
        match (self.surroundings.variable(name), default) {
            (Some(""), Some(default)) | (None, Some(default)) => Ok(default.to_owned()),
            (Some(value), _) => Ok(value.to_owned()),
            (None, None) => {
                let name = printable(name);
                let default = match self.variables {
                    Variables::Dollar | Variables::Shell => {
                        format!(", or give it a default: ${{{name}:-...}}")
                    }
                    Variables::Braces | Variables::Secrets | Variables::None => String::new(),
                };
                Err(format!("the variable {name} is not set; set it{default}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, Vec<String>> {
        expand_as(Variables::Dollar, text)
    }

    fn expand_as(variables: Variables, text: &str) -> Result<String, Vec<String>> {
        let values = [("TOKEN", "s3cr3t"), ("EMPTY", ""), ("NESTED", "${TOKEN}")];
        let surroundings = Surroundings {
            variables: values.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            home: Some("/home/ann".into()),
            directory: "/".into(),
        };
        let inputs = Inputs::default();
        let workspace = Path::new("/work/shop");
        Scope { surroundings: &surroundings, workspace, inputs: &inputs, variables }.expand(text)
    }

    #[test]
    fn references_are_replaced_and_values_are_not_looked_into() {
        let cases = [
            ("Bearer ${TOKEN}!", "Bearer s3cr3t!"),
            ("${env:TOKEN}${TOKEN}", "s3cr3ts3cr3t"),
            ("${NONE:-a b}/${EMPTY:-c}/${TOKEN:-d}/${EMPTY}", "a b/c/s3cr3t/"),
            ("${NONE:-}", ""),
            ("${NESTED}", "${TOKEN}"),
            ("${workspaceFolder}/x ${workspaceFolderBasename} ${userHome}", "/work/shop/x shop /home/ann"),
            ("a${/}b${pathSeparator}c", "a/b/c"),
        ];
        for (text, expanded) in cases {
            assert_eq!(expand(text).as_deref(), Ok(expanded), "{text}");
        }
    }

    #[test]
    fn what_is_no_reference_is_left_alone() {
        for text in ["$TOKEN", "${#TOKEN}", "${}", "${TOKEN", "${TOKEN%x}", "100 %", "ünï ${-}"] {
            assert_eq!(expand(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn each_host_has_its_own_way_to_write_a_variable() {
        let cases = [
            (Variables::Shell, "$TOKEN/${TOKEN}-$NONE$ $", "s3cr3t/s3cr3t-$NONE$ $"),
            (Variables::Braces, "{\"a\": {env:TOKEN}} ${TOKEN} {env:EMPTY}", "{\"a\": s3cr3t} ${TOKEN} "),
            (Variables::None, "${TOKEN} {env:TOKEN} $TOKEN", "${TOKEN} {env:TOKEN} $TOKEN"),
        ];
        for (variables, text, expanded) in cases {
            assert_eq!(expand_as(variables, text).as_deref(), Ok(expanded), "{text}");
        }
        let problems = expand_as(Variables::Braces, "{env:NONE} {file:key}").unwrap_err();
        assert!(
            problems[0].contains("NONE is not set") && problems[1].contains("{file:...}"),
            "{problems:?}"
        );
    }

    #[test]
    fn every_reference_that_cannot_be_replaced_is_told_with_the_next_step() {
        let problems = expand("${NONE} ${TOKEN} ${config:x.y} ${env:} ${input:token}").unwrap_err();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].contains("NONE is not set; set it"), "{problems:?}");
        assert!(problems[1].contains("${config:...} is not known"), "{problems:?}");
        assert!(problems[3].contains("\"inputs\""), "{problems:?}");
        assert!(!problems.join(" ").contains("s3cr3t"));
    }
}
