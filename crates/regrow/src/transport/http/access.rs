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
    /// How many have ended.
    done: u64,
    running: Option<watch::Receiver<bool>>,
}

/// What one request shows to the server.
pub(super) struct Shown {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    done: u64,
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
        let done = lock(&self.renewal).done;
        Shown { headers: self.credential.headers(), done }
    }

    /// The server refused this. Resolves when there is something else to show, or with false if there is not.
    pub(super) async fn renew(&self, refused: &Shown, code: u16, challenges: Vec<HeaderValue>) -> bool {
        if self.credential.headers() != refused.headers {
            return true; // Somebody was faster, or it changed on its own.
        }
        let mut ended = {
            let mut renewal = lock(&self.renewal);
            if renewal.done != refused.done {
                return false; // A renewal since then has brought nothing else.
            }
            match &renewal.running {
                Some(running) => running.clone(),
                None => {
                    let rejected = Rejected::new(refused.headers.clone(), code, challenges);
                    renewal.running.insert(self.start(rejected)).clone()
                }
            }
        };
        // It ends by saying true, or without a word if it panicked.
        let ended = ended.wait_for(|ended| *ended).await.is_ok();
        ended && self.credential.headers() != refused.headers
    }

    /// In a task of its own: the one that began it may leave, and the others wait for it.
    fn start(&self, rejected: Rejected) -> watch::Receiver<bool> {
        let (ended, running) = watch::channel(false);
        let credential = self.credential.clone();
        let done = Done { renewal: self.renewal.clone(), ended };
        tokio::spawn(async move {
            let _done = done;
            credential.refresh(rejected).await
        });
        running
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
struct Done {
    renewal: Arc<Mutex<Renewal>>,
    ended: watch::Sender<bool>,
}

impl Drop for Done {
    fn drop(&mut self) {
        let mut renewal = lock(&self.renewal);
        renewal.done += 1;
        renewal.running = None;
        self.ended.send_replace(true);
    }
}

fn lock(renewal: &Mutex<Renewal>) -> MutexGuard<'_, Renewal> {
    renewal.lock().unwrap_or_else(PoisonError::into_inner)
}
