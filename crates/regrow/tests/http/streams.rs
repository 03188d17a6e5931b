//! Answers that are streams, and are cut: resumed where the server offers that, told where it does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regrow::core::Fault;
use regrow::transport::Receipt;

use crate::carry::legacy;
use crate::ear::{ANSWER, CALL, Carried, Heard, LIMIT, Open, frame, http, open};
use crate::server::{Server, Talk};

const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;

/// The ways in which a stream may end that lose nothing of what came before.
const ENDS: [fn(&mut Talk); 2] = [Talk::done, Talk::close];

async fn greeted(server: &Server) -> Open {
    let link = open(&http(&server.url())).await;
    link.greet().await;
    link
}

/// The requests after the handshake, by method and where they go on.
fn asked(server: &Server) -> Vec<(String, Option<String>)> {
    let requests = server.requests().into_iter().skip(2);
    requests.map(|it| (it.method.clone(), it.header("last-event-id").map(str::to_owned))).collect()
}

fn method(name: &str, last: Option<&str>) -> (String, Option<String>) {
    (name.to_owned(), last.map(str::to_owned))
}

#[tokio::test]
async fn a_stream_that_ends_without_the_answer_is_told_at_once() {
    for end in ENDS {
        let server = legacy(move |_, talk| {
            talk.events("");
            talk.event(PROGRESS);
            end(talk);
        });
        let link = greeted(&server).await;
        let begun = Instant::now();
        let carried = link.carry(CALL).await;
        assert_eq!(carried.fault(), Fault::AnswerCut);
        assert!(begun.elapsed() < LIMIT);
        assert_eq!(carried.ear.texts(), [PROGRESS]);
        assert_eq!(asked(&server), [method("POST", None)]);
    }
}

