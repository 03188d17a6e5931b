//! A server as a client's bridge sees it: one that does not tell of changed lists, since the catalog hears of them for all.

use std::time::Duration;

use bytes::Bytes;
use regrow::core::Epoch;
use regrow::{FarSide, Hello, Request, Upstream, Welcome};
use regrow_protocol::frame::{Frame, RawId};
use serde_json::Value;

/// Without this, a bridge listens to the lists of a modern server for its legacy client, and so keeps the server awake.
pub(super) struct Quiet(pub(super) Box<dyn FarSide>);

impl FarSide for Quiet {
    fn greet_as(&self, hello: Hello) {
        self.0.greet_as(hello);
    }

    fn welcome(&self) -> Option<Welcome> {
        let welcome = self.0.welcome()?;
        match welcome.modern {
            true => Some(Welcome { result: without_changes(&welcome.result), ..welcome }),
            false => Some(welcome),
        }
    }

    fn is_modern(&self) -> bool {
        self.0.is_modern()
    }

    fn time_for(&self, request: &Frame) -> Option<Duration> {
        self.0.time_for(request)
    }
}

impl Upstream for Quiet {
    fn submit(&self, request: Request) {
        self.0.submit(request);
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        self.0.cancel(id, notification)
    }

    fn forward(&self, notification: &Frame) -> bool {
        self.0.forward(notification)
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        self.0.hand_over(epoch, server_id, answer)
    }
}

fn without_changes(result: &Bytes) -> Bytes {
    let Ok(mut said) = serde_json::from_slice::<Value>(result) else { return result.clone() };
    for list in ["tools", "prompts", "resources"] {
        if let Some(list) = said["capabilities"][list].as_object_mut() {
            list.remove("listChanged");
        }
    }
    said.to_string().into()
}
