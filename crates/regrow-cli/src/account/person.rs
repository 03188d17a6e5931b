//! The person at the terminal who signs in.

use std::io::IsTerminal;
use std::process::{Command, Stdio};
use std::sync::Arc;

use regrow_auth::authorize::CallbackError;
use regrow_auth::device::DeviceCode;
use regrow_auth::login::Person;
use reqwest::Url;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Mutex;

pub(super) struct Terminal {
    may_open: bool,
    /// None if nobody types there.
    input: Option<Arc<Mutex<Lines<BufReader<Stdin>>>>>,
}

impl Terminal {
    pub(super) fn new(may_open: bool) -> Terminal {
        let lines = || Arc::new(Mutex::new(BufReader::new(tokio::io::stdin()).lines()));
        Terminal { may_open, input: std::io::stdin().is_terminal().then(lines) }
    }
}

impl Person for Terminal {
    fn open(&self, url: &Url) {
        let opened = self.may_open && has_display() && open_browser(url);
        match opened {
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

/// A browser here would open where nobody sees it.
fn has_display() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY");
    is_set("BROWSER")
        || !is_remote && (cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
}

/// The address is an argument: no shell reads it.
fn open_browser(url: &Url) -> bool {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = std::env::var_os("BROWSER").filter(|name| !name.is_empty()).unwrap_or_else(|| usual.into());
    let mut command = Command::new(program);
    command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
