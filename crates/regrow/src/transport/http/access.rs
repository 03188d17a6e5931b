//! The credential as the exchanges of a server share it: however many are refused at once, it is renewed once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderName, HeaderValue};
use regrow_core::Fault;
use tokio::sync::watch;

use super::credential::{Credential, Headers, Rejected};
use crate::mask::Mask;
use crate::transport::BoxFuture;

/// One server's credential, and the renewal that is under way.
pub(super) struct Access {
    credential: Arc<dyn Credential>,
    renewal: Arc<Mutex<Renewal>>,
}

#[derive(Default)]
struct Renewal {
    ended: RenewalCount,
    /// The renewal that runs for requests that a client waits for. It may ask a person.
    awaited: Option<watch::Receiver<bool>>,
    /// The one that runs for other requests. It may not, so no client waits for it.
    unawaited: Option<watch::Receiver<bool>>,
}

impl Renewal {
    /// Where the renewal runs that a request takes part in.
    fn slot(&mut self, is_awaited: bool) -> &mut Option<watch::Receiver<bool>> {
        if is_awaited { &mut self.awaited } else { &mut self.unawaited }
    }
}

/// How many renewals have ended.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct RenewalCount {
    all: u64,
    /// Of those that a client waited for: only these may have asked a person.
    awaited: u64,
}

/// What one request shows to the server.
pub(super) struct Shown {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    ended: RenewalCount,
}

impl Access {
    /// Nothing to show.
    pub(super) fn none() -> Access {
        Access::new(Arc::new(Headers::new([]).expect("no header is no bad header")))
    }

    pub(super) fn new(credential: Arc<dyn Credential>) -> Access {
        Access { credential, renewal: Arc::default() }
    }

    /// What to send with a request.
    pub(super) fn show(&self) -> Shown {
        // The count first: what is shown is then at least as new as the count says.
        let ended = lock(&self.renewal).ended;
        Shown { headers: self.credential.headers(), ended }
    }

    /// The server refused this. Resolves when there is something else to show, or with false if there is not.
    pub(super) async fn renew(&self, refused: &Shown, rejected: Rejected) -> bool {
        if self.credential.headers() != refused.headers {
            return true; // Somebody was faster, or it changed on its own.
        }
        let mut running = {
            let mut renewal = lock(&self.renewal);
            let has_ended = match rejected.is_awaited {
                true => renewal.ended.awaited != refused.ended.awaited,
                false => renewal.ended.all != refused.ended.all,
            };
            if has_ended {
                return false; // A renewal since then has brought nothing else.
            }
            let joins_awaited = rejected.is_awaited || renewal.awaited.is_some();
            renewal.slot(joins_awaited).get_or_insert_with(|| self.start(rejected)).clone()
        };
        // It ends by saying true, or without a word if it panicked.
        running.wait_for(|ended| *ended).await.is_ok() && self.credential.headers() != refused.headers
    }

    /// In a task of its own: the one that began it may leave, and the others wait for it.
    fn start(&self, rejected: Rejected) -> watch::Receiver<bool> {
        let (tell, ended) = watch::channel(false);
        let (credential, is_awaited) = (self.credential.clone(), rejected.is_awaited);
        let guard = RenewalGuard { renewal: self.renewal.clone(), is_awaited, tell };
        tokio::spawn(async move {
            let _guard = guard;
            credential.refresh(rejected).await
        });
        ended
    }

    /// What to report when it stays refused.
    pub(super) fn fault(&self, code: u16) -> Fault {
        self.credential.fault(code)
    }

    pub(super) fn changed(&self) -> BoxFuture<()> {
        self.credential.changed()
    }

    pub(super) fn mask_later(&self, mask: Mask) {
        self.credential.mask_later(mask);
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.credential.secrets()
    }
}

/// Marks the end of a renewal, whichever way it ended.
struct RenewalGuard {
    renewal: Arc<Mutex<Renewal>>,
    is_awaited: bool,
    tell: watch::Sender<bool>,
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        let mut renewal = lock(&self.renewal);
        renewal.ended.all += 1;
        renewal.ended.awaited += u64::from(self.is_awaited);
        *renewal.slot(self.is_awaited) = None;
        self.tell.send_replace(true);
    }
}

fn lock(renewal: &Mutex<Renewal>) -> MutexGuard<'_, Renewal> {
    renewal.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has another token only for a client, and until then no answer for anybody.
    struct ForClients {
        asked: Mutex<Vec<bool>>,
        has_other: watch::Sender<bool>,
    }

    impl Default for ForClients {
        fn default() -> ForClients {
            ForClients { asked: Mutex::default(), has_other: watch::Sender::new(false) }
        }
    }

    impl Credential for ForClients {
        fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
            let token = if *self.has_other.borrow() { "other" } else { "old" };
            vec![(http::header::AUTHORIZATION, HeaderValue::from_static(token))]
        }

        fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
            self.asked.lock().unwrap().push(rejected.is_awaited);
            let (mut other, sender) = (self.has_other.subscribe(), self.has_other.clone());
            Box::pin(async move {
                if rejected.is_awaited {
                    sender.send_replace(true);
                }
                other.wait_for(|has_other| *has_other).await.is_ok()
            })
        }
    }

    fn rejected(is_awaited: bool) -> Rejected {
        let mut rejected = Rejected::new(vec![], 401, vec![]);
        rejected.is_awaited = is_awaited;
        rejected
    }

    #[tokio::test]
    async fn a_client_that_waits_has_a_renewal_of_its_own_beside_one_for_a_probe() {
        let credential = Arc::new(ForClients::default());
        let access = Access::new(credential.clone());
        let shown = access.show();
        // The probe's begins first, and does not end before the client's.
        let (probe, client) =
            tokio::join!(access.renew(&shown, rejected(false)), access.renew(&shown, rejected(true)));
        assert!(probe && client);
        assert_eq!(*credential.asked.lock().unwrap(), [false, true]);
    }

    #[tokio::test]
    async fn a_probe_takes_part_in_a_renewal_for_a_client() {
        let credential = Arc::new(ForClients::default());
        let access = Access::new(credential.clone());
        let shown = access.show();
        let (client, probe) =
            tokio::join!(access.renew(&shown, rejected(true)), access.renew(&shown, rejected(false)));
        assert!(probe && client);
        assert_eq!(*credential.asked.lock().unwrap(), [true]);
    }
}
