//! Which thread serves a connection. It stays there, so no thread is woken for the work of another.

use std::sync::Arc;

use tokio::runtime::Handle;

/// The threads that serve connections, each with a runtime of its own.
pub(super) struct Threads {
    /// Each connection of the thread that accepts them holds a clone.
    own: Arc<()>,
    others: Vec<(Handle, Arc<()>)>,
}

impl Threads {
    pub(super) fn new(others: Vec<Handle>) -> Threads {
        Threads {
            own: Arc::default(),
            others: others.into_iter().map(|other| (other, Arc::default())).collect(),
        }
    }

    /// The thread with the fewest connections, if it is another one than this; and what counts as a connection until it is dropped.
    pub(super) fn next(&self) -> (Option<&Handle>, Arc<()>) {
        let own = (None, &self.own);
        let others = self.others.iter().map(|(runtime, connections)| (Some(runtime), connections));
        let (runtime, connections) = others.fold(own, |least, next| {
            if Arc::strong_count(next.1) < Arc::strong_count(least.1) { next } else { least }
        });
        (runtime, connections.clone())
    }
}
