//! A message on its way to a server, with the ids that it has there.

use regrow_protocol::frame::{Edit, Frame, Kind, Parts, RawId};

/// See the head of this file.
pub struct OutgoingMessage {
    frame: Frame,
    /// Of a long one that was not copied.
    edited: Option<Box<Edited>>,
}

struct Edited {
    id: Option<RawId>,
    body: Parts,
}

impl OutgoingMessage {
    /// A message with these ids and progress tokens replaced.
    pub fn edited<const N: usize>(message: &Frame, edits: [Edit<'_>; N]) -> OutgoingMessage {
        let Some(body) = message.parts(edits) else { return message.edited(edits).into() };
        let new_id = edits.iter().find_map(|edit| match edit {
            Edit::Id(id) => Some((*id).clone()),
            _ => None,
        });
        let id = new_id.or_else(|| message.id());
        OutgoingMessage { frame: message.clone(), edited: Some(Box::new(Edited { id, body })) }
    }

    /// The message to look at. Its id and its progress token may be those that it had before.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The id of a request; none of another message.
    pub fn request_id(&self) -> Option<RawId> {
        match (self.frame.kind(), &self.edited) {
            (Kind::Request { .. }, Some(edited)) => edited.id.clone(),
            (Kind::Request { id, .. }, None) => Some(id),
            _ => None,
        }
    }

    /// What to write, without a newline at its end.
    pub fn body(&self) -> Parts {
        match &self.edited {
            Some(edited) => edited.body.clone(),
            None => self.frame.bytes().clone().into(),
        }
    }
}

impl From<Frame> for OutgoingMessage {
    fn from(frame: Frame) -> OutgoingMessage {
        OutgoingMessage { frame, edited: None }
    }
}
