//! One client on our standard streams, all servers behind it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use regrow::core::Manner;
use regrow::{Inbox, Port, relay};
use regrow_gateway::Gateway;
use regrow_gateway::admit::{Admit, Principal, ServerScope};

use super::overseer::Overseer;
use super::style;
use crate::arguments::Serve;
use crate::{DONE, SERVER_FAILED, client};

/// How long the client may take to read our last words.
const LAST_WORDS: Duration = Duration::from_millis(300);

pub(super) async fn serve(options: &Serve, gateway: Gateway, mut overseer: Overseer) -> io::Result<u8> {
    client::say_what_is_awaited();
    let port = Port::new("regrow", client::output()?, style(options), options.max_line);
    client::watch_output(&port);
    let inbox: Arc<dyn Inbox> = port.clone();
    let guest = gateway.admit(&ServerScope::All, Principal::default(), inbox).map_err(io::Error::other)?;
    let manner = tokio::select! {
        biased;
        () = overseer.oversee(&gateway) => Manner::Told,
        relayed = relay(&*guest, &port, client::input()?) => {
            if let Err(error) = relayed {
                tracing::warn!("cannot read from the client: {error}");
            }
            Manner::ClientLeft
        }
    };
    tokio::select! {
        biased;
        () = gateway.shutdown(manner, |_, _| {}) => {}
        () = overseer.told_again() => gateway.shutdown(Manner::Told, |_, _| {}).await,
    }
    overseer.audit.close().await; // The last responses wait for their lines.
    port.finish(LAST_WORDS).await;
    Ok(if port.has_answered_all() { DONE } else { SERVER_FAILED })
}
