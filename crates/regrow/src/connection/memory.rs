//! What a new session must be told again, and what its client has seen of the old ones.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::version::Era;
use regrow_protocol::{meta, method, version};
use serde_json::{Map, Value, json};

use crate::upstream::{Hello, Welcome};

/// How sessions of a connection are greeted.
#[derive(Clone, Debug)]
pub(crate) enum Greeting {
    /// The client greets the first session itself, and we learn from it.
    ByClient,
    /// We greet, and must find out the server's era first.
    Unknown(Hello),
    /// We have asked the server for its era, and not heard yet: a server that died of it is a legacy one.
    Asked(Hello),
    /// The legacy handshake, with these parameters.
    Legacy {
        params: Bytes,
        /// What the server agreed to; none before the first handshake.
        agreed: Option<Agreed>,
    },
    /// No handshake; requests carry this `_meta`.
    Modern { meta: Bytes },
}

impl Greeting {
    pub(crate) fn legacy(hello: &Hello) -> Greeting {
        let params = json!({
            "protocolVersion": hello.legacy_version.as_deref().unwrap_or(version::LATEST_LEGACY),
            "capabilities": hello.capabilities,
            "clientInfo": hello.client_info,
        });
        Greeting::Legacy { params: params.to_string().into(), agreed: None }
    }

    pub(crate) fn modern(hello: &Hello) -> Greeting {
        Greeting::Modern { meta: Greeting::envelope(hello) }
    }

    /// The `_meta` of every request of this client in the modern era.
    pub(crate) fn envelope(hello: &Hello) -> Bytes {
        let meta = json!({
            meta::PROTOCOL_VERSION: version::MODERN,
            meta::CLIENT_CAPABILITIES: hello.capabilities,
            meta::CLIENT_INFO: hello.client_info,
        });
        meta.to_string().into()
    }
}

/// The outcome of a legacy handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) version: String,
    pub(crate) capabilities: BTreeSet<String>,
}

impl Agreed {
    /// From the `result` of `initialize`.
    pub(crate) fn read(result: &[u8]) -> Option<Agreed> {
        let result: Value = serde_json::from_slice(result).ok()?;
        let version = result["protocolVersion"].as_str()?.to_owned();
        let capabilities = result["capabilities"].as_object().map(|c| c.keys().cloned().collect());
        Some(Agreed { version, capabilities: capabilities.unwrap_or_default() })
    }

    /// The client's parameters of `initialize`, with the version that its session runs on.
    pub(crate) fn offer(&self, params: &[u8]) -> Option<Bytes> {
        let mut params: Value = serde_json::from_slice(params).ok()?;
        *params.get_mut("protocolVersion")? = self.version.clone().into();
        Some(params.to_string().into())
    }
}

/// A page of a list, reduced to what a comparison needs. The order of items and of members does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    items: usize,
    sum: u64,
    pub(crate) next: Option<String>,
}

