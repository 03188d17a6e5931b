//! Server-sent events, as they are written.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

/// Keeps a silent stream alive; readers ignore it.
pub const COMMENT: &[u8] = b":\n\n";

/// An event to write. No part of it may contain a line break.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutgoingEvent<'a> {
    /// With which the client can resume the stream after this event.
    pub id: Option<&'a str>,
    /// Its type.
    pub name: Option<&'a str>,
    /// How soon the client shall reconnect when the stream breaks.
    pub retry: Option<Duration>,
    /// What it says. An event without data carries only its id and retry time.
    pub data: Option<&'a [u8]>,
}

impl OutgoingEvent<'_> {
    /// The event as it goes into the stream.
    pub fn to_bytes(self) -> Bytes {
        let sizes = [self.data.map_or(0, <[u8]>::len), self.id.map_or(0, str::len), 64];
        let mut event = BytesMut::with_capacity(sizes.iter().sum());
        let mut field = |name: &[u8], value: &[u8]| {
            event.put_slice(name);
            event.put_slice(value);
            event.put_u8(b'\n');
        };
        if let Some(id) = self.id {
            field(b"id: ", id.as_bytes());
        }
        if let Some(name) = self.name {
            field(b"event: ", name.as_bytes());
        }
        if let Some(retry) = self.retry {
            field(b"retry: ", retry.as_millis().to_string().as_bytes());
        }
        if let Some(data) = self.data {
            field(b"data: ", data);
        }
        event.put_u8(b'\n');
        event.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Events};
    use super::*;
    use crate::lines::Line;

    #[test]
    fn what_is_written_is_read_back() {
        let event = OutgoingEvent {
            id: Some("3-7"),
            name: Some("message"),
            retry: Some(Duration::from_secs(1)),
            data: Some(b"{}"),
        };
        assert_eq!(event.to_bytes(), "id: 3-7\nevent: message\nretry: 1000\ndata: {}\n\n");
        let mut stream =
            Bytes::from([COMMENT, &event.to_bytes(), &OutgoingEvent::default().to_bytes()].concat());
        let read = Events::new(100).read(&mut stream);
        let expected = Event {
            id: Some("3-7".into()),
            name: Some("message".into()),
            retry: Some(Duration::from_secs(1)),
            data: Some(Line::Whole("{}".into())),
            endless: false,
        };
        assert_eq!(read, Some(expected));
        assert_eq!(Events::new(100).read(&mut stream), None);
    }
}
