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
    running: Option<Running>,
}

/// How many renewals have ended.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct RenewalCount {
    all: u64,
    /// Of those that a client waited for: only these may have asked a person.
    awaited: u64,
}

#[derive(Clone)]
struct Running {
    is_awaited: bool,
    ended: watch::Receiver<bool>,
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
        let is_awaited = rejected.is_awaited;
        loop {
            if self.credential.headers() != refused.headers {
                return true; // Somebody was faster, or it changed on its own.
            }
            let mut running = {
                let mut renewal = lock(&self.renewal);
                let has_ended = match is_awaited {
                    true => renewal.ended.awaited != refused.ended.awaited,
                    false => renewal.ended.all != refused.ended.all,
                };
                if has_ended {
                    return false; // A renewal since then has brought nothing else.
                }
                let started = || self.start(rejected.clone());
                renewal.running.get_or_insert_with(started).clone()
            };
            // It ends by saying true, or without a word if it panicked.
            let has_ended = running.ended.wait_for(|ended| *ended).await.is_ok();
            if running.is_awaited || !is_awaited {
                return has_ended && self.credential.headers() != refused.headers;
            }
        }
    }

    /// In a task of its own: the one that began it may leave, and the others wait for it.
    fn start(&self, rejected: Rejected) -> Running {
        let (tell, ended) = watch::channel(false);
        let (credential, is_awaited) = (self.credential.clone(), rejected.is_awaited);
        let guard = RenewalGuard { renewal: self.renewal.clone(), is_awaited, tell };
        tokio::spawn(async move {
            let _guard = guard;
            credential.refresh(rejected).await
        });
        Running { is_awaited, ended }
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
        renewal.running = None;
        self.tell.send_replace(true);
    }
}

fn lock(renewal: &Mutex<Renewal>) -> MutexGuard<'_, Renewal> {
    renewal.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has another token only for a client.
    #[derive(Default)]
    struct ForClients {
        asked: Mutex<Vec<bool>>,
    }

    impl Credential for ForClients {
        fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
            let asked = self.asked.lock().unwrap().iter().filter(|is_awaited| **is_awaited).count();
            vec![(http::header::AUTHORIZATION, HeaderValue::from(asked))]
        }

        fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
            self.asked.lock().unwrap().push(rejected.is_awaited);
            Box::pin(std::future::ready(rejected.is_awaited))
        }
    }

    #[tokio::test]
    async fn a_client_that_waits_has_a_renewal_of_its_own_after_one_for_a_probe() {
        let credential = Arc::new(ForClients::default());
        let access = Access::new(credential.clone());
        let shown = access.show();
        let rejected = |is_awaited| {
            let mut rejected = Rejected::new(vec![], 401, vec![]);
            rejected.is_awaited = is_awaited;
            rejected
        };
        // The probe's begins first, and brings nothing.
        let (probe, client) =
            tokio::join!(access.renew(&shown, rejected(false)), access.renew(&shown, rejected(true)));
        assert!(client, "{probe}");
        assert_eq!(*credential.asked.lock().unwrap(), [false, true]);
    }
}
