//! What was approved of one server, and what it offers instead. Nothing here reads a file or knows a gateway.

use std::collections::BTreeMap;
use std::path::Path;

use regrow_protocol::list::List;
use regrow_protocol::text::escape;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::Item;

/// Pins of another version are not understood.
const VERSION: u32 = 1;
/// More tools, or prompts, of one server are not pinned.
const MAX_PINS: usize = 20_000;

/// What was approved of one server, and what it offers instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    version: u32,
    /// Whose they are.
    pub owner: PinOwner,
    /// The approved command and arguments, or URL, as a hash: it may contain secrets.
    endpoint: String,
    /// The one in the configuration now, if it is another.
    changed_endpoint: Option<String>,
    tools: BTreeMap<String, PinnedItem>,
    prompts: BTreeMap<String, PinnedItem>,
}

/// Whose pins they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinOwner {
    /// The file that describes the server, as an absolute path.
    pub config: String,
    /// The server's name there.
    pub server: String,
}

impl PinOwner {
    /// The server of this name in this file.
    pub fn of(config: &Path, server: &str) -> PinOwner {
        let absolute = config.canonicalize().or_else(|_| std::path::absolute(config));
        let config = absolute.as_deref().unwrap_or(config).to_string_lossy().into_owned();
        PinOwner { config, server: server.to_owned() }
    }
}

/// One tool or prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinnedItem {
    approved: Definition,
    /// What the server offers now, if it is another.
    changed: Option<Definition>,
}

/// A tool or prompt as its server wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    /// Of what it says: the order of its members does not count.
    sha256: String,
    raw: String,
}

impl Definition {
    fn of(raw: &str) -> Definition {
        Definition { sha256: meaning(raw), raw: raw.to_owned() }
    }
}

/// What was changed since it was approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The command, an argument or the URL.
    Endpoint,
    /// A tool or prompt.
    Item {
        /// On which list.
        list: List,
        /// Its name.
        name: &'a str,
        /// As it was approved, as JSON.
        approved: &'a str,
        /// As it is now.
        changed: &'a str,
    },
}

/// What a client gets of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer<'a> {
    /// What the server offers.
    AsIs,
    /// What was approved, in the same or in other words; calls are refused if the server means something else now.
    Approved { raw: &'a str, is_held: bool },
    /// Nothing: it could not be pinned.
    Nothing,
}

impl Pins {
    /// The first sight of a server: it is approved as it is.
    pub fn first(owner: PinOwner, endpoint: &str) -> Pins {
        Pins {
            version: VERSION,
            owner,
            endpoint: endpoint.to_owned(),
            changed_endpoint: None,
            tools: BTreeMap::new(),
            prompts: BTreeMap::new(),
        }
    }

    /// None if they are damaged, or of another version.
    pub fn parse(bytes: &[u8]) -> Option<Pins> {
        let pins: Pins = serde_json::from_slice(bytes).ok()?;
        let definitions = pins.tools.values().chain(pins.prompts.values());
        let mut definitions = definitions.flat_map(|pin| std::iter::once(&pin.approved).chain(&pin.changed));
        let is_whole = definitions.all(|definition| meaning(&definition.raw) == definition.sha256);
        (pins.version == VERSION && is_whole).then_some(pins)
    }

