//! The name of a call, which travels with it to the server and back.

use std::fmt;
use std::str::FromStr;

/// Whose call it is, which one, and whether it may run more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub client: char,
    pub number: u32,
    pub safe: bool,
}

impl Key {
    /// The tool that it calls.
    pub fn tool(self) -> &'static str {
        if self.safe { "safe" } else { "pay" }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.client, self.number, self.tool())
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Key, ()> {
        let mut parts = text.split(':');
        let client = parts.next().and_then(|client| client.parse().ok()).ok_or(())?;
        let number = parts.next().and_then(|number| number.parse().ok()).ok_or(())?;
        Ok(Key { client, number, safe: parts.next() == Some("safe") })
    }
}
