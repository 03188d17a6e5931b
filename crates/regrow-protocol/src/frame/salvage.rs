//! Whom to tell about a message that we cannot read: too large to store, cut off, or not JSON.

use std::borrow::Cow;

use super::RawId;

/// Reads one message in pieces, in constant memory, and remembers its top-level id.
///
/// It believes what it can: strings may hold anything, brackets are only counted. What it cannot be sure of, an id
/// that stands there twice or was cut off, it does not report: no caller is better than the wrong one.
#[derive(Clone, Debug, Default)]
pub struct Salvage {
    at: At,
    key: Capped<KEY>,
    id: Capped<ID>,
    id_seen: Seen,
    found: Salvaged,
}

/// What could be learnt of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The top-level `id`, if it is a string or a number of at most 256 bytes.
    pub id: Option<RawId>,
    /// Whether `method` is a top-level key: then it was a request or a notification.
    pub method: bool,
    /// Whether `result` is a top-level key.
    pub result: bool,
    /// Whether `error` is a top-level key.
    pub error: bool,
}

/// Room for every key that we look for, with its quotes and each letter escaped.
const KEY: usize = 2 + 6 * "method".len();
const ID: usize = 256;

/// Where in the message we are.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// Before the object; a byte order mark may stand there.
    #[default]
    Start,
    /// Where a key may start.
    Key,
    InKey(Text),
    /// After a key, before its colon.
    Colon,
    /// After the colon, before the value.
    Value {
        id: bool,
    },
    InString {
        id: bool,
        text: Text,
    },
    /// In a number, or in `null`, `true`, `false`.
    InScalar {
        id: bool,
    },
    /// In an object or an array, `depth` deep.
    Nested {
        depth: u64,
    },
    NestedString {
        depth: u64,
        text: Text,
    },
    /// After a value.
    Comma,
    /// After the object, or in what is none.
    End,
}

/// How often there was an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Never,
    /// Its value is not read to the end, or was no string or scalar.
    Begun,
    Once,
    Twice,
}

/// How to read the next byte of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Plain,
    /// After a backslash.
    Escaped,
    /// After the closing quote.
    Closed,
}

impl Salvage {
    /// A message of which nothing is read yet.
    pub fn new() -> Salvage {
        Salvage::default()
    }

    /// All that can be learnt of a message that is here in one piece.
    pub fn of(message: &[u8]) -> Salvaged {
        let mut salvage = Salvage::new();
        salvage.push(message);
        salvage.finish()
    }

    /// Reads on.
    pub fn push(&mut self, mut chunk: &[u8]) {
        while let Some((&byte, rest)) = chunk.split_first() {
            // Long strings are most of a long message, and only two bytes matter in them.
            if let At::NestedString { text: Text::Plain, .. } | At::InString { id: false, text: Text::Plain } =
                self.at
                && !matches!(byte, b'"' | b'\\')
            {
                chunk = &chunk[memchr::memchr2(b'"', b'\\', chunk).unwrap_or(chunk.len())..];
                continue;
            }
            self.at = self.step(byte);
            chunk = rest;
        }
    }

    /// What was learnt.
    pub fn finish(self) -> Salvaged {
        let id = match self.id_seen {
            Seen::Once => self.id.get().and_then(RawId::parse),
            Seen::Never | Seen::Begun | Seen::Twice => None,
        };
        Salvaged { id, ..self.found }
    }

