//! The person at the terminal who signs in.

use std::io::IsTerminal;
use std::sync::Arc;

use regrow_auth::authorize::CallbackError;
use regrow_auth::browser::Browser;
use regrow_auth::device::DeviceCode;
use regrow_auth::login::Person;
use reqwest::Url;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Mutex;

pub(super) struct Terminal {
    /// None where the person opens the address.
    browser: Option<Browser>,
    /// None if nobody types there.
    input: Option<Arc<Mutex<Lines<BufReader<Stdin>>>>>,
}

impl Terminal {
    pub(super) fn new(may_open: bool) -> Terminal {
        let lines = || Arc::new(Mutex::new(BufReader::new(tokio::io::stdin()).lines()));
        let browser = may_open.then(|| Browser::find(|name| std::env::var(name).ok())).flatten();
        Terminal { browser, input: std::io::stdin().is_terminal().then(lines) }
    }
}

impl Person for Terminal {
    fn open(&self, url: &Url) {
        let browser = self.browser.as_ref();
        match browser.is_some_and(|browser| browser.open(url).is_ok()) {
            true => eprintln!("Your browser opens this page to sign in:\n\n  {url}\n"),
            false => eprintln!("Open this page in a browser to sign in:\n\n  {url}\n"),
        }
        if self.input.is_some() {
            eprintln!("If the browser runs on another computer, paste the address of the last page here.");
        }
    }

    fn enter(&self, code: &DeviceCode) {
        eprintln!(
            "On any device, open {} and enter the code {}",
            code.verification_url,
            code.user_code.escape_debug()
        );
        if let Some(url) = &code.complete_url {
            eprintln!("or open {url}");
        }
    }

    async fn pasted(&self, error: Option<&CallbackError>) -> String {
        if let Some(error) = error {
            eprintln!("regrow: {error}; paste the whole address");
        }
        let Some(input) = &self.input else { return std::future::pending().await };
        match input.lock().await.next_line().await {
            Ok(Some(line)) => line,
            // The terminal is gone. The browser may still return.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