impl Page {
    pub(crate) fn read(list: List, result: &[u8]) -> Option<Page> {
        let result: Value = serde_json::from_slice(result).ok()?;
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

/// Whether an era was tried before the server was asked for its own.
#[derive(Debug)]
enum Guess {
    Untried,
    /// By this one.
    Tried(Hello),
    Over,
}

/// What the legacy era of a server rests on, where the server has not said so itself.
#[derive(Debug)]
enum Assumed {
    /// Nothing: the era is known, or was not asked for yet.
    No,
    /// The server exited when it was asked for its era, or was silent.
    Legacy {
        hello: Hello,
        was_silent: bool,
        /// How many legacy handshakes were tried since.
        tries: u8,
    },
    /// It shook hands as a legacy server, but never said that it is one.
    Provisional,
}

/// A server that fails this many legacy handshakes is asked for its era again.
const ASSUMED_TRIES: u8 = 2;

/// What is remembered over sessions.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) greeting: Greeting,
    /// What the server said when we last greeted it ourselves.
    pub(crate) welcome: Option<Welcome>,
    guess: Guess,
    assumed: Assumed,
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
            greeting,
            welcome: None,
            guess: Guess::Untried,
            assumed: Assumed::No,
            log_level: None,
            subscriptions: BTreeMap::new(),
            subscribed_bytes: 0,
            lists: BTreeMap::new(),
            hinted: BTreeSet::new(),
        }
    }

    /// Somebody else greets the first session.
    pub(crate) fn greet_as(&mut self, hello: Hello) {
        if let Guess::Tried(guessed) = &mut self.guess {
            *guessed = hello.clone();
        }
        if let Assumed::Legacy { hello: assumed, .. } = &mut self.assumed {
            *assumed = hello.clone();
        }
        self.greeting = match &self.greeting {
            Greeting::Unknown(_) => Greeting::Unknown(hello),
            Greeting::Asked(_) => Greeting::Asked(hello),
            Greeting::Legacy { agreed: None, .. } => Greeting::legacy(&hello),
            Greeting::Modern { .. } if self.welcome.is_none() => Greeting::modern(&hello),
            known => known.clone(),
        };
    }

    /// Who greets, where an era may still be guessed.
    pub(crate) fn unguessed(&self) -> Option<Hello> {
        match (&self.greeting, &self.guess) {
            (Greeting::Unknown(hello), Guess::Untried) => Some(hello.clone()),
            _ => None,
        }
    }

    /// Tries this era before the server is asked for its own, once.
    pub(crate) fn guess(&mut self, era: Era) {
        let Some(hello) = self.unguessed() else { return };
        self.greeting = match era {
            Era::Auto => return,
            Era::Legacy => Greeting::legacy(&hello),
            Era::Modern => Greeting::modern(&hello),
        };
        self.guess = Guess::Tried(hello);
    }

    /// Whether the era that is tried was not found out, but guessed.
    pub(crate) fn is_guess(&self) -> bool {
        matches!(self.guess, Guess::Tried(_))
    }

    /// The guess was wrong: the server is asked. Gives who greets.
    pub(crate) fn take_back_guess(&mut self) -> Option<Hello> {
        let Guess::Tried(hello) = std::mem::replace(&mut self.guess, Guess::Over) else { return None };
        self.greeting = Greeting::Unknown(hello.clone());
        Some(hello)
    }

    /// What was found out is wrong: the server is asked again. A guess is taken back by itself.
    pub(crate) fn ask_again(&mut self, hello: Hello) {
        if !self.is_guess() {
            self.guess = Guess::Over;
            self.assumed = Assumed::No;
            self.greeting = Greeting::Unknown(hello);
        }
    }

    /// The server exited when it was asked for its era, or was silent: it is greeted as a legacy one, until it says otherwise.
    pub(crate) fn assume_legacy(&mut self, hello: Hello, was_silent: bool) {
        self.greeting = Greeting::legacy(&hello);
        self.assumed = Assumed::Legacy { hello, was_silent, tries: 0 };
    }

    /// Before an attempt: a server that keeps failing the legacy handshake is asked for its era again. It may fail for
    /// another reason than the question.
    pub(crate) fn count_try(&mut self) {
        let Assumed::Legacy { hello, tries, .. } = &mut self.assumed else { return };
        *tries += 1;
        if *tries > ASSUMED_TRIES {
            self.greeting = Greeting::Unknown(hello.clone());
            self.assumed = Assumed::No;
        }
    }

    /// The server has shaken hands as a legacy one. Gives who greets, if that is to be verified.
    pub(crate) fn take_assumed(&mut self) -> Option<Hello> {
        match std::mem::replace(&mut self.assumed, Assumed::No) {
            Assumed::Legacy { hello, was_silent: true, .. } => Some(hello),
            Assumed::Provisional => {
                self.assumed = Assumed::Provisional;
                None
            }
            Assumed::Legacy { .. } | Assumed::No => None,
        }
    }

    /// The server was silent again.
    pub(crate) fn stay_provisional(&mut self) {
        self.assumed = Assumed::Provisional;
    }

    /// Whether the era of the server is served, but not known.
    pub(crate) fn is_provisional(&self) -> bool {
        matches!(self.assumed, Assumed::Provisional)
    }

    /// The server has said that it is a modern one, before anybody relied on anything else.
    pub(crate) fn become_modern(&mut self, hello: &Hello) {
        self.greeting = Greeting::modern(&hello);
        self.assumed = Assumed::No;
        self.welcome = None;
    }

    /// The era is known: by a guess that was right, or by an answer.
    pub(crate) fn era_is_known(&mut self) {
        self.guess = Guess::Over;
    }

    /// We ended the server ourselves before it could tell its era. That says nothing about it.
    pub(crate) fn forget_question(&mut self) {
        if let Greeting::Asked(hello) = &self.greeting {
            self.greeting = Greeting::Unknown(hello.clone());
        }
    }

    /// Whether the answer to this request is worth a look.
    pub(crate) fn is_notable(method: &str) -> bool {
        matches!(
            method,
            method::INITIALIZE
                | method::SERVER_DISCOVER
                | method::LOGGING_SET_LEVEL
                | method::RESOURCES_SUBSCRIBE
                | method::RESOURCES_UNSUBSCRIBE
        ) || List::by_method(method).is_some()
    }

    /// A client's request was answered with a result. Says whether there was room to remember what must be told again.
    pub(crate) fn observe(&mut self, request: &Frame, result: &[u8]) -> bool {
        let params = || request.params().map(Bytes::copy_from_slice);
        match request.method().unwrap_or_default() {
            method::INITIALIZE => {
                self.greeting =
                    Greeting::Legacy { params: params().unwrap_or_default(), agreed: Agreed::read(result) };
            }
            method::SERVER_DISCOVER => self.observe_modern(request),
            method::LOGGING_SET_LEVEL => self.log_level = params(),
            method::RESOURCES_SUBSCRIBE => {
                if let (Some(uri), Some(params)) = (request.uri(), params()) {
                    self.unsubscribe(&uri);
                    return self.subscribe(uri.into_owned(), params);
                }
            }
            method::RESOURCES_UNSUBSCRIBE => {
                if let Some(uri) = request.uri() {
                    self.unsubscribe(&uri);
                }
            }
            method => {
                if let Some(list) = List::by_method(method) {
                    self.observe_page(list, request.cursor().is_none(), result);
                }
            }
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

    /// Whether the client wants to hear of changes of a resource.
    pub(crate) fn is_subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    fn unsubscribe(&mut self, uri: &str) {
        if let Some(params) = self.subscriptions.remove(uri) {
            self.subscribed_bytes -= params.len();
        }
    }

    /// A client's request carries the modern envelope: its client speaks that era.
    pub(crate) fn observe_modern(&mut self, request: &Frame) {
        if !matches!(self.greeting, Greeting::ByClient) {
            return;
        }
        let meta = request.meta().and_then(|meta| serde_json::from_slice::<Map<String, Value>>(meta).ok());
        let mut meta = meta.unwrap_or_default();
        meta.retain(|key, _| key.starts_with(meta::PREFIX));
        self.greeting = Greeting::Modern { meta: Value::from(meta).to_string().into() };
    }

    fn observe_page(&mut self, list: List, first: bool, result: &[u8]) {
        let Some(page) = Page::read(list, result) else { return };
        let pages = self.lists.entry(list).or_default();
        if first {
            pages.clear();
        }
        if pages.len() < MAX_PAGES {
            pages.push(page);
        }
        if list == List::Tools {
            self.observe_hints(first, result);
        }
    }

    fn observe_hints(&mut self, first: bool, result: &[u8]) {
        if first {
            self.hinted.clear();
        }
        let result: Value = serde_json::from_slice(result).unwrap_or_default();
        for tool in result["tools"].as_array().into_iter().flatten() {
            let hint = |name: &str| tool["annotations"][name] == true;
            if let Some(name) = tool["name"].as_str()
                && (hint("readOnlyHint") || hint("idempotentHint"))
                && self.hinted.len() < MAX_HINTED
            {
                self.hinted.insert(name.to_owned());
            }
        }
    }

    /// Whether the tool's own annotations say that it may be repeated.
    pub(crate) fn is_hinted(&self, tool: &str) -> bool {
        self.hinted.contains(tool)
    }

    /// The lists that the client has seen.
    pub(crate) fn seen(&self) -> BTreeMap<List, Vec<Page>> {
        self.lists.clone()
    }

    /// After the greeting, a new session is told this again.
    pub(crate) fn retell(&self) -> Vec<(&'static str, Bytes)> {
        let level = self.log_level.iter().map(|params| (method::LOGGING_SET_LEVEL, params.clone()));
        let subscriptions =
            self.subscriptions.values().map(|params| (method::RESOURCES_SUBSCRIBE, params.clone()));
        level.chain(subscriptions).collect()
    }

    /// A request of a program, which leaves the era to us: in the modern one it carries our `_meta`.
    pub(crate) fn envelop(&self, request: &Frame, id: &RawId) -> Bytes {
        let Greeting::Modern { meta } = &self.greeting else { return request.with_id(id) };
        let object = |raw: Option<&[u8]>| -> Map<String, Value> {
            raw.and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or_default()
        };
        let mut params = object(request.params());
        let mut envelope = object(Some(meta));
        envelope.extend(object(request.meta()));
        params.insert("_meta".into(), envelope.into());
        frame::request(
            id,
            request.method().unwrap_or_default(),
            Some(Value::from(params).to_string().as_bytes()),
        )
    }

    /// Whether the modern era is spoken.
    pub(crate) fn is_modern(&self) -> bool {
        matches!(self.greeting, Greeting::Modern { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_session_is_told_the_log_level_and_the_subscriptions_that_still_hold() {
        let mut memory = Memory::new(Greeting::ByClient);
        memory.observe(&frame(r#"{"id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#), b"{}");
        memory.observe(&frame(r#"{"id":2,"method":"resources/subscribe","params":{"uri":"a://1"}}"#), b"{}");
        memory.observe(&frame(r#"{"id":3,"method":"resources/subscribe","params":{"uri":"a://2"}}"#), b"{}");
        memory
            .observe(&frame(r#"{"id":4,"method":"resources/unsubscribe","params":{"uri":"a://1"}}"#), b"{}");
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
        let remembered = [1, 2, 2, 3].map(|uri| memory.observe(&request("subscribe", uri), b"{}"));
        assert_eq!(remembered, [true, true, true, false]);
        memory.observe(&request("unsubscribe", 1), b"{}");
        memory.observe(&request("subscribe", 3), b"{}");
        assert_eq!(memory.retell().len(), 2);
    }

    #[test]
    fn a_failed_discover_does_not_fix_the_era_and_an_answered_initialize_does() {
        let mut memory = Memory::new(Greeting::ByClient);
        let request = r#"{"id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        memory.observe(&frame(request), br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
        let Greeting::Legacy { agreed: Some(agreed), .. } = &memory.greeting else { panic!() };
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

    #[test]
    fn the_modern_envelope_is_remembered_without_what_belongs_to_one_request() {
        let mut memory = Memory::new(Greeting::ByClient);
        memory.observe_modern(&frame(
            r#"{"id":1,"method":"tools/list","params":{"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        ));
        let Greeting::Modern { meta } = &memory.greeting else { panic!() };
        assert_eq!(&meta[..], br#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#);
    }
}
