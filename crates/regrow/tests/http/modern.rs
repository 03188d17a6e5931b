//! The era without sessions: what a message says stands in its headers too.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ear::{ANSWER, http, open};
use crate::server::{Request, Server, Talk};
use crate::streams::MODERN_CALL;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
const SCHEMA: &str = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
const MISMATCH: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"Mcp-Param-Region header is missing"}}"#;

/// Wants the argument in a header, and lists its tools on two pages.
fn strict(request: &Request, talk: &mut Talk) {
    if request.calls("tools/list") {
        let id = request.body.split("\"id\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap();
        let page = if request.body.contains(r#""cursor":"two""#) {
            format!(r#"{{"tools":[{{"name":"pay","inputSchema":{SCHEMA}}}]}}"#)
        } else {
            r#"{"tools":[{"name":"other","inputSchema":{}}],"nextCursor":"two"}"#.to_owned()
        };
        talk.json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{page}}}"#));
    } else if request.header("mcp-param-region") == Some("eu") {
        talk.json(ANSWER);
    } else {
        talk.reply(400, "Content-Type: application/json\r\n", MISMATCH);
    }
}

#[tokio::test]
async fn the_envelope_stands_in_the_headers() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    open(&http(&server.url())).await.carry(MODERN_CALL).await.texts();
    let request = &server.requests()[0];
    assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(request.header("mcp-method"), Some("tools/call"));
    assert_eq!(request.header("mcp-name"), Some("pay"));
    assert_eq!(request.header("mcp-param-region"), None);
    assert_eq!(request.header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_listed_tool_is_called_with_its_headers() {
    let server = Server::new(strict);
    let link = open(&http(&server.url())).await;
    link.carry(LIST).await.texts();
    link.carry(&LIST.replace("\"_meta\"", "\"cursor\":\"two\",\"_meta\"")).await.texts();
    let carried = link.carry(MODERN_CALL).await;
    assert_eq!((carried.texts(), carried.ear.sent()), (vec![ANSWER.to_owned()], 1));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_tool_that_was_never_listed_is_looked_up_once() {
    let server = Server::new(strict);
    let link = open(&http(&server.url())).await;
    let (one, two) = tokio::join!(link.carry(MODERN_CALL), link.carry(MODERN_CALL));
    assert_eq!((one.texts(), two.texts()), (vec![ANSWER.to_owned()], vec![ANSWER.to_owned()]));
    let lists: Vec<_> = server.requests().into_iter().filter(|it| it.calls("tools/list")).collect();
    assert_eq!(lists.len(), 2, "two pages");
    assert!(lists[0].body.contains("clientCapabilities") && !lists[0].body.contains("progressToken"));
    assert_eq!(lists[0].header("mcp-method"), Some("tools/list"));
}

#[tokio::test]
async fn a_tool_that_no_list_explains_stays_refused() {
    let lists = std::sync::Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let server = Server::new(move |request, talk| {
        if request.calls("tools/list") {
            count.fetch_add(1, Ordering::SeqCst);
            talk.reply(500, "", "");
        } else {
            talk.reply(400, "Content-Type: application/json\r\n", MISMATCH);
        }
    });
    let link = open(&http(&server.url())).await;
    for _ in 0..2 {
        let carried = link.carry(MODERN_CALL).await;
        assert_eq!((carried.texts(), carried.ear.sent()), (vec![MISMATCH.to_owned()], 1));
    }
    assert_eq!(lists.load(Ordering::SeqCst), 1);
}
