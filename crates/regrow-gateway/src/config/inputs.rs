//! What VS Code asks a person for (`inputs`): here it comes from the environment, since a service has nobody to ask.

use std::collections::BTreeMap;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::members::{self, Member};
use super::message::printable;
use super::reading::Reading;
use super::surroundings::Surroundings;

/// The inputs that a file declares.
#[derive(Default)]
pub(super) struct Inputs(BTreeMap<String, Input>);

struct Input {
    is_password: bool,
    default: Option<String>,
}

impl Inputs {
    pub(super) fn read(reading: &mut Reading<'_>, member: Option<Member<'_>>) -> Inputs {
        let mut inputs = Inputs::default();
        let Some(member) = member else { return inputs };
        let Value::Array(list) = member.value else {
            reading.problem(member.value.range(), "inputs", "it must be a list; write [ ] around the inputs");
            return inputs;
        };
        for value in &list.elements {
            let object = value.as_object();
            let [id, password, default] = match object {
                Some(object) => members::known(reading, object, ["id", "password", "default"]),
                None => [None; 3],
            };
            let Some(id) = id.and_then(|id| id.value.as_string_lit()) else {
                reading.problem(value.range(), "inputs", "an input needs an \"id\"; give it one");
                continue;
            };
            let is_password = password.is_some_and(|it| it.value.as_boolean_lit().is_some_and(|it| it.value));
            let default = default.and_then(|it| it.value.as_string_lit()).map(|it| it.value.to_string());
            inputs.0.insert(id.value.to_string(), Input { is_password, default });
        }
        inputs
    }

    /// What the environment holds for this input, or its default.
    pub(super) fn resolve(&self, id: &str, surroundings: &Surroundings) -> Result<String, String> {
        let shown = printable(id);
        let Some(input) = self.0.get(id) else {
            return Err(format!(
                "${{input:{shown}}} is not declared; add it to \"inputs\", or use ${{env:VAR}} instead"
            ));
        };
        let variable = variable_of(id);
        match surroundings.variable(&variable) {
            Some(value) => Ok(value.to_owned()),
            // A default password would be a secret that everybody knows.
            None => input.default.clone().filter(|_| !input.is_password).ok_or_else(|| {
                format!("Regrow cannot ask for ${{input:{shown}}}; set the variable {variable} to its value")
            }),
        }
    }
}

/// The variable that an input comes from: `github-token` from `REGROW_INPUT_GITHUB_TOKEN`.
fn variable_of(id: &str) -> String {
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    format!("REGROW_INPUT_{}", id.chars().take(100).map(letter).collect::<String>())
}
