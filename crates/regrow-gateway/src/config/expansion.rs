//! What `${...}` stands for in a text: variables, folders, and inputs that a person would be asked for.

use std::path::Path;

use super::inputs::Inputs;
use super::message::printable;
use super::surroundings::Surroundings;

/// A longer text is no path, argument or header.
const MAX_BYTES: usize = 1 << 20;

/// What references are looked up in.
pub(super) struct Scope<'a> {
    pub(super) surroundings: &'a Surroundings,
    /// What `${workspaceFolder}` stands for.
    pub(super) workspace: &'a Path,
    pub(super) inputs: &'a Inputs,
}

impl Scope<'_> {
    /// The text with every reference replaced; or what is wrong with each that cannot be. Values are not looked into
    /// again. What is no reference, such as `${#name}` of a shell, is left alone.
    pub(super) fn expand(&self, text: &str) -> Result<String, Vec<String>> {
        let mut expanded = String::with_capacity(text.len());
        let mut problems = vec![];
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else { break };
            let (before, from) = rest.split_at(start);
            let (reference, after) = from.split_at(length + 1);
            expanded.push_str(before);
            match self.look_up(&reference[2..length]) {
                Some(Ok(value)) => expanded.push_str(&value),
                Some(Err(problem)) => problems.push(problem),
                None => expanded.push_str(reference),
            }
            if expanded.len() > MAX_BYTES {
                problems.push("it is longer than 1 MiB after its variables are filled in; shorten it".into());
                break;
            }
            rest = after;
        }
        expanded.push_str(rest);
        if problems.is_empty() { Ok(expanded) } else { Err(problems) }
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
            (None, None) => Err(format!(
                "the variable {0} is not set; set it, or give it a default: ${{{0}:-...}}",
                printable(name)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, Vec<String>> {
        let variables = [("TOKEN", "s3cr3t"), ("EMPTY", ""), ("NESTED", "${TOKEN}")];
        let surroundings = Surroundings {
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            home: Some("/home/ann".into()),
            directory: "/".into(),
        };
        let inputs = Inputs::default();
        Scope { surroundings: &surroundings, workspace: Path::new("/work/shop"), inputs: &inputs }
            .expand(text)
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
    fn every_reference_that_cannot_be_replaced_is_told_with_the_next_step() {
        let problems = expand("${NONE} ${TOKEN} ${config:x.y} ${env:} ${input:token}").unwrap_err();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].contains("NONE is not set; set it"), "{problems:?}");
        assert!(problems[1].contains("${config:...} is not known"), "{problems:?}");
        assert!(problems[3].contains("\"inputs\""), "{problems:?}");
        assert!(!problems.join(" ").contains("s3cr3t"));
    }
}
