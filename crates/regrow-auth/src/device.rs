//! Sign-in on another device (RFC 8628): the person opens an address there and enters a code; Regrow polls for the tokens.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use url::Url;

use crate::authorize::browser_url;
use crate::guarded::{Answer, Guarded};
use crate::records::{AuthorizationServer, Registration, Secret, Tokens};
use crate::token::{self, DEVICE_GRANT, Reason, TokenError};

/// The default of RFC 8628, and what `slow_down` adds.
const INTERVAL: Duration = Duration::from_secs(5);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// A code is valid at most this long, whatever the server says.
const MAX_LIFE: Duration = Duration::from_secs(30 * 60);
/// People type user codes, so they are short.
const MAX_USER_CODE: usize = 32;

/// What the person must do.
#[derive(Clone, Debug)]
pub struct DeviceCode {
    /// What to enter.
    pub user_code: String,
    /// Where to enter it.
    pub verification_url: Url,
    /// The same with the code in it, where the server has that.
    pub complete_url: Option<Url>,
    device_code: Secret,
    interval: Duration,
    expires: Instant,
}

/// Asks for a code.
pub async fn start(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    scope: Option<&str>,
    resource: Option<&str>,
) -> Result<DeviceCode, TokenError> {
    let Some(endpoint) = &server.device_authorization_endpoint else {
        return Err(refused("it does not support sign-in on another device"));
    };
    let mut form = vec![];
    form.extend(scope.map(|scope| ("scope", scope)));
    form.extend(resource.map(|resource| ("resource", resource)));
    let answer = token::post(http, server, endpoint, registration, &form).await?;
    let body = token::object(&answer)?;
    let text = |name: &str| token::text(&body, name);
    let (Some(device_code), Some(user_code), Some(url)) = (
        text("device_code"),
        text("user_code"),
        text("verification_uri").or_else(|| text("verification_url")),
    ) else {
        return Err(refused("its response lacks a code or an address"));
    };
    if user_code.chars().count() > MAX_USER_CODE
        || !user_code.chars().all(|c| c.is_alphanumeric() || "- ".contains(c))
    {
        return Err(refused("its user code is not valid"));
    }
    let address = |text: &str| {
        browser_url(text).map_err(|error| {
            let details = Some(error.to_string());
            TokenError::Refused {
                reason: Reason { summary: "the address for the code is not allowed".into(), details },
            }
        })
    };
    let seconds = |name: &str| body.get(name).and_then(token::seconds).map(Duration::from_secs);
    Ok(DeviceCode {
        user_code: user_code.to_owned(),
        verification_url: address(url)?,
        complete_url: text("verification_uri_complete").map(address).transpose()?,
        device_code: Secret::new(device_code),
        interval: seconds("interval").unwrap_or(INTERVAL).clamp(Duration::from_secs(1), MAX_INTERVAL),
        expires: Instant::now() + seconds("expires_in").unwrap_or(MAX_LIFE).min(MAX_LIFE),
    })
}

/// Polls until the person has finished, at the pace that the server asks for.
pub async fn finish(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    code: &DeviceCode,
) -> Result<Tokens, TokenError> {
    let form = [("grant_type", DEVICE_GRANT), ("device_code", code.device_code.expose())];
    let mut interval = code.interval;
    loop {
        sleep(interval).await;
        if Instant::now() >= code.expires {
            return Err(TokenError::Rejected { reason: Reason::own("nobody entered the code in time") });
        }
        let answer = token::post(http, server, &server.token_endpoint, registration, &form).await;
        match read(answer) {
            Poll::Again(wait) => interval = wait.after(interval),
            Poll::Done(result) => return result,
        }
    }
}

enum Poll {
    Again(Wait),
    Done(Result<Tokens, TokenError>),
}

/// Why, and so how long, to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Pending,
    SlowDown,
    /// The network or the server is busy or broken. It comes back, or the code expires.
    Trouble(Option<Duration>),
}

impl Wait {
    /// The next interval. It never gets shorter.
    fn after(self, interval: Duration) -> Duration {
        let next = match self {
            Wait::Pending => interval,
            Wait::SlowDown => interval + INTERVAL,
            Wait::Trouble(asked) => asked.unwrap_or(interval * 2).max(interval),
        };
        next.min(MAX_INTERVAL)
    }
}

fn read(answer: Result<Answer, TokenError>) -> Poll {
    let code = answer.as_ref().ok().and_then(token::error_code);
    match code.as_deref() {
        Some("authorization_pending") => return Poll::Again(Wait::Pending),
        Some("slow_down") => return Poll::Again(Wait::SlowDown),
        Some("expired_token") => {
            return Poll::Done(Err(TokenError::Rejected { reason: Reason::own("the code has expired") }));
        }
        _ => {}
    }
    match answer.and_then(|answer| token::read(&answer, token::now())) {
        Err(TokenError::Temporary { retry_after, .. }) => Poll::Again(Wait::Trouble(retry_after)),
        result => Poll::Done(result),
    }
}

fn refused(reason: &str) -> TokenError {
    TokenError::Refused { reason: Reason::own(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_gets_slower_as_the_server_asks_and_has_a_limit() {
        let seconds = Duration::from_secs;
        let cases = [
            (Wait::Pending, 1, 1),
            (Wait::SlowDown, 1, 6),
            (Wait::SlowDown, 58, 60),
            (Wait::Trouble(None), 6, 12),
            (Wait::Trouble(Some(seconds(30))), 6, 30),
            (Wait::Trouble(Some(seconds(1))), 6, 6),
            (Wait::Trouble(Some(seconds(u64::MAX))), 6, 60),
        ];
        for (wait, before, after) in cases {
            assert_eq!(wait.after(seconds(before)), seconds(after), "{wait:?}");
        }
    }

    #[test]
    fn only_a_grant_or_a_refusal_ends_the_polling() {
        let read = |status, body: &str| {
            let body = body.as_bytes().to_vec();
            match read(Ok(Answer { status, retry_after: None, challenges: vec![], body })) {
                Poll::Again(wait) => format!("{wait:?}"),
                Poll::Done(Ok(_)) => "granted".into(),
                Poll::Done(Err(error)) => error.to_string(),
            }
        };
        assert_eq!(read(400, r#"{"error":"authorization_pending"}"#), "Pending");
        assert_eq!(read(400, r#"{"error":"slow_down"}"#), "SlowDown");
        assert_eq!(read(429, r#"{"error":"slow_down"}"#), "SlowDown");
        assert_eq!(read(503, "busy"), "Trouble(None)");
        assert_eq!(read(200, r#"{"access_token":"a"}"#), "granted");
        assert!(read(400, r#"{"error":"expired_token"}"#).contains("expired"));
        assert!(read(400, r#"{"error":"access_denied"}"#).contains("access_denied"));
    }
}
