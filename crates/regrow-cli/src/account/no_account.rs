//! The credential of a connection that must use no account: it has no token, and only hears whether the server requires sign-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::core::Fault;
use regrow::transport::BoxFuture;
use regrow::transport::http::{Credential, Rejected};
use regrow_auth::challenge::challenges;
use reqwest::header::{HeaderName, HeaderValue};

struct NoAccountCredential {
    offers_sign_in: AtomicBool,
    fault: Fault,
}

/// With the fault of a server that requires sign-in.
pub(crate) fn new(fault: Fault) -> Arc<dyn Credential> {
    Arc::new(NoAccountCredential { offers_sign_in: AtomicBool::new(false), fault })
}

impl Credential for NoAccountCredential {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        vec![]
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let all = challenges(&rejected.challenges);
        let offers_sign_in = all.iter().any(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"));
        self.offers_sign_in.fetch_or(offers_sign_in, Ordering::Relaxed);
        Box::pin(std::future::ready(false))
    }

    fn fault(&self, code: u16) -> Fault {
        match code == 401 && self.offers_sign_in.load(Ordering::Relaxed) {
            true => self.fault.clone(),
            false => Fault::Unauthorized { code },
        }
    }
}
