//! A panic while one request is handled ends that request, and nothing else on its connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use regrow_protocol::error_code;

use super::refusal::Refusal;

/// Handles a request behind a shield.
pub(super) async fn shield(mut handling: Pin<&mut impl Future<Output = Response>>) -> Response {
    std::future::poll_fn(|cx| {
        // What the handling has touched stays usable: every lock here is taken over, and dropped calls end.
        match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(_) => Poll::Ready(
                // The panic itself was reported where it happened.
                Refusal::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    error_code::INTERNAL_ERROR,
                    "internal error in Regrow while handling this request",
                )
                .into_response(),
            ),
        }
    })
    .await
}
