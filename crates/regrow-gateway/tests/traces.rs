//! Spans of calls, as a collector receives them, and the trace as servers are told it.

#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use regrow::Outcome;
use regrow_gateway::operate::trace_context::TraceContext;
use regrow_gateway::operate::traces::Traces;
use regrow_gateway::stats::Ending;
use regrow_protocol::frame::{self, Frame, RawId};
use tokio::net::TcpListener;

const CLIENTS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A collector that keeps what it is sent; returns where it listens.
async fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let received = Arc::new(Mutex::new(vec![]));
    let kept = received.clone();
    let routes = Router::new().route(
        "/v1/traces",
        post(move |body: Bytes| async move { kept.lock().unwrap().extend_from_slice(&body) }),
    );
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", port.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(port, routes).await.unwrap() });
    (url, received)
}

fn call(meta: &str) -> Frame {
    let params = format!(r#"{{"name":"add","_meta":{{{meta}}}}}"#);
    Frame::parse(frame::request(&RawId::from(1), "tools/call", Some(params.as_bytes()))).unwrap()
}

fn answer() -> Outcome {
    Outcome::Answered(Frame::parse(frame::response(&RawId::from(1), b"{}")).unwrap())
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn a_call_is_a_span_of_its_clients_trace_and_the_servers_parent() {
    let (url, received) = collector().await;
    let traces = Traces::export(Some(&url)).unwrap();
    let meta = format!(r#""traceparent":"{CLIENTS}","tracestate":"a=b","baggage":"k=v""#);
    let mut request = call(&meta);
    let span = traces.begin("files", &mut request);

    let clients = CLIENTS.parse().unwrap();
    let told = TraceContext::of(&request).unwrap();
    assert_eq!((told.parent.trace, told.parent.flags), (0x4bf92f3577b34da6a3ce929d0e0e4736, 1));
    assert_ne!(told.parent, clients, "the server's parent is our span");
    assert!(has(request.meta().unwrap(), br#""tracestate":"a=b","baggage":"k=v""#));

    span.end(Ending::of(&answer()));
    drop(traces.begin("files", &mut call("")));
    traces.close().await;

    let received = received.lock().unwrap();
    assert!(has(&received, b"tools/call add") && has(&received, b"regrow.server"));
    assert!(has(&received, &told.parent.trace.to_be_bytes()));
    assert!(has(&received, &told.parent.parent.to_be_bytes()), "our span");
    assert!(has(&received, &clients.parent.to_be_bytes()), "and its parent");
    assert!(has(&received, b"cancelled"));
}

#[tokio::test]
async fn without_an_exporter_no_byte_is_touched() {
    let request = call(r#""traceparent" : "what the client wrote""#);
    let mut handed_on = request.clone();
    drop(Traces::off().begin("files", &mut handed_on));
    assert_eq!(handed_on.bytes(), request.bytes());
}

#[tokio::test]
async fn a_collector_that_is_away_holds_nothing_up() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", port.local_addr().unwrap());
    drop(port);
    let traces = Traces::export(Some(&url)).unwrap();
    traces.begin("files", &mut call("")).end(Ending::of(&answer()));
    traces.close().await;
}
