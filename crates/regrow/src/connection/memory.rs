//! What a new session must be told again, and what its client has seen of the old ones.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use regrow_protocol::method;
use serde_json::Value;

use super::era::{Agreed, EraKnowledge, Greeting};

/// A page of a list, reduced to what a comparison needs. The order of items and of members does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    items: usize,
    sum: u64,
    pub(crate) next: Option<String>,
}

impl Page {
    pub(crate) fn read(list: List, result: &[u8]) -> Option<Page> {
        Page::of(list, &serde_json::from_slice(result).ok()?)
    }

    fn of(list: List, result: &Value) -> Option<Page> {
        let items = result[list.member()].as_array()?;
        let sum = items.iter().fold(0u64, |sum, item| {
            let mut hasher = DefaultHasher::new();
            item.to_string().hash(&mut hasher); // Members are sorted: serde_json keeps objects in a BTreeMap.
            sum.wrapping_add(hasher.finish())
        });
        Some(Page { items: items.len(), sum, next: result["nextCursor"].as_str().map(str::to_owned) })
    }

    /// Whether both show the same items. Cursors are the server's own business.
    pub(crate) fn is_same(&self, other: &Page) -> bool {
        (self.items, self.sum, self.next.is_some()) == (other.items, other.sum, other.next.is_some())
    }
}

/// What a request of the client and its result tell. Read without the lock, since results may be long.
#[derive(Debug)]
pub(crate) enum Observation {
    /// The client's `initialize`, and what the server agreed to.
    Initialized(Bytes, Option<Agreed>),
    /// The `_meta` of the client's `server/discover`.
    Discovered(Option<Bytes>),
    LogLevel(Option<Bytes>),
    Subscribed(String, Bytes),
    Unsubscribed(String),
    /// A page of a list, whether it is the first, and the tools on it whose annotations say that they may be repeated.
    Listed(List, Page, bool, Vec<String>),
}

impl Observation {
    /// What is worth remembering of a request and its result.
    pub(crate) fn read(request: &Frame, result: &[u8]) -> Option<Observation> {
        let params = || request.params().map(Bytes::copy_from_slice);
        Some(match request.method()? {
            method::INITIALIZE => {
                Observation::Initialized(params().unwrap_or_default(), Agreed::read(result))
            }
            method::SERVER_DISCOVER => Observation::Discovered(request.meta().map(Bytes::copy_from_slice)),
            method::LOGGING_SET_LEVEL => Observation::LogLevel(params()),
            method::RESOURCES_SUBSCRIBE => Observation::Subscribed(request.uri()?.into_owned(), params()?),
            method::RESOURCES_UNSUBSCRIBE => Observation::Unsubscribed(request.uri()?.into_owned()),
            method => {
                let list = List::by_method(method)?;
                let result: Value = serde_json::from_slice(result).ok()?;
                let page = Page::of(list, &result)?;
                Observation::Listed(list, page, request.cursor().is_none(), hinted(&result))
            }
        })
    }
}

/// The tools whose annotations say that they may be repeated.
fn hinted(result: &Value) -> Vec<String> {
    let is_hinted = |tool: &&Value| {
        let hint = |name: &str| tool["annotations"][name] == true;
        hint("readOnlyHint") || hint("idempotentHint")
    };
    let tools = result["tools"].as_array().into_iter().flatten().filter(is_hinted);
    tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

/// What is remembered over sessions.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) era: EraKnowledge,
    log_level: Option<Bytes>,
    subscriptions: BTreeMap<String, Bytes>,
    /// What these hold together.
    subscribed_bytes: usize,
    lists: BTreeMap<List, Vec<Page>>,
    /// Tools whose annotations say that they may be repeated.
    hinted: BTreeSet<String>,
}

/// More pages than this are neither remembered nor compared.
pub(crate) const MAX_PAGES: usize = 100;
const MAX_SUBSCRIPTIONS: usize = 10_000;
const MAX_SUBSCRIBED_BYTES: usize = 16 << 20;
const MAX_HINTED: usize = 10_000;

impl Memory {
    pub(crate) fn new(greeting: Greeting) -> Memory {
        Memory {
            era: EraKnowledge::new(greeting),
            log_level: None,
            subscriptions: BTreeMap::new(),
            subscribed_bytes: 0,
            lists: BTreeMap::new(),
            hinted: BTreeSet::new(),
        }
    }

    /// Returns whether there was room to remember it.
    pub(crate) fn observe(&mut self, observation: Observation) -> bool {
        match observation {
            Observation::Initialized(params, agreed) => {
                self.era.greeting = Greeting::Legacy { params, agreed }
            }
            Observation::Discovered(meta) => self.era.observe_modern(meta.as_deref()),
            Observation::LogLevel(params) => self.log_level = params,
            Observation::Subscribed(uri, params) => {
                self.unsubscribe(&uri);
                return self.subscribe(uri, params);
            }
            Observation::Unsubscribed(uri) => self.unsubscribe(&uri),
            Observation::Listed(list, page, first, hinted) => self.see(list, page, first, hinted),
        }
        true
    }

