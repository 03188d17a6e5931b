//! Tells when watched files change, once per burst of changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Editors and compilers write in bursts; a burst is over when nothing changed for this long.
const QUIET: Duration = Duration::from_millis(300);

pub(crate) struct Watch {
    _watcher: Option<RecommendedWatcher>,
    changes: mpsc::Receiver<()>,
}

impl Watch {
    pub(crate) fn new(paths: &[PathBuf]) -> notify::Result<Watch> {
        let (changed, changes) = mpsc::channel(1);
        if paths.is_empty() {
            return Ok(Watch { _watcher: None, changes }); // Nothing will ever change.
        }
        // Events come with absolute paths.
        let paths = paths.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
        let wanted = paths.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| concerns(&event, &wanted)) {
                let _ = changed.try_send(()); // One waiting message is enough.
            }
        })?;
        for path in &paths {
            watcher.watch(path, RecursiveMode::Recursive).map_err(|error| error.add_path(path.clone()))?;
            if let Some(folder) = folder_of(path) {
                // A file that is replaced is another file: only its folder tells of that.
                watcher.watch(folder, RecursiveMode::NonRecursive)?;
            }
        }
        Ok(Watch { _watcher: Some(watcher), changes })
    }

    /// Resolves when something changed and has been quiet since.
    pub(crate) async fn next(&mut self) {
        if self.changes.recv().await.is_none() {
            return std::future::pending().await;
        }
        while tokio::time::timeout(QUIET, self.changes.recv()).await.is_ok_and(|change| change.is_some()) {}
    }
}

/// Whether one of the watched paths has changed. Reading is no change.
fn concerns(event: &notify::Event, wanted: &[PathBuf]) -> bool {
    let is_change = !matches!(event.kind, EventKind::Access(_));
    // An event without a path may hide any.
    let is_wanted = |path: &PathBuf| wanted.iter().any(|wanted| path.starts_with(wanted));
    is_change && (event.paths.is_empty() || event.paths.iter().any(is_wanted))
}

/// The folder of a file; none for a folder, which is watched as a whole.
fn folder_of(path: &Path) -> Option<&Path> {
    if path.is_dir() { None } else { path.parent() }
}
