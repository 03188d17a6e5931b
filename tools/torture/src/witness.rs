//! Follows a server's journal as it grows: which lives began, and which calls ran how often.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Reads only what is new, since a journal gets long.
pub(crate) struct Witness {
    journal: PathBuf,
    read_to: u64,
    /// The process of each life, in order.
    pub(crate) lives: Vec<u32>,
    /// How often each call ran.
    pub(crate) runs: HashMap<usize, u32>,
    /// Where HTTP is served, one entry for each life.
    pub(crate) ports: usize,
}

impl Witness {
    pub(crate) fn new(folder: &Path) -> Witness {
        let journal = folder.join("journal");
        Witness { journal, read_to: 0, lives: vec![], runs: HashMap::new(), ports: 0 }
    }

    /// Takes in what was written since the last look.
    pub(crate) fn look(&mut self) {
        let mut fresh = vec![];
        let read = File::open(&self.journal).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read_to))?;
            file.read_to_end(&mut fresh)
        });
        if read.is_err() {
            return; // No server has begun yet, or the next look will tell.
        }
        let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.read_to += whole as u64;
        for line in String::from_utf8_lossy(&fresh[..whole]).lines() {
            self.take(line);
        }
    }

    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("start"), Some(pid), _) => self.lives.extend(pid.parse::<u32>()),
            (Some("port"), _, _) => self.ports += 1,
            (Some("run"), _, Some(key)) => {
                if let Some(key) = key.strip_prefix('k').and_then(|key| key.parse().ok()) {
                    *self.runs.entry(key).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn takes_in_whole_lines_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        let mut witness = Witness::new(folder.path());
        witness.look();
        fs::write(&journal, "start 7 1\nrun count k3 7\nrun cou").unwrap();
        witness.look();
        fs::write(&journal, "start 7 1\nrun count k3 7\nrun count k3 7\nstart 9 2\nport 80\n").unwrap();
        witness.look();
        assert_eq!((&witness.lives[..], witness.runs[&3], witness.ports), (&[7, 9][..], 2, 1));
    }
}