#[tokio::test]
async fn a_stream_with_ids_goes_on_where_it_was_cut() {
    for end in ENDS {
        let server = legacy(move |request, talk| match request.header("last-event-id") {
            None => {
                talk.events("");
                talk.chunk("retry: 0\nid: e-1\ndata: \n\n");
                end(talk);
            }
            Some("e-1") => {
                talk.events("");
                talk.chunk(format!("id: e-2\ndata: {PROGRESS}\n\n"));
                end(talk);
            }
            Some(_) => {
                talk.events("");
                talk.event(ANSWER);
                talk.done();
            }
        });
        let link = greeted(&server).await;
        let begun = Instant::now();
        let carried = link.carry(CALL).await;
        assert_eq!(carried.texts(), [PROGRESS, ANSWER]);
        assert_eq!(carried.ear.sent(), 1);
        assert_eq!(
            asked(&server),
            [method("POST", None), method("GET", Some("e-1")), method("GET", Some("e-2"))]
        );
        assert_eq!(server.requests()[3].header("mcp-session-id"), Some("s-1"));
        // `retry: 0` is no licence to hammer.
        assert!(begun.elapsed() >= Duration::from_millis(200));
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_goes_on_where_it_was_cut() {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let server = legacy(move |request, talk| {
        talk.events("");
        if request.method == "GET" {
            talk.event(ANSWER);
            talk.done();
        } else {
            talk.chunk(format!("id: 1\nretry: 0\ndata: {PROGRESS}\n\n"));
            wait.lock().unwrap().recv().unwrap();
            talk.reset();
        }
    });
    let link = greeted(&server).await;
    let ear = Heard::new(Some(7.into()));
    let carrying = tokio::spawn(link.exchanges.clone().carry(frame(CALL), ear.clone()));
    ear.until(1).await;
    go.send(()).unwrap();
    assert_eq!(carrying.await.unwrap(), Ok(Receipt::Done));
    assert_eq!(asked(&server), [method("POST", None), method("GET", Some("1"))]);
}

#[tokio::test]
async fn a_server_that_is_gone_is_not_waited_for() {
    let address = {
        // A server for one call, whose port nobody listens on afterwards.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut talk = Talk::new(Box::new(listener.accept().unwrap().0));
            drop(listener);
            talk.request().unwrap();
            talk.events("");
            talk.chunk("id: 1\n\n");
            talk.close();
        });
        address
    };
    let begun = Instant::now();
    let carried = open(&http(&format!("http://{address}/mcp"))).await.carry(CALL).await;
    // It was sent, so it is not told as unreachable: it may have run.
    assert_eq!(carried.fault(), Fault::AnswerCut);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

async fn resumed(status: u16) -> (Carried, usize) {
    let server = legacy(move |request, talk| {
        if request.method == "POST" {
            talk.events("");
            talk.chunk("id: 1\nretry: 1\n\n");
            talk.done();
        } else if status == 200 {
            talk.events("");
            talk.chunk(": nothing\n\n");
            talk.done();
        } else {
            talk.reply(status, "", "");
        }
    });
    let carried = greeted(&server).await.carry(CALL).await;
    let gets = asked(&server).len() - 1;
    (carried, gets)
}

#[tokio::test]
async fn a_stream_is_not_resumed_for_ever() {
    for (status, gets) in [(405, 1), (404, 1), (400, 1), (200, 5), (503, 5)] {
        let (carried, seen) = resumed(status).await;
        assert_eq!((carried.fault(), seen), (Fault::AnswerCut, gets), "{status}");
    }
}

#[tokio::test]
async fn a_stream_of_the_modern_era_is_not_resumed() {
    let server = Server::new(|_, talk| {
        talk.events("");
        talk.chunk("id: 1\nretry: 1\n\n");
        talk.done();
    });
    let carried = open(&http(&server.url())).await.carry(MODERN_CALL).await;
    assert_eq!(carried.fault(), Fault::AnswerCut);
    assert_eq!(server.requests().len(), 1);
}

pub(crate) const MODERN_CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"region":"eu"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":5}}}"#;

#[tokio::test]
async fn a_stream_is_left_once_the_answer_is_there() {
    let (closed, was_closed) = std::sync::mpsc::channel();
    let server = Server::new(move |_, talk| {
        talk.events("");
        talk.event(ANSWER);
        closed.send(talk.closed_by_client()).unwrap();
    });
    let link = open(&http(&server.url())).await;
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
    assert!(tokio::task::spawn_blocking(move || was_closed.recv().unwrap()).await.unwrap());
}

#[tokio::test]
async fn a_subscription_goes_on_until_the_server_ends_it() {
    let (more, next) = std::sync::mpsc::channel::<&str>();
    let next = std::sync::Mutex::new(next);
    let server = Server::new(move |_, talk| {
        talk.events("");
        while let Ok(message) = next.lock().unwrap().recv() {
            talk.event(message);
        }
        talk.done();
    });
    let link = open(&http(&server.url())).await;
    let ear = Heard::new(Some(9.into()));
    let listen = r#"{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let carrying = tokio::spawn(link.exchanges.clone().carry(frame(listen), ear.clone()));
    for count in 1..=3 {
        more.send(PROGRESS).unwrap();
        ear.until(count).await;
    }
    assert!(!carrying.is_finished());
    more.send(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).unwrap();
    assert_eq!(carrying.await.unwrap(), Ok(Receipt::Done));
}

#[tokio::test]
async fn nothing_is_read_while_there_is_no_room() {
    let written = std::sync::Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let server = Server::new(move |_, talk| {
        talk.events("");
        let long = format!(r#"{{"jsonrpc":"2.0","method":"log","params":"{}"}}"#, "x".repeat(64 * 1024));
        while count.load(Ordering::SeqCst) < 1_000 && talk.event(&long) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        talk.event(ANSWER);
        talk.done();
    });
    let link = open(&http(&server.url())).await;
    let ear = Heard::new(Some(7.into()));
    ear.full.send_replace(true);
    let carrying = tokio::spawn(link.exchanges.clone().carry(frame(CALL), ear.clone()));
    ear.until(1).await;
    // The server fills what lies between, and then waits: it stops for a while well before its end.
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = written.load(Ordering::SeqCst);
        if now == last {
            break;
        }
        last = now;
    }
    assert!(last < 1_000, "all {last} were read");
    assert_eq!(ear.lines().len(), 1);
    ear.full.send_replace(false);
    assert_eq!(carrying.await.unwrap(), Ok(Receipt::Done));
    assert_eq!(ear.lines().len(), 1_001);
}

#[tokio::test]
async fn the_end_of_a_link_ends_its_exchanges() {
    let (closed, was_closed) = std::sync::mpsc::channel();
    let server = Server::new(move |_, talk| {
        talk.events("");
        talk.event(PROGRESS);
        closed.send(talk.closed_by_client()).unwrap();
    });
    let link = open(&http(&server.url())).await;
    let ear = Heard::new(Some(7.into()));
    let carrying = tokio::spawn(link.exchanges.clone().carry(frame(CALL), ear.clone()));
    ear.until(1).await;
    link.process.end(crate::ends::LADDER).await;
    assert_eq!(carrying.await.unwrap(), Err(Fault::Closed));
    assert!(tokio::task::spawn_blocking(move || was_closed.recv().unwrap()).await.unwrap());
}