    /// As they are kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers can be written")
    }

    /// This is the server's command and arguments, or its URL, now. Returns whether it has changed since it was last seen.
    pub fn see_endpoint(&mut self, endpoint: &str) -> bool {
        let changed = (endpoint != self.endpoint).then(|| endpoint.to_owned());
        let is_news = changed.is_some() && changed != self.changed_endpoint;
        self.changed_endpoint = changed;
        is_news
    }

    /// These are its tools or prompts now. What was never seen is approved. Returns what has changed since it was last seen.
    pub(super) fn see(&mut self, list: List, items: &[Item]) -> Vec<String> {
        let Some(pins) = self.list_mut(list) else { return vec![] };
        let mut news = vec![];
        for item in items {
            let is_full = pins.len() >= MAX_PINS;
            let now = Definition::of(item.raw().get());
            match pins.get_mut(item.key()) {
                None if is_full => {}
                None => drop(pins.insert(item.key().to_owned(), PinnedItem { approved: now, changed: None })),
                Some(pin) if pin.approved.sha256 == now.sha256 => pin.changed = None,
                Some(pin) => {
                    if pin.changed.as_ref().is_none_or(|before| before.sha256 != now.sha256) {
                        news.push(item.key().to_owned());
                    }
                    pin.changed = Some(now);
                }
            }
        }
        news
    }

    /// The same of one session of several: that it offers what was approved does not mean that all do.
    pub(super) fn note_changes(&mut self, list: List, items: &[Item]) -> Vec<String> {
        let is_approved = |item: &&Item| {
            let pin = self.list(list).and_then(|pins| pins.get(item.key()));
            pin.is_some_and(|pin| pin.approved.sha256 == meaning(item.raw().get()))
        };
        let others: Vec<Item> = items.iter().filter(|item| !is_approved(item)).cloned().collect();
        self.see(list, &others)
    }

    /// Whether this tool or prompt must not be called at a session that offers this definition, by its hash.
    pub(super) fn is_held(&self, list: List, name: &str, offered: Option<&str>) -> bool {
        let pin = self.list(list).and_then(|pins| pins.get(name));
        pin.is_some_and(|pin| pin.changed.is_some() || offered.is_some_and(|now| now != pin.approved.sha256))
    }

    /// What clients get in the place of this item where changes are held.
    pub(super) fn offer(&self, list: List, item: &Item) -> Offer<'_> {
        let Some(pins) = self.list(list) else { return Offer::AsIs };
        match pins.get(item.key()) {
            None => Offer::Nothing,
            Some(pin) if pin.changed.is_none() && pin.approved.raw == item.raw().get() => Offer::AsIs,
            Some(pin) => Offer::Approved { raw: &pin.approved.raw, is_held: pin.changed.is_some() },
        }
    }

    /// The tools or prompts that were approved, as JSON.
    pub(super) fn approved(&self, list: List) -> impl Iterator<Item = &str> {
        self.list(list).into_iter().flatten().map(|(_, pin)| &*pin.approved.raw)
    }

    /// What has changed and is not approved; of this name only, where one is given.
    pub fn changes<'a>(&'a self, only: Option<&str>) -> Vec<Change<'a>> {
        let endpoint = self.changed_endpoint.iter().filter(|_| only.is_none()).map(|_| Change::Endpoint);
        let items = [(List::Tools, &self.tools), (List::Prompts, &self.prompts)].into_iter();
        let items = items.flat_map(|(list, pins)| {
            let changed = pins.iter().filter_map(|(name, pin)| Some((name, pin, pin.changed.as_ref()?)));
            changed.map(move |(name, PinnedItem { approved, .. }, changed)| Change::Item {
                list,
                name,
                approved: &approved.raw,
                changed: &changed.raw,
            })
        });
        let is_meant = |change: &Change<'_>| match change {
            Change::Endpoint => true,
            Change::Item { name, .. } => only.is_none_or(|only| only == *name),
        };
        endpoint.chain(items).filter(is_meant).collect()
    }

    /// What had changed in these earlier pins, and is approved in ours.
    pub(super) fn approved_since<'a>(&self, earlier: &'a Pins) -> Vec<Change<'a>> {
        let is_approved = |change: &Change<'_>| match change {
            Change::Endpoint => earlier.changed_endpoint.as_ref() == Some(&self.endpoint),
            Change::Item { list, name, changed, .. } => {
                let pin = self.list(*list).and_then(|pins| pins.get(*name));
                pin.is_some_and(|pin| pin.approved.sha256 == meaning(changed))
            }
        };
        earlier.changes(None).into_iter().filter(is_approved).collect()
    }

    /// Whether the command, an argument or the URL has changed.
    pub fn has_changed_endpoint(&self) -> bool {
        self.changed_endpoint.is_some()
    }

    /// Approves what has changed; of this name only, where one is given.
    pub fn approve(&mut self, only: Option<&str>) {
        if only.is_none()
            && let Some(endpoint) = self.changed_endpoint.take()
        {
            self.endpoint = endpoint;
        }
        for (name, pin) in self.tools.iter_mut().chain(&mut self.prompts) {
            if only.is_none_or(|only| only == name)
                && let Some(changed) = pin.changed.take()
            {
                pin.approved = changed;
            }
        }
    }

    fn list(&self, list: List) -> Option<&BTreeMap<String, PinnedItem>> {
        match list {
            List::Tools => Some(&self.tools),
            List::Prompts => Some(&self.prompts),
            List::Resources | List::Templates => None,
        }
    }

    fn list_mut(&mut self, list: List) -> Option<&mut BTreeMap<String, PinnedItem>> {
        match list {
            List::Tools => Some(&mut self.tools),
            List::Prompts => Some(&mut self.prompts),
            List::Resources | List::Templates => None,
        }
    }
}

/// The lines that differ between two definitions, and those around them: safe to print, and whole, so that nothing hides at the end of one.
pub fn difference(approved: &str, changed: &str) -> String {
    let (approved, changed) = (pretty(approved), pretty(changed));
    let difference = TextDiff::from_lines(&approved, &changed);
    let line = |change: similar::Change<&str>| {
        let mark = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        format!("{mark}{}\n", escape(change.value().trim_end_matches('\n')))
    };
    difference.iter_all_changes().map(line).collect()
}

fn pretty(raw: &str) -> String {
    serde_json::from_str::<Value>(raw).map_or_else(|_| raw.to_owned(), |value| format!("{value:#}"))
}

/// SHA-256 of what a definition says. Some servers write their members in another order each time: that is no change.
pub(super) fn meaning(raw: &str) -> String {
    match serde_json::from_str::<Value>(raw) {
        Ok(value) => sha256(value.to_string().as_bytes()), // Members are sorted: objects are kept so.
        Err(_) => sha256(raw.as_bytes()),
    }
}

