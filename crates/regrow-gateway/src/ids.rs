//! Ids and tokens that nobody can guess.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// In bytes, from the system's random numbers.
const LENGTH: usize = 24;

/// A new one. Its characters are valid in headers and URLs.
pub fn unguessable() -> io::Result<String> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
