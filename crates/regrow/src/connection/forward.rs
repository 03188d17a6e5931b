//! Notifications of a client on their way to the server: now, or when there is a session, in their place among its requests.

use regrow_core::Bearing;
use regrow_protocol::frame::Frame;

use super::era::Greeting;
use super::shared::Shared;
use super::state::ConnectionState;

/// Hands on a notification of a client. Returns whether it reached the server, or will.
pub(crate) fn forward(shared: &Shared, notification: &Frame) -> bool {
    shared.count_dropped_members(notification);
    let line = notification.to_line();
    let mut state = shared.lock();
    let taken = match Bearing::of(notification.method().unwrap_or_default()) {
        Bearing::Handshake => {
            forward_initialized(&mut state, notification);
            true
        }
        Bearing::ThisSession => shared.post_on(&mut state, None, line),
        Bearing::AnySession if state.takes_notes().is_some() => shared.post_on(&mut state, None, line),
        Bearing::AnySession => {
            let arrival = state.supervisor.ledger.last_arrival();
            let kept = state.notes.hold(&shared.settings.policy, arrival, line.len(), line);
            state.anomalies.undelivered += u64::from(!kept);
            kept
        }
    };
    let first = !taken && state.anomalies.undelivered == 1;
    drop(state);
    if first {
        let server = &*shared.settings.name;
        let method = notification.method().unwrap_or_default().escape_debug();
        tracing::warn!(
            server,
            "dropped {method} of the client: no session to send it to (further ones are only counted)"
        );
    }
    taken
}

/// The client says that its handshake is complete. Towards a session that we greet, we do so ourselves.
fn forward_initialized(state: &mut ConnectionState, notification: &Frame) {
    let by_client = match &state.session {
        Some(session) => session.greeted_by_client,
        None => matches!(state.memory.era.greeting, Greeting::ByClient),
    };
    if by_client {
        let arrival = state.supervisor.ledger.last_arrival();
        state.notes.initialized(arrival, notification.to_line());
        if let Some(epoch) = state.takes_notes() {
            state.write_notes(epoch, None);
        }
    }
}
