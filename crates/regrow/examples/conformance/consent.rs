//! What a person with a browser would do, without either: opens the page of the authorization server and reads where it sends
//! the browser. The suite's servers ask nothing.

use std::error::Error;

use reqwest::redirect::Policy;
use url::{Host, Url};

/// Why there is no token.
pub(crate) type Reason = Box<dyn Error + Send + Sync>;

/// Opens the page, and gives the address with the server's answer, which must be the one to come back to.
pub(crate) async fn give(page: &str, come_back: &str) -> Result<Url, Reason> {
    let page = Url::parse(page)?;
    if !may_be_opened(&page) {
        return Err(
            "the authorization server's page is not opened: it is neither https nor on this machine".into()
        );
    }
    let browser = reqwest::Client::builder().redirect(Policy::none()).build()?;
    let response = browser.get(page.clone()).send().await?;
    let sent_to = response.headers().get(http::header::LOCATION).and_then(|place| place.to_str().ok());
    let sent_to =
        sent_to.ok_or_else(|| format!("the page answered {} and nothing else", response.status()))?;
    let answer = page.join(sent_to)?;
    let mut place = answer.clone();
    place.set_query(None);
    if place.as_str() != come_back {
        return Err("the authorization server sends its answer to somebody else".into());
    }
    Ok(answer)
}

/// Only what nobody on the way can read or change.
fn may_be_opened(page: &Url) -> bool {
    let local = match page.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    page.scheme() == "https" || page.scheme() == "http" && local
}
