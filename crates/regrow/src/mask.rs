//! Secrets that we know, taken out of every text that leaves us.

use std::sync::Arc;

/// The values that must not be seen.
#[derive(Clone, Default)]
pub struct Mask(Arc<[String]>);

/// A shorter value would take ordinary words out of texts.
const SHORTEST: usize = 6;

impl Mask {
    /// Masks these values, those of at least six characters.
    pub fn new(values: impl IntoIterator<Item = String>) -> Mask {
        let mut values: Vec<String> = values.into_iter().filter(|value| value.len() >= SHORTEST).collect();
        // A secret that contains another goes first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Mask(values.into())
    }

    /// The values of those variables whose names sound like secrets.
    pub fn secrets_of(variables: impl IntoIterator<Item = (String, String)>) -> impl Iterator<Item = String> {
        variables.into_iter().filter(|(name, _)| sounds_secret(name)).map(|(_, value)| value)
    }

    /// The text without the secrets.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.0.iter() {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), "***");
            }
        }
        text
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} values)", self.0.len())
    }
}

fn sounds_secret(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE", "DATABASE_URL"];
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_the_environment_is_in_no_text() {
        let mask = Mask::new(Mask::secrets_of([
            ("GITHUB_TOKEN".into(), "ghp_123456".into()),
            ("HOME".into(), "/home/ann".into()),
            ("API_KEY".into(), "ghp_123456789".into()),
        ]));
        assert_eq!(mask.apply("bad ghp_123456789, ghp_123456 in /home/ann"), "bad ***, *** in /home/ann");
        assert!(!format!("{mask:?}").contains("ghp"));
    }
}
