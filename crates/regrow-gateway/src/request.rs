//! A request of a client on its way.

use regrow::Reply;
use regrow::frame::{Frame, RawId};

/// A request, the client's id for it, and who waits for its end.
pub(crate) struct Request {
    pub(crate) frame: Frame,
    pub(crate) id: RawId,
    pub(crate) reply: Box<dyn Reply>,
}
