//! What a client's session remembers: plain values, apart from everything that lives. A session is made from its record and from
//! nothing else, so the record is enough to make the session again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use regrow_protocol::frame::Frame;
use serde_json::Value;

use crate::admit::{Principal, ServerScope};

/// At most this many of a client's tasks are remembered, the newest.
const MAX_TASKS: usize = 1024;
/// At most this many URIs from results are remembered, the newest.
const MAX_LINKS: usize = 1024;
/// Ids and URIs of servers that are longer than this are not remembered.
const MAX_LENGTH: usize = 4096;
/// At most this many subscriptions at one server. Servers refuse far fewer.
const MAX_SUBSCRIPTIONS: usize = 4096;

/// What a client's session remembers.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecord {
    /// Which servers it may use.
    pub(crate) scope: ServerScope,
    /// Whose it is.
    pub(crate) principal: Principal,
    /// How it greeted: its `initialize`, or `server/discover` in the name of the sender of its first modern request.
    pub(crate) greeting: Option<Frame>,
    /// It has said that it is ready to be told things.
    pub(crate) is_ready: bool,
    /// The log level that it asked for.
    pub(crate) level: Option<Frame>,
    /// The revisions of the lists that it was last given, or told to look at.
    pub(crate) lists: [Option<u64>; 4],
    /// The resources that it is subscribed to, by server, in that server's words.
    subscriptions: BTreeMap<String, BTreeSet<String>>,
    pub(crate) tasks: Tasks,
    pub(crate) links: Links,
}

impl SessionRecord {
    /// Of a client that has just come.
    pub(crate) fn new(scope: ServerScope, principal: Principal) -> SessionRecord {
        SessionRecord {
            scope,
            principal,
            greeting: None,
            is_ready: false,
            level: None,
            lists: [None; 4],
            subscriptions: BTreeMap::new(),
            tasks: Tasks::default(),
            links: Links::default(),
        }
    }

    /// It greets, which starts everything over.
    pub(crate) fn greet(&mut self, greeting: Frame) {
        self.greeting = Some(greeting);
        self.subscriptions.clear();
    }

    /// What it is subscribed to at this server.
    pub(crate) fn subscriptions(&self, server: &str) -> impl Iterator<Item = &str> {
        self.subscriptions.get(server).into_iter().flatten().map(String::as_str)
    }

    /// It is subscribed to a resource.
    pub(crate) fn subscribe(&mut self, server: &str, uri: String) {
        let uris = self.subscriptions.entry(server.to_owned()).or_default();
        if uris.len() < MAX_SUBSCRIPTIONS {
            uris.insert(uri);
        }
    }

    /// It is not subscribed to a resource any more.
    pub(crate) fn unsubscribe(&mut self, server: &str, uri: &str) {
        if let Some(uris) = self.subscriptions.get_mut(server) {
            uris.remove(uri);
        }
    }
}

/// At which server each task of a client runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks(Newest<String, MAX_TASKS>);

impl Tasks {
    pub(crate) fn server(&self, task: &str) -> Option<&str> {
        self.0.get(task).map(String::as_str)
    }

    pub(crate) fn remember(&mut self, task: &str, server: &str) {
        self.0.update(task, |known| server.clone_into(known));
    }
}

/// Which servers have returned a URI in a result: they answer for it, although they may not list it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Newest<BTreeSet<String>, MAX_LINKS>);

impl Links {
    pub(crate) fn is_from(&self, uri: &str, server: &str) -> bool {
        self.0.get(uri).is_some_and(|servers| servers.contains(server))
    }

    /// Remembers the URIs in a result of this server.
    pub(crate) fn remember(&mut self, server: &str, result: &Value) {
        match result {
            Value::Array(items) => items.iter().for_each(|item| self.remember(server, item)),
            Value::Object(members) => {
                if let Some(uri) = members.get("uri").and_then(Value::as_str) {
                    self.0.update(uri, |servers| _ = servers.insert(server.to_owned()));
                }
                members.values().for_each(|member| self.remember(server, member));
            }
            _ => {}
        }
    }
}

/// The `MAX` keys that came last. Those longer than [`MAX_LENGTH`] are not kept.
#[derive(Clone, Debug, Default)]
struct Newest<V, const MAX: usize> {
    values: HashMap<String, V>,
    oldest_first: VecDeque<String>,
}

impl<V: Default, const MAX: usize> Newest<V, MAX> {
    fn get(&self, key: &str) -> Option<&V> {
        self.values.get(key)
    }

    fn update(&mut self, key: &str, change: impl FnOnce(&mut V)) {
        if key.len() > MAX_LENGTH {
            return;
        }
        let value = self.values.entry(key.to_owned()).or_insert_with(|| {
            self.oldest_first.push_back(key.to_owned());
            V::default()
        });
        change(value);
        if self.oldest_first.len() > MAX {
            let oldest = self.oldest_first.pop_front();
            oldest.map(|oldest| self.values.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_tasks_the_newest_are_known() {
        let mut tasks = Tasks::default();
        for task in 0..=MAX_TASKS {
            tasks.remember(&task.to_string(), "a");
        }
        assert_eq!((tasks.server("0"), tasks.server("1")), (None, Some("a")));
    }

    #[test]
    fn a_greeting_starts_subscriptions_over() {
        let mut record = SessionRecord::new(ServerScope::All, Principal::default());
        record.subscribe("a", "file:///x".into());
        record.subscribe("a", "file:///y".into());
        record.unsubscribe("a", "file:///x");
        assert_eq!(record.subscriptions("a").collect::<Vec<_>>(), ["file:///y"]);
        let greeting = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        record.greet(Frame::built(greeting.as_slice().into()));
        assert_eq!(record.subscriptions("a").count(), 0);
    }
}