    fn step(&mut self, byte: u8) -> At {
        match (self.at, byte) {
            (At::Start, b'{') => At::Key,
            (At::Start, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf) => At::Start,
            (At::Start | At::End, _) => At::End,

            (At::Key, b'"') => {
                self.key = Capped::default();
                self.key.push(byte);
                At::InKey(Text::Plain)
            }
            (At::InKey(text), _) => {
                self.key.push(byte);
                match text.then(byte) {
                    Text::Closed => At::Colon,
                    text => At::InKey(text),
                }
            }
            (At::Colon, b':') => At::Value { id: self.is_id() },

            (At::Value { .. }, b' ' | b'\t' | b'\r' | b'\n') => self.at,
            (At::Value { .. }, b'{' | b'[') => At::Nested { depth: 1 },
            (At::Value { id }, b'"') => {
                self.keep(id, byte);
                At::InString { id, text: Text::Plain }
            }
            (At::InString { id, text }, _) => {
                self.keep(id, byte);
                match text.then(byte) {
                    Text::Closed => self.ended(id),
                    text => At::InString { id, text },
                }
            }
            (At::InScalar { id }, b' ' | b'\t' | b'\r' | b'\n') => self.ended(id),
            (At::InScalar { id }, b',' | b'}') => self.ended(id).or_next(byte),

            (At::Nested { depth }, b'"') => At::NestedString { depth, text: Text::Plain },
            (At::Nested { depth }, b'{' | b'[') => At::Nested { depth: depth + 1 },
            (At::Nested { depth: 1 }, b'}' | b']') => At::Comma,
            (At::Nested { depth }, b'}' | b']') => At::Nested { depth: depth - 1 },
            (At::NestedString { depth, text }, _) => match text.then(byte) {
                Text::Closed => At::Nested { depth },
                text => At::NestedString { depth, text },
            },

            (At::Key | At::Colon | At::Value { .. } | At::Comma, b',' | b'}') => self.at.or_next(byte),
            (At::Value { id } | At::InScalar { id }, _) => {
                self.keep(id, byte);
                At::InScalar { id }
            }
            (At::Key | At::Colon | At::Nested { .. } | At::Comma, _) => self.at,
        }
    }

    /// Takes note of the key that was read, and says whether it is `id`.
    fn is_id(&mut self) -> bool {
        let key = self.key.get().and_then(|raw| serde_json::from_slice::<Cow<'_, str>>(raw).ok());
        match key.as_deref() {
            Some("method") => self.found.method = true,
            Some("result") => self.found.result = true,
            Some("error") => self.found.error = true,
            Some("id") => {
                self.id = Capped::default();
                self.id_seen = if self.id_seen == Seen::Never { Seen::Begun } else { Seen::Twice };
                return true;
            }
            _ => {}
        }
        false
    }

    fn keep(&mut self, id: bool, byte: u8) {
        if id {
            self.id.push(byte);
        }
    }

    /// A string or a scalar ended.
    fn ended(&mut self, id: bool) -> At {
        if id && self.id_seen == Seen::Begun {
            self.id_seen = Seen::Once;
        }
        At::Comma
    }
}

impl At {
    /// What a comma or a brace does between the tokens of the object.
    fn or_next(self, byte: u8) -> At {
        match byte {
            b',' => At::Key,
            b'}' => At::End,
            _ => self,
        }
    }
}

impl Text {
    fn then(self, byte: u8) -> Text {
        match (self, byte) {
            (Text::Escaped, _) => Text::Plain,
            (_, b'\\') => Text::Escaped,
            (_, b'"') => Text::Closed,
            _ => Text::Plain,
        }
    }
}

/// The first bytes of something; nothing at all once it does not fit.
#[derive(Clone, Copy, Debug)]
struct Capped<const N: usize> {
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Capped<N> {
    fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.len) {
            *free = byte;
        }
        self.len = (self.len + 1).min(N + 1);
    }

    fn get(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len)
    }
}

