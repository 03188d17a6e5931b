//! Server-sent events, cut out of a stream of bytes in bounded memory.
//!
//! Written here rather than taken from a library, since those at hand store an event however long it is, and lose
//! the id of a message that they refuse.

use std::time::Duration;

use bytes::{Buf, Bytes};

use self::building::{Building, Field, keep};
use crate::lines::Line;

mod building;
mod write;

pub use write::{COMMENT, OutgoingEvent};

/// Cuts a stream into events.
pub struct Events {
    max_data: usize,
    at: EventPosition,
    event: Building,
}

/// One event. Those without data count too: they carry ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its type, if it has one.
    pub name: Option<String>,
    /// What it says, if anything.
    pub data: Option<Line>,
    /// By what to ask for what came after it.
    pub id: Option<String>,
    /// How long to wait before asking.
    pub retry: Option<Duration>,
    /// It is not over, but was followed for too long. Nothing more can be read of its stream.
    pub endless: bool,
}

impl Event {
    /// The message in it, unless it is of another type.
    pub fn into_message(self) -> Option<Line> {
        let is_message = self.is_message();
        self.data.filter(|_| is_message)
    }

    /// Whether it is of the type that carries messages.
    pub fn is_message(&self) -> bool {
        self.name.as_deref().is_none_or(|name| matches!(name, "" | "message"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventPosition {
    /// At the very start, where a byte order mark may stand.
    Mark(usize),
    /// In a field's name.
    Name,
    /// After the colon, where one space is dropped.
    Colon(Field),
    Value(Field),
    /// After a carriage return, which a newline may follow.
    Return,
}

const MARK: &[u8] = "\u{feff}".as_bytes();

impl Events {
    /// Events whose data is at most so long.
    pub fn new(max_data: usize) -> Events {
        Events { max_data, at: EventPosition::Mark(0), event: Building::default() }
    }

    /// Reads on in `chunk` until an event is complete; takes what it has read out of the chunk.
    pub fn read(&mut self, chunk: &mut Bytes) -> Option<Event> {
        while let Some(&byte) = chunk.first() {
            match self.at {
                EventPosition::Mark(seen) if MARK.get(seen) == Some(&byte) => {
                    chunk.advance(1);
                    self.at = EventPosition::Mark(seen + 1);
                }
                EventPosition::Mark(seen) => {
                    if seen < MARK.len() {
                        self.event.name.extend_from_slice(&MARK[..seen]);
                    }
                    self.at = EventPosition::Name;
                }
                EventPosition::Return => {
                    if byte == b'\n' {
                        chunk.advance(1);
                    }
                    self.at = EventPosition::Name;
                }
                EventPosition::Colon(field) => {
                    if byte == b' ' {
                        chunk.advance(1);
                    }
                    self.at = EventPosition::Value(field);
                }
                EventPosition::Name => {
                    let end = find(chunk, |byte| matches!(byte, b':' | b'\n' | b'\r'));
                    keep(&mut self.event.name, &chunk[..end]);
                    chunk.advance(end);
                    let &stop = chunk.first()?;
                    chunk.advance(1);
                    if stop == b':' {
                        self.at = EventPosition::Colon(self.event.begin(self.max_data));
                        continue;
                    }
                    self.at = if stop == b'\r' { EventPosition::Return } else { EventPosition::Name };
                    if self.event.name.is_empty() {
                        if let Some(event) = self.event.finish() {
                            return Some(event);
                        }
                    } else {
                        let field = self.event.begin(self.max_data); // A field without a value.
                        self.event.end(field);
                        if self.event.is_endless(self.max_data) {
                            return self.cut(chunk);
                        }
                    }
                }
                EventPosition::Value(field) => {
                    let end = memchr::memchr2(b'\n', b'\r', chunk).unwrap_or(chunk.len());
                    self.event.push(field, &chunk[..end], self.max_data);
                    chunk.advance(end);
                    if self.event.is_endless(self.max_data) {
                        return self.cut(chunk);
                    }
                    let &stop = chunk.first()?;
                    chunk.advance(1);
                    self.event.end(field);
                    self.at = if stop == b'\r' { EventPosition::Return } else { EventPosition::Name };
                }
            }
        }
        None
    }

    /// How long the data of the event is that is being read.
    pub fn data_len(&self) -> usize {
        self.event.data().len()
    }

    /// That data, unless the event is of another type than a message.
    pub fn message_so_far(&self) -> Option<&[u8]> {
        self.event.is_message().then_some(self.event.data())
    }

    /// Takes that data out of the event, which ends with what comes after it.
    pub fn take_data(&mut self) -> Bytes {
        self.event.take_data()
    }

    /// Gives up on an event, and on what comes after it.
    fn cut(&mut self, chunk: &mut Bytes) -> Option<Event> {
        chunk.clear();
        self.event.finish().map(|event| Event { endless: true, ..event })
    }
}

fn find(bytes: &[u8], stop: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| stop(*byte)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::building::MAX_FIELD;
    use super::*;
    use crate::frame::random::Random;

    fn events(max_data: usize, stream: &[u8], chunk: usize) -> Vec<Event> {
        let mut reader = Events::new(max_data);
        let mut events = vec![];
        for piece in stream.chunks(chunk) {
            let mut piece = Bytes::copy_from_slice(piece);
            while !piece.is_empty() {
                events.extend(reader.read(&mut piece));
            }
        }
        events
    }

    fn data(text: &str) -> Event {
        Event { data: Some(Line::Whole(text.to_owned().into())), ..Event::default() }
    }

    #[test]
    fn events_end_at_blank_lines_however_lines_end_and_chunks_are_cut() {
        let stream = "\u{feff}: hello\n\ndata: one\n\nevent: message\r\nid: 7\r\ndata:two\r\ndata\r\ndata:  2\r\n\r\n\
                      data: three\rretry: 250\r\rid\nfoo: bar\n\ndata: lost";
        let expected = [
            data("one"),
            Event { name: Some("message".into()), id: Some("7".into()), ..data("two\n\n 2") },
            Event { retry: Some(Duration::from_millis(250)), ..data("three") },
            Event { id: Some(String::new()), ..Event::default() },
        ];
        for chunk in 1..stream.len() {
            assert_eq!(events(100, stream.as_bytes(), chunk), expected, "chunks of {chunk}");
        }
    }

    #[test]
    fn an_event_without_data_still_tells_its_id() {
        let read = events(100, b"id: 1_2\ndata: \n\nretry: x\nretry:\n\n", 7);
        assert_eq!(read[0], Event { id: Some("1_2".into()), ..Event::default() });
        assert_eq!(read[1], Event::default());
    }

    #[test]
    fn odd_ids_and_pauses_are_passed_over() {
        let long = "x".repeat(MAX_FIELD + 1);
        let stream =
            format!("id: a\0b\nid: {long}\nevent: {long}\nretry: -1\nretry: 1e18\n{long}: 1\ndata: x\n\n");
        assert_eq!(events(100, stream.as_bytes(), 50), [data("x")]);
        let read = events(100, b"retry: 99999999999999999999999\n\n", 50);
        assert_eq!(read[0].retry, Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn data_over_the_cap_is_not_stored_and_tells_whose_it_was() {
        let long = format!("data: {{\"result\":\"{}\",\ndata: \"id\":9}}\n\ndata: ok\n\n", "x".repeat(50));
        for chunk in 1..20 {
            let read = events(20, long.as_bytes(), chunk);
            let Some(Line::TooLong { bytes: 71, salvage }) = &read[0].data else { panic!("{:?}", read[0]) };
            assert_eq!((salvage.id.clone(), salvage.result), (Some(9.into()), true));
            assert_eq!(read[1..], [data("ok")]);
        }
    }

    #[test]
    fn long_data_can_be_taken_out_while_it_comes() {
        let stream = "data: one two\nevent: message\ndata: three\n\ndata: next\n\n";
        for chunk in 1..stream.len() {
            let mut reader = Events::new(100);
            let (mut taken, mut read) = (vec![], vec![]);
            for piece in stream.as_bytes().chunks(chunk) {
                let mut piece = Bytes::copy_from_slice(piece);
                while !piece.is_empty() {
                    read.extend(reader.read(&mut piece));
                    if read.is_empty() && reader.data_len() > 4 {
                        assert_eq!(reader.message_so_far().map(<[u8]>::len), Some(reader.data_len()));
                        taken.extend_from_slice(&reader.take_data());
                    }
                }
            }
            if let Some(Line::Whole(rest)) = &read[0].data {
                taken.extend_from_slice(rest);
            }
            assert_eq!(String::from_utf8_lossy(&taken), "one two\nthree", "chunks of {chunk}");
            assert_eq!((read[0].is_message(), &read[1..]), (true, &[data("next")][..]));
        }
        let mut other = Events::new(100);
        assert_eq!(other.read(&mut Bytes::from_static(b"event: other\ndata: not a message")), None);
        assert_eq!(other.message_so_far(), None);
    }

    #[test]
    fn an_endless_event_is_cut() {
        let stream = format!("data: {{\"id\":4,\"result\":\"{}", "x".repeat(2_000));
        let read = events(100, stream.as_bytes(), 64);
        assert!(read[0].endless);
        let Some(Line::TooLong { salvage, .. }) = &read[0].data else { panic!("{:?}", read[0]) };
        assert_eq!(salvage.id, Some(4.into()));
    }

    #[test]
    fn lines_without_end_are_cut_too() {
        for line in ["data\n", "data:\n", "data: x\n"] {
            let mut reader = Events::new(100);
            let mut lines = Bytes::from(line.repeat(5_000));
            assert!(reader.read(&mut lines).is_some_and(|event| event.endless), "{line:?}");
        }
    }

    #[test]
    fn it_does_not_matter_how_a_stream_is_cut() {
        for seed in 0..2_000 {
            let random = &mut Random::new(seed);
            let mut stream = Vec::new();
            for _ in 0..random.below(30) {
                let piece = random.pick(&[
                    "data",
                    "id",
                    "event",
                    "retry",
                    ":",
                    ": ",
                    " ",
                    "12",
                    "\n",
                    "\r",
                    "\r\n",
                    "\n\n",
                    "\u{feff}",
                    "{\"id\":1}",
                    "x",
                ]);
                stream.extend_from_slice(piece.as_bytes());
            }
            let whole = events(8, &stream, usize::MAX);
            let chunk = 1 + random.below(5);
            assert_eq!(events(8, &stream, chunk), whole, "seed {seed}");
        }
    }
}
