//! Who decides which of a server's tools and prompts may be called.

use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;

use crate::error::Unapproved;

/// Sees what each new session of a server offers before calls go there. Nothing here may block.
pub trait Approver: Send + Sync + 'static {
    /// A new session offers this: the responses to the requests for the list, page by page. Called for tools and prompts, also where
    /// the server has none.
    fn review(&self, list: List, pages: &[Frame]);

    /// Why this request must not be sent to the newest session, if so. It is asked each time that a request is sent.
    fn refuse(&self, request: &Frame) -> Option<Unapproved>;
}
