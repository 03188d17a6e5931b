//! Servers of the first version of the protocol: a stream that names where messages go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use regrow::core::{Epoch, Fault};
use regrow::transport::{Link, ListenEnd, Receipt, Transport};

use crate::carry::WELCOME;
use crate::ear::{ANSWER, CALL, Heard, INITIALIZE, LIMIT, http, open};
use crate::server::Server;

/// A server that answers on its stream. What is sent to `says` is said there as well; `None` ends the stream.
struct Old {
    server: Server,
    says: Arc<Mutex<Sender<Option<String>>>>,
}

fn old(endpoint: &'static str) -> Old {
    let (says, said) = channel::<Option<String>>();
    let says = Arc::new(Mutex::new(says));
    let (answers, stream) = (says.clone(), Mutex::new(said));
    let streams = AtomicUsize::new(0);
    let server = Server::new(move |request, talk| match (&request.method[..], &request.path[..]) {
        ("GET", "/mcp") => {
            let said: &Receiver<_> = &stream.lock().unwrap();
            talk.events("");
            let number = streams.fetch_add(1, Ordering::SeqCst);
            talk.chunk(format!("event: endpoint\ndata: {endpoint}{number}\n\n"));
            while let Ok(Some(message)) = said.recv() {
                talk.event(&message);
            }
            talk.done();
        }
        ("POST", path) if path.starts_with("/messages?session=") => {
            let answer = match request {
                it if it.calls("initialize") => Some(WELCOME),
                it if it.calls("tools/call") => Some(ANSWER),
                _ => None,
            };
            if let Some(answer) = answer {
                answers.lock().unwrap().send(Some(answer.to_owned())).unwrap();
            }
            talk.reply(202, "Content-Type: text/plain\r\n", "Accepted");
        }
        _ => talk.reply(405, "", "Method Not Allowed"),
    });
    Old { server, says }
}

#[tokio::test]
async fn messages_go_where_the_stream_says_and_answers_come_on_it() {
    let old = old("/messages?session=");
    let http = http(&old.server.url());
    let link = open(&http).await;
    link.greet().await;
    let ear = Heard::new(None);
    let listening = tokio::spawn(link.exchanges.clone().listen(ear.clone()));
    let carried = link.carry(CALL).await;
    assert_eq!((carried.receipt.clone(), carried.ear.sent()), (Ok(Receipt::Elsewhere(202)), 1));
    assert_eq!(ear.until(1).await, [ANSWER]);
    let ways: Vec<_> = old.server.requests().into_iter().map(|it| (it.method, it.path)).collect();
    let way = |method: &str, path: &str| (method.to_owned(), path.to_owned());
    let message = way("POST", "/messages?session=0");
    assert_eq!(ways, [way("POST", "/mcp"), way("GET", "/mcp"), message.clone(), message.clone(), message]);

    // The end of the stream is the end of the session.
    old.says.lock().unwrap().send(None).unwrap();
    let fault = tokio::time::timeout(LIMIT, listening).await.unwrap().unwrap();
    let expired = Fault::SessionExpired { ran: true };
    assert_eq!(fault, ListenEnd::Over(expired.clone()));
    let late = link.carry(CALL).await;
    assert_eq!((late.fault(), late.ear.sent()), (expired, 0));
    link.process.end(crate::ends::LADDER).await;

    // The next link knows.
    let before = old.server.requests().len();
    let link = open(&http).await;
    link.greet().await;
    let next = &old.server.requests()[before];
    assert_eq!((&next.method[..], &next.path[..]), ("GET", "/mcp"));
}

#[tokio::test]
async fn the_stream_ends_with_the_link() {
    let (closed, was_closed) = channel();
    let server = Server::new(move |request, talk| match &request.method[..] {
        "GET" => {
            talk.events("");
            talk.chunk(format!("event: endpoint\ndata: /messages\n\ndata: {WELCOME}\n\n"));
            closed.send(talk.closed_by_client()).unwrap();
        }
        _ if request.path == "/messages" => talk.reply(202, "", ""),
        _ => talk.reply(404, "", ""),
    });
    let Link::Exchanges { exchanges, process } = http(&server.url()).open(Epoch(1)).await.unwrap() else {
        panic!("HTTP has no pipes")
    };
    let ear = Heard::new(Some(0.into()));
    exchanges.clone().carry(crate::ear::frame(INITIALIZE), ear).await.unwrap();
    drop((exchanges, process));
    assert!(tokio::task::spawn_blocking(move || was_closed.recv().unwrap()).await.unwrap());
}

#[tokio::test]
async fn an_address_elsewhere_is_refused() {
    let other = Server::new(|_, talk| talk.reply(202, "", ""));
    let endpoint = format!("http://ann:hunter2@{}/messages?key=hunter2", other.address);
    let server = Server::new(move |request, talk| match &request.method[..] {
        "GET" => {
            talk.events("");
            talk.chunk(format!("event: endpoint\ndata: {endpoint}\n\n"));
            talk.closed_by_client();
        }
        _ => talk.reply(405, "", ""),
    });
    let fault = open(&http(&server.url())).await.carry(INITIALIZE).await.fault();
    let expected =
        format!("an event stream that points to another origin, http://{}/messages", other.address);
    assert_eq!(fault, Fault::NotMcp { found: expected });
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_so_old_is_told_by_its_refusal() {
    for (status, gets) in [(400, 1), (404, 1), (405, 1), (406, 1), (415, 1), (500, 0)] {
        let server = Server::new(move |_, talk| talk.reply(status, "", ""));
        let fault = open(&http(&server.url())).await.carry(INITIALIZE).await.fault();
        assert_eq!(fault, Fault::Status { code: status, said: String::new() });
        assert_eq!(server.requests().len(), 1 + gets);
    }
    // An answer of the protocol is an answer.
    let refused = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no"}}"#;
    let server = Server::new(move |_, talk| talk.reply(400, "", refused));
    assert_eq!(open(&http(&server.url())).await.carry(INITIALIZE).await.texts(), [refused]);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_stream_that_ends_before_the_handshake_is_told_at_once() {
    let server = Server::new(|request, talk| match &request.method[..] {
        "GET" => {
            talk.events("");
            talk.chunk("event: endpoint\ndata: /messages\n\n");
            talk.done();
        }
        _ if request.path == "/messages" => talk.reply(202, "", ""),
        _ => talk.reply(405, "", ""),
    });
    let fault = open(&http(&server.url())).await.carry(INITIALIZE).await.fault();
    assert_eq!(fault, Fault::SessionExpired { ran: true });
}

#[tokio::test]
async fn a_server_that_has_learnt_better_is_not_held_to_the_past() {
    let young = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let grown = young.clone();
    let server = Server::new(move |request, talk| {
        let young = grown.load(Ordering::SeqCst);
        match &request.method[..] {
            "GET" if young => talk.reply(405, "", ""),
            "GET" => {
                talk.events("");
                talk.chunk(format!("event: endpoint\ndata: /messages\n\ndata: {WELCOME}\n\n"));
                talk.closed_by_client();
            }
            _ if request.path == "/messages" => talk.reply(202, "", ""),
            _ if young => talk.json(WELCOME),
            _ => talk.reply(405, "", ""),
        }
    });
    let http = http(&server.url());
    open(&http).await.carry(INITIALIZE).await.texts();
    young.store(true, Ordering::SeqCst);
    for (link, requests) in [(1, 2), (2, 1)] {
        let before = server.requests().len();
        open(&http).await.carry(INITIALIZE).await.texts();
        assert_eq!(server.requests().len() - before, requests, "link {link}");
    }
}
