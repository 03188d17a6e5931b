//! Tells when watched files change, once per burst of changes.

use std::path::PathBuf;
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
            // Nothing will ever change; the sender must live for `next` to wait.
            std::mem::forget(changed);
            return Ok(Watch { _watcher: None, changes });
        }
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is no change. An error may hide one.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                let _ = changed.try_send(()); // One waiting message is enough.
            }
        })?;
        for path in paths {
            watcher.watch(path, RecursiveMode::Recursive).map_err(|error| error.add_path(path.clone()))?;
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
