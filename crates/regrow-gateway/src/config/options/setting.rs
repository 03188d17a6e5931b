//! The value that somebody gave an option, and what it means.

use std::path::PathBuf;
use std::time::Duration;

use jsonc_parser::ast::Value;
use regrow::transport::stdio::Sandbox;

use super::super::sign_in::SignIn;
use crate::tool_filter::ToolFilter;
use crate::units;

/// As it stands in the file; a path already with its references replaced.
pub(super) enum Setting<'a> {
    /// Anything else.
    Value(&'a Value<'a>),
    /// A path.
    Path(PathBuf),
    /// A sandbox, or none.
    Sandbox(Option<Sandbox>),
    /// Which tools clients get.
    Tools(ToolFilter),
    /// How to sign in.
    SignIn(SignIn),
}

/// What was written, or what should have been.
type Meaning<T> = Result<T, String>;

impl Setting<'_> {
    pub(super) fn duration(&self) -> Meaning<Duration> {
        units::duration(self.text().ok_or("write it in quotes with a unit, such as \"30s\"")?)
    }

    pub(super) fn limit(&self) -> Meaning<Option<Duration>> {
        let text = self.text().ok_or("write it in quotes with a unit, such as \"30s\", or \"none\"")?;
        units::limit(text).map(|limit| limit.0)
    }

    /// What a time of zero turns off, too.
    pub(super) fn limit_or_off(&self) -> Meaning<Option<Duration>> {
        let text = self.text().ok_or("write it in quotes with a unit, such as \"10s\", or \"none\"")?;
        units::limit_or_off(text).map(|limit| limit.0)
    }

    pub(super) fn size(&self) -> Meaning<usize> {
        units::size(self.text().ok_or("write it in quotes with a unit, such as \"64MiB\"")?)
    }

    /// This many in this many seconds.
    pub(super) fn pace(&self) -> Meaning<(u32, Duration)> {
        units::budget(self.text().ok_or("write how many in how many seconds in quotes, such as \"5/180\"")?)
    }

    pub(super) fn pace_or_none(&self) -> Meaning<Option<(u32, Duration)>> {
        match self.text() {
            Some("none") => Ok(None),
            _ => match self.pace() {
                Ok((0, _)) | Err(_) => {
                    Err("write how many calls in how many seconds, such as \"100/1\", or \"none\"".into())
                }
                Ok(pace) => Ok(Some(pace)),
            },
        }
    }

    pub(super) fn number(&self) -> Meaning<u32> {
        let number = match self {
            Setting::Value(Value::NumberLit(number)) => number.value.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| "write a whole number above 0, without quotes".into())
    }

    pub(super) fn number_or_none(&self) -> Meaning<Option<u32>> {
        match self.text() {
            Some("none") => Ok(None),
            _ => self.number().map(Some).map_err(|_| "write a whole number above 0, or \"none\"".into()),
        }
    }

    pub(super) fn flag(&self) -> Meaning<bool> {
        match self {
            Setting::Value(Value::BooleanLit(flag)) => Ok(flag.value),
            _ => Err("write true or false".into()),
        }
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Meaning<T> {
        let found = words.iter().find(|(word, _)| Some(*word) == self.text()).map(|(_, meaning)| *meaning);
        let all = || words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("write one of {}", all()))
    }

    pub(super) fn list(&self) -> Meaning<Vec<String>> {
        let text = |value: &Value<'_>| value.as_string_lit().map(|text| text.value.to_string());
        let list = match self {
            Setting::Value(Value::Array(list)) => list.elements.iter().map(text).collect(),
            _ => None,
        };
        list.ok_or_else(|| "write a list of strings, such as [\"get_*\"]".into())
    }

    pub(super) fn path(&self) -> Meaning<Option<PathBuf>> {
        match self {
            Setting::Path(path) => Ok(Some(path.clone())),
            _ => Err("write a path in quotes".into()),
        }
    }

    pub(super) fn sandbox(&self) -> Meaning<Option<Sandbox>> {
        match self {
            Setting::Sandbox(sandbox) => Ok(sandbox.clone()),
            _ => Err("write an object, or \"none\"".into()),
        }
    }

    pub(super) fn tools(&self) -> Meaning<ToolFilter> {
        match self {
            Setting::Tools(tools) => Ok(tools.clone()),
            _ => Err("write an object".into()),
        }
    }

    pub(super) fn sign_in(&self) -> Meaning<SignIn> {
        match self {
            Setting::SignIn(sign_in) => Ok(sign_in.clone()),
            _ => Err("write an object".into()),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Setting::Value(Value::StringLit(text)) => Some(&text.value),
            _ => None,
        }
    }
}
