//! What a server says of itself, told in the words of the other era.

use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use regrow_protocol::{meta, version};
use serde_json::{Value, json};

use super::object::Object;

/// A result of `initialize`, from a result of `server/discover`.
pub(super) fn initialized(discovered: &[u8], asked: &Frame, name: &str) -> Object {
    let discovered = Object::of(Some(discovered));
    let wanted = Object::of(asked.params()).text("protocolVersion");
    let version = wanted.filter(|version| version::LEGACY.contains(&version.as_str()));
    let mut capabilities = discovered.object("capabilities");
    capabilities.remove("extensions"); // Those of the other era.
    let mut result = Object::default();
    result.put("protocolVersion", version.as_deref().unwrap_or(version::LATEST_LEGACY));
    result.put("capabilities", capabilities);
    result.put("serverInfo", server_info(&discovered.object("_meta").value(meta::SERVER_INFO), name));
    if let Some(instructions) = discovered.raw("instructions") {
        result.put("instructions", instructions);
    }
    result
}

/// A result of `server/discover`, from a result of `initialize`.
pub(super) fn discovered(initialized: &[u8], name: &str) -> Object {
    let initialized = Object::of(Some(initialized));
    let mut capabilities = initialized.object("capabilities");
    capabilities.remove("tasks");
    let mut result = Object::default();
    result.put("resultType", "complete");
    result.put("supportedVersions", [version::MODERN]);
    result.put("capabilities", capabilities);
    if let Some(instructions) = initialized.raw("instructions") {
        result.put("instructions", instructions);
    }
    // A restarted server may be another one: it is asked every time.
    result.put("ttlMs", 0);
    result.put("cacheScope", "private");
    result.put("_meta", json!({ meta::SERVER_INFO: server_info(&initialized.value("serverInfo"), name) }));
    result
}

/// What matters of a server's welcome, in either era.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) capabilities: Object,
    pub(super) server_info: Value,
}

impl About {
    pub(super) fn read(welcome: &[u8], name: &str) -> About {
        let said = Object::of(Some(welcome));
        let info = match said.value("serverInfo") {
            Value::Null => said.object("_meta").value(meta::SERVER_INFO),
            info => info,
        };
        About { capabilities: said.object("capabilities"), server_info: server_info(&info, name) }
    }

    pub(super) fn can(&self, capability: &str) -> bool {
        self.capabilities.raw(capability).is_some()
    }

    /// The lists that it has, by the member of a filter that asks for their changes. Whether it tells of those or not: what
    /// changed with a restart is told by us.
    pub(super) fn lists(&self) -> Vec<&'static str> {
        self.lists_where(|list| self.can(list.capability()))
    }

    /// The lists of whose changes it says that it tells.
    pub(super) fn told_lists(&self) -> Vec<&'static str> {
        self.lists_where(|list| self.capabilities.value(list.capability())["listChanged"] == true)
    }

    fn lists_where(&self, is_meant: impl Fn(&List) -> bool) -> Vec<&'static str> {
        let lists = [List::Tools, List::Prompts, List::Resources];
        lists.into_iter().filter(is_meant).map(List::filter).collect()
    }

    pub(super) fn tells_of_resources(&self) -> bool {
        self.capabilities.value("resources")["subscribe"] == true
    }
}

/// Both eras require a name and a version. A server that does not say them is called what the operator calls it.
fn server_info(said: &Value, name: &str) -> Value {
    match said["name"].is_string() && said["version"].is_string() {
        true => said.clone(),
        false => json!({ "name": name, "version": "0" }),
    }
}
