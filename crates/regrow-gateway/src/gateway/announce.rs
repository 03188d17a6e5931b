//! Tells clients of changed lists: once, when several servers change at the same time.

use std::sync::Weak;
use std::time::Duration;

use super::Inside;

/// Changes within such a time are told together.
const TOGETHER: Duration = Duration::from_millis(50);

/// Goes on until the gateway is gone.
pub(super) async fn announce(gateway: Weak<Inside>) {
    while let Some(workshop) = gateway.upgrade().map(|inside| inside.workshop.clone()) {
        workshop.changed.notified().await;
        tokio::time::sleep(TOGETHER).await;
        if let Some(inside) = gateway.upgrade() {
            inside.clients().iter().for_each(|client| client.look_at_lists());
        }
    }
}
