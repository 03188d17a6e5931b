//! What VS Code asks a person for (`inputs`): here it comes from the environment, since a service has nobody to ask.

use std::collections::BTreeMap;

use super::message::printable;
use super::surroundings::Surroundings;

/// How the message begins about an input that nobody can be asked for here.
pub(super) const CANNOT_ASK: &str = "Regrow cannot ask for";

/// The inputs that a file declares.
#[derive(Default)]
pub(super) struct Inputs(BTreeMap<String, Input>);

struct Input {
    is_password: bool,
    default: Option<String>,
}

impl Inputs {
    pub(super) fn declare(&mut self, id: String, is_password: bool, default: Option<String>) {
        self.0.insert(id, Input { is_password, default });
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
                format!("{CANNOT_ASK} ${{input:{shown}}}; set the variable {variable} to its value")
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
