//! Answers that are none: each is told as the fault that it is.

use std::time::{Duration, SystemTime};

use regrow::core::{Evidence, Fault};

use crate::carry::legacy;
use crate::ear::{ANSWER, CALL, Carried, http, open};
use crate::server::Server;

async fn answered(status: u16, headers: &'static str, body: &'static str) -> Carried {
    let server = Server::new(move |_, talk| talk.reply(status, headers, body));
    let carried = open(&http(&server.url())).await.carry(CALL).await;
    assert_eq!((server.requests().len(), carried.ear.sent()), (1, 1));
    carried
}

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn a_status_is_told_with_what_was_said() {
    let carried = answered(502, "Content-Type: text/plain\r\n", "no \u{1b}[31mupstream\n today").await;
    assert_eq!(
        carried.fault().to_string(),
        "the server responded with HTTP 502: no \\u{1b}[31mupstream today"
    );
    let carried = answered(500, "Content-Type: text/html\r\n", "<html>secret stack</html>").await;
    assert_eq!(carried.fault().to_string(), "the server responded with HTTP 500");
    let carried = answered(404, JSON, r#"{"detail":"nothing here"}"#).await;
    assert_eq!(
        carried.fault().to_string(),
        r#"the server responded with HTTP 404: {"detail":"nothing here"}"#
    );
    let carried = answered(503, "", "").await;
    assert_eq!(carried.fault(), Fault::Status { code: 503, said: String::new() });
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_told_as_such() {
    let deferred = |code, secs| Fault::Deferred { code, after: Duration::from_secs(secs) };
    assert_eq!(answered(429, "", "").await.fault(), deferred(429, 1));
    assert_eq!(answered(429, "Retry-After: 7\r\n", "").await.fault(), deferred(429, 7));
    assert_eq!(
        answered(503, "Retry-After: 99999999999999999999999\r\n", "").await.fault(),
        deferred(503, 3600)
    );
    assert_eq!(answered(503, "Retry-After: 0\r\n", ANSWER).await.fault(), deferred(503, 0));
    let date = "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
    assert_eq!(answered(503, date, "").await.fault(), deferred(503, 0));
    assert_eq!(answered(503, "Retry-After: soon\r\n", "").await.fault().name(), "status");

    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(600));
    let server = Server::new(move |_, talk| talk.reply(503, &format!("Retry-After: {later}\r\n"), ""));
    let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
    let Fault::Deferred { code: 503, after } = fault else { panic!("{fault}") };
    assert!((500..=600).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test]
async fn an_answer_under_an_error_status_is_the_answer() {
    let own = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no such method"}}"#;
    for status in [400, 403, 404, 500] {
        assert_eq!(answered(status, JSON, own).await.texts(), [own]);
    }
    assert_eq!(answered(500, JSON, ANSWER).await.texts(), [ANSWER]);
}

#[tokio::test]
async fn an_error_without_an_id_is_meant_for_the_request() {
    let expected = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no","data":[ 1]}}"#;
    for body in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no","data":[ 1]}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no","data":[ 1]}}"#,
    ] {
        assert_eq!(answered(200, JSON, body).await.texts(), [expected]);
        assert_eq!(answered(400, JSON, body).await.texts(), [expected]);
    }
    let foreign =
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Not Acceptable"}}"#;
    assert_eq!(answered(406, JSON, foreign).await.texts(), [foreign.replace("\"server-error\"", "7")]);
    let server = Server::new(|_, talk| {
        talk.events("");
        talk.event(r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}"#);
        talk.done();
    });
    let carried = open(&http(&server.url())).await.carry(CALL).await;
    assert_eq!(carried.texts(), [r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#]);
}

#[tokio::test]
async fn what_is_no_answer_is_said_by_what_it_is() {
    let found = |carried: Carried| match carried.fault() {
        Fault::NotMcp { found } => found,
        fault => panic!("{fault:?}"),
    };
    let page = answered(200, "Content-Type: text/html; charset=utf-8\r\n", "<html>").await;
    assert_eq!(found(page), "an HTML page (HTTP 200)");
    assert_eq!(found(answered(200, "Content-Type: text/plain\r\n", "hi").await), "text/plain (HTTP 200)");
    assert_eq!(found(answered(200, JSON, "hello").await), "a response that is not JSON, from byte 1 on");
    assert_eq!(
        found(answered(200, JSON, r#"{"ok":true}"#).await),
        "a response that is not a JSON-RPC message: it has no method, result or error"
    );
    assert_eq!(
        found(answered(200, JSON, r#"{"jsonrpc":"2.0","id":8,"result":{}}"#).await),
        "a message that is not the response to the request"
    );
    let packed =
        answered(200, "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", "\u{1f}x").await;
    assert_eq!(found(packed), "a response encoded with gzip, which was not requested");
    assert_eq!(answered(200, JSON, "").await.fault(), Fault::AnswerCut);
    assert_eq!(answered(200, JSON, r#"{"jsonrpc":"2.0","id":7,"resu"#).await.fault(), Fault::AnswerCut);
    let no_type = answered(200, "", ANSWER).await;
    assert_eq!(no_type.texts(), [ANSWER]);
}

#[tokio::test]
async fn what_does_not_speak_http_is_said_so() {
    let server = Server::new(|_, talk| {
        talk.raw("SSH-2.0-OpenSSH_9.6\r\n\r\n");
        talk.close();
    });
    let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
    assert_eq!(
        fault,
        Fault::NotMcp { found: "something that does not speak HTTP (invalid HTTP version parsed)".into() }
    );
}

/// To each of these the session is over, and the request did not run.
const EXPIRED: [(u16, &str); 10] = [
    (404, ""),
    (404, "Not Found"),
    (404, r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#),
    (404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}"#),
    (404, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}"#),
    (
        400,
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
    ),
    (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}"#),
    (400, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"unknown session"}}"#),
    (
        400,
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#,
    ),
    (400, "Invalid session ID"),
];

/// These are left alone.
const NOT_EXPIRED: [(u16, &str); 5] = [
    (404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}"#),
    (400, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"bad params"}}"#),
    (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#),
    (400, "bad request"),
    (500, "session not found"),
];

#[tokio::test]
async fn a_session_is_forgotten_in_many_words() {
    for (status, body) in EXPIRED {
        let server = legacy(move |request, talk| {
            assert_ne!(request.method, "DELETE");
            talk.reply(status, "", body);
        });
        let link = open(&http(&server.url())).await;
        link.greet().await;
        let fault = link.carry(CALL).await.fault();
        let Fault::NoSession { code, evidence, .. } = fault else { panic!("{status} {body}: {fault:?}") };
        let words = body.to_lowercase().contains("session");
        assert_eq!((code, evidence), (status, if words { Evidence::Words } else { Evidence::Status }));
        // Nobody takes leave of a session that is forgotten.
        link.exchanges.forgotten();
        link.process.end(crate::ends::LADDER).await;
        assert_eq!(server.requests().len(), 3);
    }
    for (status, body) in NOT_EXPIRED {
        let server = legacy(move |_, talk| talk.reply(status, "", body));
        let link = open(&http(&server.url())).await;
        link.greet().await;
        let carried = link.carry(CALL).await;
        let expired = matches!(carried.receipt, Err(Fault::SessionExpired { .. } | Fault::NoSession { .. }));
        assert!(!expired, "{status} {body}");
    }
}

#[tokio::test]
async fn without_a_session_none_can_be_forgotten() {
    for (status, body) in EXPIRED {
        let carried = answered(status, "", body).await;
        assert!(
            !matches!(carried.receipt, Err(Fault::SessionExpired { .. } | Fault::NoSession { .. })),
            "{status} {body}"
        );
    }
}

#[tokio::test]
async fn a_session_forgotten_inside_a_good_answer_may_have_run() {
    let lost = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Session not found"}}"#;
    for events in [false, true] {
        let server = legacy(move |_, talk| {
            if events {
                talk.events("");
                talk.event(lost);
                talk.done();
            } else {
                talk.json(lost);
            }
        });
        let link = open(&http(&server.url())).await;
        link.greet().await;
        let carried = link.carry(CALL).await;
        let said = ": Session not found".into();
        assert_eq!(carried.fault(), Fault::NoSession { code: 200, said, evidence: Evidence::Response });
        assert_eq!(carried.ear.texts(), [""; 0]);
    }
    assert_eq!(answered(200, JSON, lost).await.texts(), [lost]);
}

#[tokio::test]
async fn notifications_are_refused_in_the_same_words() {
    let server = legacy(|_, talk| talk.reply(404, "", ""));
    let link = open(&http(&server.url())).await;
    link.greet().await;
    let told = link.carry(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#).await;
    let (said, evidence) = (String::new(), Evidence::Status);
    assert_eq!(told.fault(), Fault::NoSession { code: 404, said, evidence });
}