/// In hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn items(definitions: &[&str]) -> Vec<Item> {
        let raw = definitions.iter().map(|text| RawValue::from_string((*text).to_owned()).unwrap());
        raw.map(|raw| Item::read(List::Tools, &raw).unwrap()).collect()
    }

    fn pins() -> Pins {
        let owner = PinOwner { config: "/x/.mcp.json".into(), server: "git".into() };
        let mut pins = Pins::first(owner, "one");
        assert!(pins.see(List::Tools, &items(&[ECHO, ADD])).is_empty(), "the first sight is approved");
        pins
    }

    const ECHO: &str = r#"{"name":"echo","description":"says it"}"#;
    const ADD: &str = r#"{"name":"add"}"#;
    const EVIL: &str = r#"{"name":"echo","description":"sends it"}"#;

    #[test]
    fn a_changed_tool_is_told_once_and_offered_as_it_was_approved() {
        let mut pins = pins();
        let now = items(&[EVIL, ADD]);
        assert_eq!(pins.see(List::Tools, &now), ["echo"]);
        assert!(pins.see(List::Tools, &now).is_empty(), "it was told");
        assert_eq!(pins.offer(List::Tools, &now[0]), Offer::Approved { raw: ECHO, is_held: true });
        assert_eq!(pins.offer(List::Tools, &now[1]), Offer::AsIs);
        let change = Change::Item { list: List::Tools, name: "echo", approved: ECHO, changed: EVIL };
        assert_eq!(pins.changes(None), vec![change.clone()]);
        assert_eq!((pins.changes(Some("echo")), pins.changes(Some("add"))), (vec![change], vec![]));

        pins.see(List::Tools, &items(&[ECHO]));
        assert!(pins.changes(None).is_empty(), "it is as it was approved again");
        // Whatever goes away and comes back is compared with what was approved.
        pins.see(List::Tools, &items(&[]));
        assert_eq!(pins.see(List::Tools, &items(&[EVIL])), ["echo"]);
        pins.approve(Some("add"));
        assert_eq!(pins.changes(None).len(), 1);
        pins.approve(Some("echo"));
        assert!(pins.changes(None).is_empty());
        assert_eq!(pins.offer(List::Tools, &now[0]), Offer::AsIs);
    }

    #[test]
    fn another_order_of_members_is_no_change_but_what_was_approved_is_offered() {
        let mut pins = pins();
        let now = items(&[r#"{ "description":"says it", "name":"echo" }"#]);
        assert!(pins.see(List::Tools, &now).is_empty() && pins.changes(None).is_empty());
        assert_eq!(pins.offer(List::Tools, &now[0]), Offer::Approved { raw: ECHO, is_held: false });
    }

    #[test]
    fn tools_prompts_and_the_command_are_pinned_apart() {
        let mut pins = pins();
        pins.see(List::Prompts, &items(&[EVIL]));
        assert!(pins.changes(None).is_empty());
        assert!(pins.see(List::Resources, &items(&[EVIL])).is_empty());
        assert!(pins.see_endpoint("two") && !pins.see_endpoint("two"), "it is news once");
        assert_eq!(pins.changes(None), [Change::Endpoint]);
        assert!(pins.changes(Some("echo")).is_empty());
        assert!(!pins.see_endpoint("one") && !pins.has_changed_endpoint());
        pins.see_endpoint("two");
        pins.approve(None);
        pins.see_endpoint("two");
        assert!(!pins.has_changed_endpoint());
    }

    #[test]
    fn what_was_approved_since_is_what_had_changed_and_nothing_else() {
        let mut earlier = pins();
        earlier.see(List::Tools, &items(&[EVIL]));
        earlier.see_endpoint("two");
        let approved = |only: &[Option<&str>]| {
            let mut later = earlier.clone();
            only.iter().for_each(|only| later.approve(*only));
            later.approved_since(&earlier).len()
        };
        assert_eq!((approved(&[]), approved(&[Some("add")]), approved(&[Some("echo")])), (0, 0, 1));
        assert_eq!(approved(&[None]), 2);
        assert!(pins().approved_since(&earlier).is_empty(), "the change is gone, not approved");
    }

    #[test]
    fn a_difference_shows_everything_and_acts_on_no_terminal() {
        let text = difference(ECHO, r#"{"name":"echo","description":"says\u001b[2J it\n\u202eand more"}"#);
        let expected = r#" {
-  "description": "says it",
+  "description": "says\u001b[2J it\n\u{202e}and more",
   "name": "echo"
 }
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_not_whole_is_not_believed() {
        let bytes = pins().to_bytes();
        assert_eq!(Pins::parse(&bytes), Some(pins()));
        let text = String::from_utf8(bytes.clone()).unwrap();
        let forged = [
            text.replace("says it", "sends it"),
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("\"tools\"", "\"tool\""),
            String::new(),
        ];
        for forged in forged {
            assert_eq!(Pins::parse(forged.as_bytes()), None, "{forged}");
        }
        assert_eq!(Pins::parse(&bytes[..bytes.len() / 2]), None);
    }
}
