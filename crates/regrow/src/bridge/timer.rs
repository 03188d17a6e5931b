//! Something that happens later, unless it is dropped before.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::Bridge;

/// Dropping it makes that nothing happens.
pub(super) struct Timer(JoinHandle<()>);

impl Timer {
    /// After so long, does this to the bridge if that is still there.
    pub(super) fn after(
        bridge: &Weak<Bridge>,
        length: Duration,
        then: impl FnOnce(&Arc<Bridge>) + Send + 'static,
    ) -> Timer {
        let bridge = bridge.clone();
        Timer(tokio::spawn(async move {
            tokio::time::sleep(length).await;
            if let Some(bridge) = bridge.upgrade() {
                then(&bridge);
            }
        }))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
