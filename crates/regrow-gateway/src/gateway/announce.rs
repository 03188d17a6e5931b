//! Tells clients of changed lists: once, when several servers change at the same time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::client::ClientRegistry;
use crate::context::Context;

/// Changes within such a time are told together.
const TOGETHER: Duration = Duration::from_millis(50);

/// Runs until the gateway and its clients are gone.
pub(super) async fn announce(context: Arc<Context>, clients: Weak<ClientRegistry>) {
    while clients.strong_count() > 0 {
        context.changed.notified().await;
        tokio::time::sleep(TOGETHER).await;
        if let Some(clients) = clients.upgrade() {
            clients.all().iter().for_each(|client| client.look_at_lists());
        }
    }
}
