//! Ids that are handed out and shown again: of a client's session, and of a call that waits for its client's input. Random, so that
//! nobody shows one that was not handed out to them; with a version, so that a later format can be told apart.

/// The format: 24 random bytes in hex.
const VERSION: &str = "r1";
const LENGTH: usize = 24;

/// A new id that can stand in a header and in JSON. None if the system has no random numbers.
pub fn random_id() -> Option<String> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).ok()?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{VERSION}-{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_and_fits_a_header() {
        let (one, other) = (random_id().unwrap(), random_id().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), VERSION.len() + 1 + 2 * LENGTH);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{one}");
    }
}
