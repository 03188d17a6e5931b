//! What the lanes are, and how the program under torture is started in each.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::CALL_TIMEOUT;
use crate::torture::clean;
use crate::torture::face::Face;
use crate::torture::far::Far;
use crate::torture::history::History;
use crate::torture::plan::Place;
use crate::torture::system::MARK;
use crate::torture::wrap::Wrap;

/// What a lane is.
#[derive(Clone, Copy)]
pub(in crate::torture) struct Setup {
    pub(super) place: Place,
    pub(super) modern_client: bool,
    /// The plan that a remote server has all its life.
    server_plan: &'static str,
    /// More options of the program under torture.
    options: &'static [&'static str],
}

/// The lanes, from the first; they differ in place, era and options.
pub(in crate::torture) const LANES: [Setup; 6] = [
    Setup { place: Place::Process, modern_client: false, server_plan: "", options: &[] },
    Setup { place: Place::Sessions, modern_client: false, server_plan: "refuse-discover", options: &[] },
    Setup {
        place: Place::Process,
        modern_client: true,
        server_plan: "",
        options: &["--stderr", "keep", "--budget", "1000000/1"],
    },
    Setup { place: Place::Stateless, modern_client: true, server_plan: "modern-only", options: &[] },
    Setup { place: Place::Process, modern_client: false, server_plan: "", options: &["--stderr", "keep"] },
    Setup { place: Place::Stateless, modern_client: false, server_plan: "modern-only", options: &[] },
];

/// Where a program is started.
pub(super) struct Surroundings<'a> {
    pub(super) number: usize,
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) mark: &'a str,
}

impl Setup {
    pub(super) fn far(&self, folder: &Path, mark: &str, program: &Path) -> io::Result<Far> {
        match self.place {
            Place::Process => Far::process(folder, mark),
            Place::Sessions | Place::Stateless => Far::remote(folder, mark, program, self.server_plan),
        }
    }

    /// `regrow wrap` in front of a command, or of a URL.
    pub(super) fn wrap(
        &self,
        around: &Surroundings<'_>,
        url: Option<&str>,
        history: &Arc<History>,
    ) -> io::Result<Arc<dyn Face>> {
        let deadline = format!("{}s", CALL_TIMEOUT.as_secs());
        let mut command = clean(around.program);
        command.args(["wrap", "--name", &format!("lane-{}", around.number), "--call-timeout", &deadline]);
        command.args(["--connect-timeout", "10s", "--safe-tool", "lookup"]).args(self.options);
        match url {
            Some(url) => command.args(["--reach-timeout", "2s", "--no-cache", url]),
            None => command.arg("--").arg(around.program).arg("chaos-server"),
        };
        command.env(MARK, around.mark).env("CHAOS_DIR", around.folder).env("NO_PROXY", "*");
        // The guard and the server; a remote server is nobody's child, and needs no guard.
        let children = if url.is_none() { 2 } else { 0 };
        let log_is_whole = url.is_some() || self.options.contains(&"keep");
        Ok(Arc::new(Wrap::start(&mut command, children, log_is_whole, history)?))
    }
}
