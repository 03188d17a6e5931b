//! What proves to a server who we are, and the kinds that need nobody's help.

use std::fmt;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use regrow_core::Fault;

use super::{SetupError, userinfo};
use crate::mask::Mask;
use crate::transport::BoxFuture;

/// What proves to a server who we are. It may be renewed when the server refuses it.
pub trait Credential: Send + Sync + 'static {
    /// The headers to send now. Called before each request, so it must be quick.
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)>;

    /// The server refused it: gets another, and says whether [`Credential::headers`] has something else to offer now.
    ///
    /// For all requests that were refused and that a client waits for, one at a time runs, and beside it at most one for the others. It
    /// is not dropped halfway, so it may wait for a person. A request asks for it once after 401, a client's own twice: the first
    /// answer may be a token that was obtained for another request, without asking a person. After 403 it asks a few times: another
    /// request may have needed something else.
    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let _ = rejected; // What cannot be renewed stays refused.
        Box::pin(std::future::ready(false))
    }

    /// What to report when the server refuses it with this status, and there is no other.
    fn fault(&self, code: u16) -> Fault {
        Fault::Unauthorized { code }
    }

    /// Resolves when it has changed on its own since this was called.
    fn changed(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }

    /// The values that must not be seen, for a [`Mask`](crate::Mask).
    fn secrets(&self) -> Vec<String> {
        let headers = self.headers();
        headers.iter().filter_map(|(_, value)| value.to_str().ok()).flat_map(spoken).collect()
    }

    /// Values that become known later, and must not be seen either, are added to this mask.
    fn mask_later(&self, mask: Mask) {
        let _ = mask; // Most stay as they are.
    }
}

/// What a server refused, and what it said to that.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// The headers of the credential on the refused request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The HTTP status: 401, or 403 where it is known but does not suffice.
    pub code: u16,
    /// What the server wants instead, where it says so: each `WWW-Authenticate`, in its order.
    pub challenges: Vec<HeaderValue>,
    /// Whether a client waits for the refused request. Nobody waits for a probe, so no person should be disturbed for it.
    pub is_awaited: bool,
}

impl Rejected {
    /// For the tests of a credential. No client waits for the request.
    pub fn new(headers: Vec<(HeaderName, HeaderValue)>, code: u16, challenges: Vec<HeaderValue>) -> Rejected {
        Rejected { headers, code, challenges, is_awaited: false }
    }
}

/// The ways in which a header's value may turn up in a text: whole, without its scheme, and unpacked.
pub(super) fn spoken(value: &str) -> impl Iterator<Item = String> + use<> {
    let bare = value.split_once(' ').map(|(_, bare)| bare.trim().to_owned());
    [Some(value.to_owned()), bare, userinfo::password(value)].into_iter().flatten()
}

/// A header whose value is kept out of `Debug`.
pub(super) fn secret_header(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), SetupError> {
    let wrong = |reason: &str| SetupError::Header { name: name.to_owned(), reason: reason.to_owned() };
    let key = HeaderName::try_from(name).map_err(|_| wrong("it is not a valid header name"))?;
    let mut value = HeaderValue::from_bytes(value).map_err(|_| wrong("its value has control characters"))?;
    value.set_sensitive(true);
    Ok((key, value))
}

/// Headers that stay as they are.
#[derive(Clone)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Of names and values as text.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Headers, SetupError> {
        let headers = headers.into_iter().map(|(name, value)| secret_header(name, value.trim().as_bytes()));
        Ok(Headers(headers.collect::<Result<_, _>>()?))
    }
}

impl Credential for Headers {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        self.0.clone()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|(name, _)| name).collect();
        f.debug_tuple("Headers").field(&names).finish()
    }
}

/// A bearer token from a variable of the environment, as it was at the start.
#[derive(Clone)]
pub struct BearerEnv {
    variable: String,
    value: HeaderValue,
}

impl BearerEnv {
    /// Reads the variable.
    pub fn new(variable: &str) -> Result<BearerEnv, SetupError> {
        let missing = || SetupError::NoVariable { name: variable.to_owned() };
        let token = std::env::var(variable).map_err(|_| missing())?;
        if token.trim().is_empty() {
            return Err(missing());
        }
        let (_, value) =
            secret_header(AUTHORIZATION.as_str(), format!("Bearer {}", token.trim()).as_bytes())?;
        Ok(BearerEnv { variable: variable.to_owned(), value })
    }
}

impl Credential for BearerEnv {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        vec![(AUTHORIZATION, self.value.clone())]
    }
}

impl fmt::Debug for BearerEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerEnv").field("variable", &self.variable).finish_non_exhaustive()
    }
}
