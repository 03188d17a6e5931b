//! Server-sent events: however a stream is cut, the events are the same.

use bytes::Bytes;
use regrow_protocol::events::Events;

use crate::pieces::cuts;

const MAX_DATA: usize = 64;

pub(super) fn run(input: &[u8]) {
    let whole = events(MAX_DATA, [Bytes::copy_from_slice(input)]);
    for pieces in cuts(input) {
        let cut = events(MAX_DATA, pieces.iter().map(|piece| Bytes::copy_from_slice(piece)));
        assert_eq!(cut, whole, "cut into {} pieces", pieces.len());
    }
}

/// The events of a stream that comes in these pieces, each as a text.
fn events(max_data: usize, pieces: impl IntoIterator<Item = Bytes>) -> Vec<String> {
    let mut reader = Events::new(max_data);
    let mut events = vec![];
    for mut piece in pieces {
        while !piece.is_empty() {
            match reader.read(&mut piece) {
                // Nothing more is read of such a stream; how much was depends on how it came.
                Some(event) if event.endless => {
                    events.push("endless".into());
                    return events;
                }
                event => events.extend(event.map(|event| format!("{event:?}"))),
            }
        }
    }
    events
}
