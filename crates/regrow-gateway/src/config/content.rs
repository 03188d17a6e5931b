//! What a configuration was read from, as one hash that tells whether it is still the same.

use ring::digest::{Context, SHA256};

pub(super) struct Content(Context);

impl Default for Content {
    fn default() -> Content {
        Content(Context::new(&SHA256))
    }
}

impl Content {
    /// The next file. Its length is hashed as well, so that no two sequences of files look alike.
    pub(super) fn add(&mut self, file: &[u8]) {
        self.0.update(&(file.len() as u64).to_be_bytes());
        self.0.update(file);
    }

    pub(super) fn hash(self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.0.finish().as_ref());
        hash
    }
}
