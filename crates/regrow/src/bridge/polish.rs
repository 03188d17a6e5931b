//! What the modern era requires in a result, added to that of a legacy server.

use std::sync::Arc;

use regrow_protocol::{meta, method};

use super::object::Object;
use super::welcome::About;
use super::words;
use crate::call::Outcome;

/// What the modern era requires in a result.
pub(super) struct Polish {
    is_cached: bool,
    about: Arc<About>,
}

impl Polish {
    /// For a result of this method, of a server that said this about itself.
    pub(super) fn new(method: &str, about: Arc<About>) -> Polish {
        let is_cached = matches!(
            method,
            method::TOOLS_LIST
                | method::PROMPTS_LIST
                | method::RESOURCES_LIST
                | method::RESOURCES_TEMPLATES_LIST
                | method::RESOURCES_READ
        );
        Polish { is_cached, about }
    }

    pub(super) fn apply(&self, outcome: Outcome) -> Outcome {
        let Outcome::Answered(frame) = &outcome else { return outcome };
        let Some(mut result) = frame.result().and_then(Object::read) else { return outcome };
        result.put_if_absent("resultType", "complete");
        if self.is_cached {
            // How long it stays true, only the server knows.
            result.put_if_absent("ttlMs", 0);
            result.put_if_absent("cacheScope", "private");
        }
        let mut meta = result.object("_meta");
        meta.put_if_absent(meta::SERVER_INFO, &self.about.server_info);
        result.put("_meta", meta);
        words::answer(&result.bytes())
    }
}
