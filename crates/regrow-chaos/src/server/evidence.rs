//! Writes the journal, and knows from it how often each tool has run over all lives.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process;
use std::sync::Mutex;

use crate::sync::lock;

/// The writing end of the journal. Without a folder it writes nowhere and counts in memory.
pub(super) struct Evidence {
    file: Option<File>,
    totals: Mutex<Totals>,
}

#[derive(Default)]
struct Totals {
    read_to: u64,
    runs: HashMap<String, u64>,
}

impl Evidence {
    pub(super) fn open(dir: Option<&Path>) -> io::Result<Self> {
        let file = match dir {
            Some(dir) => {
                fs::create_dir_all(dir)?;
                Some(OpenOptions::new().create(true).append(true).read(true).open(dir.join("journal"))?)
            }
            None => None,
        };
        Ok(Self { file, totals: Mutex::default() })
    }

    /// Writes the start line and says which life this is. Locked, so that two starts never share a number.
    pub(super) fn begin_life(&self) -> io::Result<u32> {
        let Some(mut file) = self.file.as_ref() else { return Ok(1) };
        file.lock()?;
        let mut text = vec![];
        file.read_to_end(&mut text)?;
        let earlier =
            String::from_utf8_lossy(&text).lines().filter(|line| line.starts_with("start ")).count();
        let life = u32::try_from(earlier).unwrap_or(u32::MAX).saturating_add(1);
        self.note(&format!("start {} {life}", process::id()));
        file.unlock()?;
        Ok(life)
    }

    /// Appends one line, with one write.
    pub(super) fn note(&self, line: &str) {
        let Some(mut file) = self.file.as_ref() else { return };
        let written = file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
        if let Err(error) = written {
            // Without evidence a test would count wrong, so it must not go on.
            eprintln!("regrow-chaos: cannot write the journal: {error}");
            process::exit(74);
        }
    }

    /// Records that a tool is about to have its effect; returns how often it now has, with this key.
    pub(super) fn run(&self, tool: &str, key: &str) -> u64 {
        let key = key.replace(char::is_whitespace, "_");
        let mut totals = lock(&self.totals);
        self.note(&format!("run {tool} {key} {}", process::id()));
        match &self.file {
            Some(file) => totals.catch_up(file),
            None => totals.add(tool, &key),
        }
        totals.runs.get(&format!("{tool} {key}")).copied().unwrap_or_default()
    }

    /// The open journal, so that `fds` can leave it out.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

impl Totals {
    fn add(&mut self, tool: &str, key: &str) {
        *self.runs.entry(format!("{tool} {key}")).or_default() += 1;
    }

    /// Reads what was appended since the last time, whole lines only.
    fn catch_up(&mut self, file: &File) {
        let mut fresh = vec![];
        let mut chunk = [0; 16 * 1024];
        while let Ok(count @ 1..) = file.read_at(&mut chunk, self.read_to + fresh.len() as u64) {
            fresh.extend_from_slice(&chunk[..count]);
        }
        let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.read_to += whole as u64;
        for line in String::from_utf8_lossy(&fresh[..whole]).lines() {
            let mut words = line.split(' ');
            if let (Some("run"), Some(tool), Some(key)) = (words.next(), words.next(), words.next()) {
                self.add(tool, key);
            }
        }
    }
}