    fn subscribe(&mut self, uri: String, params: Bytes) -> bool {
        let bytes = self.subscribed_bytes + params.len();
        let fits = self.subscriptions.len() < MAX_SUBSCRIPTIONS && bytes <= MAX_SUBSCRIBED_BYTES;
        if fits {
            self.subscribed_bytes = bytes;
            self.subscriptions.insert(uri, params);
        }
        fits
    }

    fn unsubscribe(&mut self, uri: &str) {
        if let Some(params) = self.subscriptions.remove(uri) {
            self.subscribed_bytes -= params.len();
        }
    }

    /// Whether the client wants to hear of changes of a resource.
    pub(crate) fn is_subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    fn see(&mut self, list: List, page: Page, first: bool, hinted: Vec<String>) {
        let pages = self.lists.entry(list).or_default();
        if first {
            pages.clear();
        }
        if pages.len() < MAX_PAGES {
            pages.push(page);
        }
        if list == List::Tools {
            if first {
                self.hinted.clear();
            }
            let room = MAX_HINTED - self.hinted.len();
            self.hinted.extend(hinted.into_iter().take(room));
        }
    }

    /// Whether the tool's own annotations say that it may be repeated.
    pub(crate) fn is_hinted(&self, tool: &str) -> bool {
        self.hinted.contains(tool)
    }

    /// The lists that the client has seen.
    pub(crate) fn seen(&self) -> &BTreeMap<List, Vec<Page>> {
        &self.lists
    }

    /// After the greeting, a new session is told this again.
    pub(crate) fn retell(&self) -> Vec<(&'static str, Bytes)> {
        let level = self.log_level.iter().map(|params| (method::LOGGING_SET_LEVEL, params.clone()));
        let subscriptions =
            self.subscriptions.values().map(|params| (method::RESOURCES_SUBSCRIBE, params.clone()));
        level.chain(subscriptions).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn observe(memory: &mut Memory, request: &Frame, result: &[u8]) -> bool {
        memory.observe(Observation::read(request, result).unwrap())
    }

    #[test]
    fn a_session_is_told_the_log_level_and_the_subscriptions_that_still_hold() {
        let mut memory = Memory::new(Greeting::ByClient);
        observe(
            &mut memory,
            &frame(r#"{"id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#),
            b"{}",
        );
        observe(
            &mut memory,
            &frame(r#"{"id":2,"method":"resources/subscribe","params":{"uri":"a://1"}}"#),
            b"{}",
        );
        observe(
            &mut memory,
            &frame(r#"{"id":3,"method":"resources/subscribe","params":{"uri":"a://2"}}"#),
            b"{}",
        );
        observe(
            &mut memory,
            &frame(r#"{"id":4,"method":"resources/unsubscribe","params":{"uri":"a://1"}}"#),
            b"{}",
        );
        let told: Vec<_> = memory.retell();
        assert_eq!(told[0], ("logging/setLevel", Bytes::from_static(br#"{"level":"debug"}"#)));
        assert_eq!(told[1], ("resources/subscribe", Bytes::from_static(br#"{"uri":"a://2"}"#)));
        assert_eq!(told.len(), 2);
        assert!(memory.is_subscribed());
    }

    #[test]
    fn subscriptions_are_bounded_in_bytes_and_room_comes_back() {
        let long = "x".repeat(MAX_SUBSCRIBED_BYTES / 3);
        let request = |method: &str, uri: u32| {
            frame(&format!(
                r#"{{"id":1,"method":"resources/{method}","params":{{"uri":"{uri}","pad":"{long}"}}}}"#
            ))
        };
        let mut memory = Memory::new(Greeting::ByClient);
        let remembered = [1, 2, 2, 3].map(|uri| observe(&mut memory, &request("subscribe", uri), b"{}"));
        assert_eq!(remembered, [true, true, true, false]);
        observe(&mut memory, &request("unsubscribe", 1), b"{}");
        observe(&mut memory, &request("subscribe", 3), b"{}");
        assert_eq!(memory.retell().len(), 2);
    }

    #[test]
    fn a_failed_discover_does_not_fix_the_era_and_an_answered_initialize_does() {
        let mut memory = Memory::new(Greeting::ByClient);
        let request = r#"{"id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        observe(
            &mut memory,
            &frame(request),
            br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#,
        );
        let Greeting::Legacy { agreed: Some(agreed), .. } = &memory.era.greeting else { panic!() };
        assert_eq!(agreed.version, "2025-06-18");
        assert!(agreed.capabilities.contains("tools"));
    }

    #[test]
    fn the_order_of_tools_and_of_members_is_no_change_but_a_new_tool_is() {
        let page = |text: &str| Page::read(List::Tools, text.as_bytes()).unwrap();
        let one = page(r#"{"tools":[{"name":"a","x":1},{"name":"b"}]}"#);
        assert!(one.is_same(&page(r#"{"tools":[{"name":"b"},{"x":1,"name":"a"}],"ttlMs":5}"#)));
        assert!(!one.is_same(&page(r#"{"tools":[{"name":"b"}]}"#)));
        assert!(!one.is_same(&page(r#"{"tools":[{"name":"b"},{"x":2,"name":"a"}]}"#)));
    }
}
