//! A message goes there, and its answer comes back.

use bytes::Bytes;
use regrow::core::Fault;
use regrow::transport::{OutgoingMessage, Receipt};
use regrow_protocol::frame::{Edit, Frame, RawId};

use crate::ear::{ANSWER, CALL, Heard, Open, http, open};
use crate::server::{Request, Server, Talk};

pub(crate) const WELCOME: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;

/// Shakes hands as a server of the legacy era does; the rest is for the test.
pub(crate) fn legacy(answer: impl Fn(&Request, &mut Talk) + Send + Sync + 'static) -> Server {
    Server::new(move |request, talk| {
        if request.calls("initialize") {
            talk.reply(200, "Content-Type: application/json\r\nMcp-Session-Id: s-1\r\n", WELCOME);
        } else if request.calls("notifications/initialized") {
            talk.reply(202, "", "");
        } else {
            answer(request, talk);
        }
    })
}

#[tokio::test]
async fn an_answer_may_be_json() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    let link = open(&http(&server.url())).await;
    let carried = link.carry(CALL).await;
    assert_eq!(carried.texts(), [ANSWER]);
    assert_eq!(carried.ear.sent(), 1);
    let request = &server.requests()[0];
    assert_eq!((&request.method[..], &request.path[..], &request.body[..]), ("POST", "/mcp", CALL));
    assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("user-agent"), Some(concat!("regrow/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(request.header("mcp-session-id"), None);
}

#[tokio::test]
async fn an_answer_may_be_a_stream_of_events() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
    let server = Server::new(move |_, talk| {
        talk.events("");
        talk.chunk(": hello\n\n");
        talk.event(progress);
        talk.event(ANSWER);
        talk.done();
    });
    let link = open(&http(&server.url())).await;
    for _ in 0..3 {
        assert_eq!(link.carry(CALL).await.texts(), [progress, ANSWER]);
    }
    assert_eq!(server.connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// The server answers each request with the response to "new".
pub(crate) async fn long_messages_arrive_whole(link: &Open, server: &Server) {
    let long = "prose \\n and \\\"code\\\" ".repeat(40_000);
    let meta = r#""_meta":{"progressToken":1}"#;
    for (index, old) in [
        format!(r#"{{"id":7,"method":"tools/call","params":{{{meta},"arguments":{{"a":"{long}"}}}}}}"#),
        format!(r#"{{"method":"tools/call","params":{{"arguments":{{"a":"{long}"}},{meta}}},"id":"old"}}"#),
        format!(r#"{{"method":"tools/call","params":{{"a":"{long}",{meta},"b":"{long}"}},"id":-1.5}}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let message = Frame::parse(Bytes::from(old.clone())).unwrap();
        let id = RawId::parse(br#""new""#).unwrap();
        let edits = [Edit::Id(&id), Edit::MetaProgressToken(&id)];
        let ear = Heard::new(Some(id.clone()));
        let carried = link.exchanges.clone().carry(OutgoingMessage::edited(&message, edits), ear.clone());
        assert_eq!(carried.await, Ok(Receipt::Done));
        assert_eq!(ear.sent(), 1);
        let request = &server.requests()[index];
        assert_eq!(request.header("content-length"), Some(&*request.body.len().to_string()));
        let expected = ["7", "\"old\"", "-1.5"]
            .iter()
            .fold(old, |text, id| text.replace(&format!("\"id\":{id}"), "\"id\":\"new\""));
        assert!(request.body == expected.replace("Token\":1", "Token\":\"new\""), "message {index}");
    }
}

#[tokio::test]
async fn a_long_message_arrives_whole_with_its_new_ids() {
    let server = Server::new(|_, talk| talk.json(&ANSWER.replace('7', "\"new\"")));
    long_messages_arrive_whole(&open(&http(&server.url())).await, &server).await;
}

#[tokio::test]
async fn the_session_id_and_the_version_go_with_every_later_message() {
    let server = legacy(|_, talk| talk.json(ANSWER));
    let link = open(&http(&server.url())).await;
    link.greet().await;
    link.carry(CALL).await.texts();
    let seen: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            let header = |name| request.header(name).map(str::to_owned);
            (header("mcp-session-id"), header("mcp-protocol-version"))
        })
        .collect();
    let later = (Some("s-1".to_owned()), Some("2025-11-25".to_owned()));
    assert_eq!(seen, [(None, None), later.clone(), later]);
}

#[tokio::test]
async fn what_is_accepted_is_answered_elsewhere() {
    let server = legacy(|_, talk| talk.reply(202, "", ""));
    let link = open(&http(&server.url())).await;
    link.greet().await;
    assert_eq!(link.carry(CALL).await.receipt, Ok(Receipt::Elsewhere(202)));
    let told = link.carry(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#).await;
    assert_eq!(told.receipt, Ok(Receipt::Done));
}

#[tokio::test]
async fn what_is_accepted_without_a_session_gets_no_response() {
    for code in [202, 204] {
        let server = Server::new(move |_, talk| talk.reply(code, "", ""));
        for request in [crate::ear::INITIALIZE, CALL, crate::streams::MODERN_CALL] {
            let link = open(&http(&server.url())).await;
            let fault = link.carry(request).await.receipt.unwrap_err();
            assert!(matches!(&fault, Fault::Status { code: is, .. } if *is == code), "{fault:?}");
            assert!(fault.may_have_run());
        }
    }
}
