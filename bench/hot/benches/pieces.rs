//! What is counted: each piece does its work a number of times.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use regrow_core::{Admission, Epoch, Ledger, Nature, Policy, Time};
use regrow_protocol::frame::{Edit, Frame, RawId};
use regrow_protocol::lines::LineReader;

use crate::memory;

pub(crate) struct Piece {
    pub(crate) name: &'static str,
    /// How often it is done, so that counting takes about a second.
    pub(crate) times: usize,
    pub(crate) run: fn(usize),
}

pub(crate) const PIECES: [Piece; 16] = [
    Piece { name: "lines: cut one of 230 bytes", times: 2000, run: cut_lines },
    Piece { name: "frame: parse a request of 100 bytes of text", times: 1000, run: parse_request },
    Piece { name: "frame: parse a response of 100 bytes of text", times: 1000, run: parse_response },
    Piece { name: "frame: parse a response of 100 kB of text", times: 10, run: parse_large_response },
    Piece { name: "frame: parse a response of 100 kB of text with escapes", times: 10, run: parse_escapes },
    Piece { name: "frame: parse a response of 100 kB of Greek with escapes", times: 10, run: parse_greek },
    Piece { name: "frame: parse a modern request with its _meta", times: 1000, run: parse_modern_request },
    Piece { name: "strict: 16 members of other names in params", times: 500, run: check_names },
    Piece { name: "strict: 16 members of names that are not ASCII", times: 200, run: check_unusual_names },
    Piece { name: "id: splice into a line of 230 bytes", times: 2000, run: splice_line },
    Piece { name: "id: splice into a frame and keep its members", times: 2000, run: splice_frame },
    Piece { name: "ledger: enter and leave, 1 in flight", times: 2000, run: |times| ledger(times, 1) },
    Piece { name: "ledger: enter and leave, 1,000 in flight", times: 2000, run: |times| ledger(times, 1000) },
    Piece { name: "call in memory without Regrow, 1 in flight", times: 500, run: memory::direct },
    Piece {
        name: "call in memory through relay(), 1 in flight",
        times: 300,
        run: |times| memory::relayed(times, 1),
    },
    Piece {
        name: "call in memory through relay(), 16 in flight",
        times: 20,
        run: |times| memory::relayed(times, 16),
    },
];

fn cut_lines(times: usize) {
    let line = format!("{}\n", request(""));
    let mut reader = LineReader::new(1 << 20);
    for _ in 0..times {
        reader.space().put_slice(line.as_bytes());
        assert!(black_box(reader.next_line()).is_some());
    }
}

pub(crate) fn parse_request(times: usize) {
    parse(times, request(""));
}

fn parse_response(times: usize) {
    parse(times, memory::response("17", &"x".repeat(100)));
}

fn parse_large_response(times: usize) {
    parse(times, memory::response("17", &"x".repeat(100_000)));
}

fn parse_escapes(times: usize) {
    let line = r#"The quick brown fox says \"hello\" and jumps over the lazy dog.\n"#;
    parse(times, memory::response("17", &line.repeat(100_000 / line.len())));
}

fn parse_greek(times: usize) {
    let line = r#"Η γρήγορη αλεπού λέει \"γεια\" και πηδά πάνω από τον σκύλο.\n"#;
    parse(times, memory::response("17", &line.repeat(100_000 / line.len())));
}

fn parse_modern_request(times: usize) {
    let meta = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"hot","version":"1"}}"#;
    parse(times, request(meta));
}

fn check_names(times: usize) {
    let members: String = (0..16).map(|n| format!(r#","member-{n}":1"#)).collect();
    parse(times, request(&members));
}

fn check_unusual_names(times: usize) {
    let members: String = (0..16).map(|n| format!(r#","größe-{n}":1"#)).collect();
    parse(times, request(&members));
}

fn parse(times: usize, message: String) {
    let message = Bytes::from(message);
    for _ in 0..times {
        assert!(black_box(Frame::parse(black_box(message.clone()))).is_ok());
    }
}

fn splice_line(times: usize) {
    let (frame, id) = frame_and_id();
    for _ in 0..times {
        black_box(frame.with_id(black_box(&id)));
    }
}

fn splice_frame(times: usize) {
    let (frame, id) = frame_and_id();
    for _ in 0..times {
        black_box(frame.edited([Edit::Id(black_box(&id))]));
    }
}

fn frame_and_id() -> (Frame, RawId) {
    let id = RawId::parse(b"123456").expect("a number");
    (Frame::parse(request("").into()).expect("a request"), id)
}

fn ledger(times: usize, in_flight: usize) {
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    let (epoch, now) = (Epoch(1), Time::ZERO);
    assert!(ledger.open(epoch));
    let enter = |ledger: &mut Ledger<usize>, reply| {
        let admitted =
            ledger.admit(now, Duration::ZERO, Nature::Effect, Some(Duration::from_secs(300)), 230, reply);
        let Ok(Admission::Send(_, id)) = admitted else { panic!("a session takes calls") };
        ledger.sent(id, 0);
        id
    };
    let mut calls: Vec<_> = (1..in_flight).map(|reply| enter(&mut ledger, reply)).collect();
    calls.reserve(1);
    for turn in 0..times {
        calls.push(enter(&mut ledger, turn));
        let id = calls.swap_remove(turn % calls.len());
        assert!(black_box(ledger.answer(epoch, id, true)).is_some());
    }
}

/// A call with 100 bytes of text, and more members of its params.
fn request(more: &str) -> String {
    memory::request(17, more)
}
