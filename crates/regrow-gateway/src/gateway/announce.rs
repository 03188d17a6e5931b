//! Tells clients of changed lists: once, when several servers change at the same time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::client::ClientRegistry;
use crate::context::Context;

/// Changes within such a time are told together.
const SHORTEST: Duration = Duration::from_millis(50);
/// While changes keep coming, this time doubles up to here: each telling costs as much as all lists are long, and more for clients that read them again.
const LONGEST: Duration = Duration::from_secs(1);

/// Runs until the gateway and its clients are gone.
pub(super) async fn announce(context: Arc<Context>, clients: Weak<ClientRegistry>) {
    let mut together = SHORTEST;
    while clients.strong_count() > 0 {
        together = match timeout(together, context.changed.notified()).await {
            Ok(()) => (together * 2).min(LONGEST),
            Err(_) => {
                context.changed.notified().await;
                SHORTEST
            }
        };
        sleep(together).await;
        if let Some(clients) = clients.upgrade() {
            clients.all().iter().for_each(|client| client.look_at_lists());
        }
    }
}
