//! The credential of a visit that must change nothing: it has no token, and only hears what the server wants instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::core::Fault;
use regrow::transport::BoxFuture;
use regrow::transport::http::{Credential, Rejected};
use regrow_auth::challenge::challenges;
use reqwest::header::{HeaderName, HeaderValue};

/// Whether the server offers sign-in.
#[derive(Default)]
struct Onlooker(AtomicBool);

pub(super) fn new() -> Arc<dyn Credential> {
    Arc::new(Onlooker::default())
}

impl Credential for Onlooker {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        vec![]
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let all = challenges(&rejected.challenges);
        let offers_sign_in = all.iter().any(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"));
        self.0.fetch_or(offers_sign_in, Ordering::Relaxed);
        Box::pin(std::future::ready(false))
    }

    fn fault(&self, code: u16) -> Fault {
        match code == 401 && self.0.load(Ordering::Relaxed) {
            true => Fault::SignInNeeded { command: "regrow login".into() },
            false => Fault::Unauthorized { code },
        }
    }
}
