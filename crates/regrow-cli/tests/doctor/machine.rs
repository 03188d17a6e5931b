//! A machine of its own for each test: home, programs, variables.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::evidence::Marked;

pub const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

/// Held while a program is written or started: a process that is forked meanwhile has the program open for writing until its exec, and
/// nobody can run it.
static PROGRAMS: Mutex<()> = Mutex::new(());

pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Machine {
    folder: TempDir,
    marked: Marked,
    pub variables: BTreeMap<String, String>,
    /// Where `regrow doctor` is started.
    pub directory: String,
    claude: BTreeMap<String, Value>,
}

impl Machine {
    /// Claude Code with one server behind Regrow. A gateway was killed here once, and left its file.
    pub fn healthy() -> Machine {
        let folder = TempDir::new().unwrap();
        let mut machine = Machine {
            folder,
            marked: Marked::new(),
            variables: BTreeMap::new(),
            directory: "home".into(),
            claude: BTreeMap::new(),
        };
        for name in ["home", "bin", "run/regrow", "cache", "state"] {
            fs::create_dir_all(machine.path(name)).unwrap();
        }
        for name in ["run", "run/regrow"] {
            machine.chmod(name, 0o700);
        }
        machine.private("run/regrow/00000000000000000001-1.json", "{}");
        symlink(REGROW, machine.path("bin/regrow")).unwrap();
        machine.script("good", &format!("CHAOS= CHAOS_LIFE=120s exec '{REGROW}' chaos-server"));
        // It has no PATH of the shell.
        machine.script("systemctl", "echo LANG=C; echo PATH=/nowhere:/bin");
        for (name, value) in [
            ("HOME", machine.path("home")),
            ("PATH", machine.path("bin")),
            ("XDG_RUNTIME_DIR", machine.path("run")),
            ("XDG_CACHE_HOME", machine.path("cache")),
            ("XDG_STATE_HOME", machine.path("state")),
            ("REGROW_PORT", "0".into()),
        ] {
            machine.set(name, &value);
        }
        machine.claude("good", json!({ "command": "regrow", "args": ["wrap", "--", "good"] }));
        machine
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// A program of this name.
    pub fn script(&self, name: &str, text: &str) {
        let path = if name.contains('/') { name.to_owned() } else { format!("bin/{name}") };
        let _alone = one_at_a_time();
        let mark = format!("export {}={}", Marked::VARIABLE, self.marked.value());
        self.write_at(&path, &format!("#!/bin/sh\n{mark}\n{text}\n"));
        self.chmod(&path, 0o755);
    }

    /// A file in the home folder; or elsewhere, if its path begins with a folder of the machine.
    pub fn write(&self, name: &str, text: &str) {
        let is_elsewhere = name.starts_with("project/");
        self.write_at(&if is_elsewhere { name.to_owned() } else { format!("home/{name}") }, text);
    }

    /// A file of Regrow's own.
    pub fn private(&self, name: &str, text: &str) {
        self.write_at(name, text);
        self.chmod(Path::new(name).parent().unwrap().to_str().unwrap(), 0o700);
        self.chmod(name, 0o600);
    }

    pub fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    fn write_at(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Another server of Claude Code.
    pub fn claude(&mut self, name: &str, entry: Value) {
        self.claude.insert(name.to_owned(), entry);
        let text = serde_json::to_string_pretty(&json!({ "mcpServers": self.claude })).unwrap();
        self.write(".claude.json", &text);
    }

    /// A text with the folders of this machine.
    pub fn filled(&self, text: &str) -> String {
        let folders = ["home", "bin", "cache", "state", "project"];
        let filled = folders
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(&format!("{{{name}}}"), &self.path(name)));
        filled.replace("{far}", self.variables.get("FAR").map_or("", String::as_str))
    }

    pub fn doctor(&self, options: &[&str]) -> Command {
        let mut command = Command::new(REGROW);
        command.arg("doctor").args(options).current_dir(self.path(&self.directory));
        command.env_clear().envs(&self.variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn start(&self, options: &[&str]) -> Child {
        let _alone = one_at_a_time();
        self.doctor(options).spawn().unwrap()
    }

    pub fn output(&self, options: &[&str]) -> Output {
        self.start(options).wait_with_output().unwrap()
    }

    /// Everything on the disk: a line for each file and folder, with its time of change.
    pub fn contents(&self) -> Vec<String> {
        let mut found = vec![];
        walk(self.folder.path(), &mut found);
        found.sort();
        found
    }

    pub fn alive(&self) -> Vec<u32> {
        self.marked.alive()
    }

    pub fn nothing_left(&self) {
        self.marked.assert_none_left(Duration::from_secs(5));
    }
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        let text = if data.is_file() { fs::read(&path).unwrap() } else { vec![] };
        let changed = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
        found.push(format!("{path:?} {:o} {changed:?} {text:?}", data.mode()));
        if data.is_dir() {
            walk(&path, found);
        }
    }
}