impl<const N: usize> Default for Capped<N> {
    fn default() -> Self {
        Capped { len: 0, bytes: [0; N] }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn id(message: impl AsRef<[u8]>) -> Option<String> {
        Salvage::of(message.as_ref()).id.map(|id| id.to_string())
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        assert_eq!(id(r#"{"id":1,"result":{}}"#).as_deref(), Some("1"));
        assert_eq!(
            id(r#" { "result" : {"id":5,"a":["}",{"id":6}]} , "id" : "x\"}" } "#).as_deref(),
            Some(r#""x\"}""#)
        );
        assert_eq!(id(r#"{"a":"\"id\":5,","\u0069d":-1.0}"#).as_deref(), Some("-1.0"));
        assert_eq!(id("\u{feff}{\"id\":1}").as_deref(), Some("1"));
    }

    #[test]
    fn what_kind_of_message_it_was_is_seen_too() {
        let seen = |message: &str| {
            let found = Salvage::of(message.as_bytes());
            (found.method, found.result, found.error)
        };
        assert_eq!(seen(r#"{"m\u0065thod":"result","params":{"error":1}}"#), (true, false, false));
        assert_eq!(seen(r#"{"result":{"method":1},"resultx":2}"#), (false, true, false));
        assert_eq!(seen(r#"{"id":"method","error":{"#), (false, false, true));
    }

    #[test]
    fn a_broken_message_still_tells_its_id() {
        assert_eq!(id(b"{\"result\":\"\xff\xfe\0\n\",\"id\":7}").as_deref(), Some("7"));
        assert_eq!(id(r#"{"result":[NaN,{"a":undefined}],"id":7}"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{"id":7,"result":{"content":[{"te"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{"id":7,"result":{"a":"\x"}} and more"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{'a':1,"id":7}"#).as_deref(), Some("7"));
    }

    #[test]
    fn a_doubtful_id_is_not_told() {
        for message in [
            r#"{"id":12"#,
            r#"{"id":"12"#,
            r#"{"id":1,"id":1}"#,
            r#"{"id":1,"result":0,"id":"#,
            r#"{"id":null}"#,
            r#"{"id":{"id":1}}"#,
            r#"{"id":tru,"a":1}"#,
            r#"{"id":,"a":1}"#,
            r#"[{"id":1}]"#,
            r#"hello {"id":1}"#,
            r#"{} {"id":1}"#,
            "",
        ] {
            assert_eq!(id(message), None, "{message}");
        }
        assert_eq!(id(b"{\"id\":\"\xff\",\"result\":1}"), None);
    }

    #[test]
    fn long_ids_and_keys_are_not_stored() {
        let exact = format!("\"{}\"", "x".repeat(ID - 2));
        assert_eq!(id(format!("{{\"id\":{exact}}}")), Some(exact));
        assert_eq!(id(format!("{{\"id\":\"{}\"}}", "x".repeat(ID - 1))), None);
        assert_eq!(id(format!("{{\"{}\":1,\"id\":2}}", "id".repeat(100_000))).as_deref(), Some("2"));
        assert!(Salvage::of(br#"{"\u006d\u0065\u0074\u0068\u006f\u0064":1}"#).method);
        assert!(size_of::<Salvage>() < 512);
    }

    #[test]
    fn it_does_not_matter_how_a_message_is_cut() {
        for seed in 0..3_000 {
            let random = &mut Random::new(seed);
            let id = random.pick(&["7", r#""a\\\"b""#, "-1.5e3", r#""""#]).to_owned();
            let members =
                [("id", id.clone()), ("result", random.value(5)), ("jsonrpc", "\"2.0\"".to_owned())];
            let mut message = random.object(&members).into_bytes();
            let whole = Salvage::of(&message);
            assert_eq!(whole.id.as_ref().map(RawId::as_bytes), Some(id.as_bytes()), "seed {seed}");
            assert!(whole.result, "seed {seed}");

            // Break it as well: then only that the cuts do not matter can be said.
            for broken in 0..3 {
                let whole = Salvage::of(&message);
                let mut salvage = Salvage::new();
                let mut rest = &message[..];
                while !rest.is_empty() {
                    let (chunk, after) = rest.split_at(1 + random.below(rest.len().min(9)));
                    salvage.push(chunk);
                    rest = after;
                }
                assert_eq!(salvage.finish(), whole, "seed {seed}, broken {broken}");
                let at = random.below(message.len());
                message[at] = random.pick(&["\"", "\\", "{", "}", ",", "\0"]).as_bytes()[0];
            }
        }
    }
}
