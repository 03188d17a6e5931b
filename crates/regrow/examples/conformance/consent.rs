//! What a person with a browser would do, without either: opens the page of the authorization server and follows where it sends
//! the browser. The suite's servers ask nothing.

use std::future::pending;

use regrow_auth::authorize::CallbackError;
use regrow_auth::device::DeviceCode;
use regrow_auth::login::Person;
use url::Url;

/// Opens each page without looking at it.
pub(crate) struct Consent;

impl Person for Consent {
    fn open(&self, url: &Url) {
        let url = url.clone();
        tokio::spawn(async move {
            // The last page says how it went, and so does the sign-in itself.
            if let Err(error) = reqwest::get(url).await {
                eprintln!("the browser failed: {error}");
            }
        });
    }

    fn enter(&self, code: &DeviceCode) {
        eprintln!("nobody enters {}", code.user_code);
    }

    async fn pasted(&self, _: Option<&CallbackError>) -> String {
        pending().await
    }
}
