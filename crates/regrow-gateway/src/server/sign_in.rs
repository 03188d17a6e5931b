//! Tells the audit log when a server requires sign-in, and when a person has signed in to it.

use regrow::core::{Fault, Notice as What};
use regrow::{Connection, Notices};

use crate::audit::{Audit, Record};

/// Watches a connection until it is over. Does not hold it open.
pub(super) fn watch(audit: &Audit, server: &str, connection: &Connection) {
    if audit.is_on() {
        tokio::spawn(write_lines(audit.clone(), server.to_owned(), connection.notices()));
    }
}

async fn write_lines(audit: Audit, server: String, mut notices: Notices) {
    let mut is_needed = false;
    while let Some(notice) = notices.next().await {
        let outcome = match notice.what {
            What::Parked(Fault::SignInNeeded { .. }) if !is_needed => "needed",
            What::Ready(_) if is_needed => "signed-in",
            _ => continue,
        };
        is_needed = !is_needed;
        let _ = audit.write(&Record::sign_in(&server, outcome)); // No response waits for the line.
    }
}
