//! Completion of an argument of a prompt, or of a resource's template.

use std::collections::BTreeMap;
use std::sync::Arc;

use regrow::Request;
use regrow_protocol::frame::{self, Frame};
use regrow_protocol::{error_code, method};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Client;
use super::call::OnEnd;
use super::greeting::parsed;
use crate::answers;
use crate::server::Server;

impl Client {
    pub(super) fn complete(&self, request: Request) {
        let params = parsed(request.frame.params());
        let found =
            self.referred(&params["ref"]).or_else(|| Some((self.only_server()?, params["ref"].clone())));
        let Some((server, reference)) = found else {
            let text = "Invalid params: unknown name";
            return request.reply.end(answers::refusal(error_code::INVALID_PARAMS, text, None));
        };
        let frame = match reference == params["ref"] {
            true => request.frame,
            false => {
                // Only what it refers to changes; every other member stays as it was written.
                let raw = request.frame.params().unwrap_or_default();
                let mut members: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_slice(raw).unwrap_or_default();
                if let Ok(reference) = serde_json::value::to_raw_value(&reference) {
                    members.insert("ref".into(), reference);
                }
                let params = serde_json::to_vec(&members).unwrap_or_default();
                Frame::built(frame::request(&request.id, method::COMPLETION_COMPLETE, Some(&params)))
            }
        };
        self.call(&server, Request { frame, ..request }, OnEnd::Nothing);
    }

    /// The server that a reference means, and the reference as that server knows it.
    fn referred(&self, reference: &Value) -> Option<(Arc<Server>, Value)> {
        let directory = self.directory();
        let (member, at, original) = match reference["type"].as_str()? {
            "ref/prompt" => {
                let (at, original) = directory.prompt(reference["name"].as_str()?)?;
                ("name", at, original.to_owned())
            }
            "ref/resource" => {
                let (at, original) = directory.resource(reference["uri"].as_str()?).next()?;
                ("uri", at, original.into_owned())
            }
            _ => return None,
        };
        let mut known = reference.clone();
        known[member] = original.into();
        Some((self.servers.named(directory.server(at))?, known))
    }
}
