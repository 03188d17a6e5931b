//! The era of a server: how its sessions are greeted, and how sure that is.

use std::collections::BTreeSet;

use bytes::Bytes;
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::version::Era;
use regrow_protocol::{meta, version};
use serde_json::{Map, Value, json};

use crate::upstream::{ClientParams, HandshakeResult};

/// How sessions of a connection are greeted.
#[derive(Clone, Debug)]
pub(crate) enum Greeting {
    /// The client greets the first session itself, and we learn from it.
    ByClient,
    /// We greet, and must find out the server's era first.
    Unknown(ClientParams),
    /// We have asked the server for its era, and not heard yet: a server that died of it is a legacy one.
    ResponseFormat(ClientParams),
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
    pub(crate) fn legacy(hello: &ClientParams) -> Greeting {
        let params = json!({
            "protocolVersion": hello.legacy_version.as_deref().unwrap_or(version::LATEST_LEGACY),
            "capabilities": hello.capabilities,
            "clientInfo": hello.client_info,
        });
        Greeting::Legacy { params: params.to_string().into(), agreed: None }
    }

    pub(crate) fn modern(hello: &ClientParams) -> Greeting {
        Greeting::Modern { meta: Greeting::envelope(hello) }
    }

    /// The `_meta` of every request of this client in the modern era.
    pub(crate) fn envelope(hello: &ClientParams) -> Bytes {
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

/// Whether an era was tried before the server was asked for its own.
#[derive(Debug)]
enum Guess {
    Untried,
    /// By this one.
    Tried(ClientParams),
    Over,
}

/// What the legacy era of a server rests on, where the server has not said so itself.
#[derive(Debug)]
enum Assumed {
    /// Nothing: the era is known, or was not asked for yet.
    No,
    /// The server exited when it was asked for its era, or was silent.
    Legacy {
        hello: ClientParams,
        was_silent: bool,
        /// How many legacy handshakes were tried since.
        tries: u8,
    },
    /// It shook hands as a legacy server, but never said that it is one.
    Provisional,
}

/// A server that fails this many legacy handshakes is asked for its era again.
const ASSUMED_TRIES: u8 = 2;

/// What is known of a server's era, over sessions.
#[derive(Debug)]
pub(crate) struct EraKnowledge {
    pub(crate) greeting: Greeting,
    /// What the server said when we last greeted it ourselves.
    pub(crate) welcome: Option<HandshakeResult>,
    guess: Guess,
    assumed: Assumed,
}

impl EraKnowledge {
    pub(crate) fn new(greeting: Greeting) -> EraKnowledge {
        EraKnowledge { greeting, welcome: None, guess: Guess::Untried, assumed: Assumed::No }
    }

    /// Somebody else greets the first session.
    pub(crate) fn greet_as(&mut self, hello: ClientParams) {
        if let Guess::Tried(guessed) = &mut self.guess {
            *guessed = hello.clone();
        }
        if let Assumed::Legacy { hello: assumed, .. } = &mut self.assumed {
            *assumed = hello.clone();
        }
        self.greeting = match &self.greeting {
            Greeting::Unknown(_) => Greeting::Unknown(hello),
            Greeting::ResponseFormat(_) => Greeting::ResponseFormat(hello),
            Greeting::Legacy { agreed: None, .. } => Greeting::legacy(&hello),
            Greeting::Modern { .. } if self.welcome.is_none() => Greeting::modern(&hello),
            known => known.clone(),
        };
    }

    /// Who greets, where an era may still be guessed.
    pub(crate) fn unguessed(&self) -> Option<ClientParams> {
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

    /// The guess was wrong: the server is asked. Returns who greets.
    pub(crate) fn take_back_guess(&mut self) -> Option<ClientParams> {
        let Guess::Tried(hello) = std::mem::replace(&mut self.guess, Guess::Over) else { return None };
        self.greeting = Greeting::Unknown(hello.clone());
        Some(hello)
    }

    /// The detected era is wrong: the server is asked again. A guess is dropped without asking.
    pub(crate) fn ask_again(&mut self, hello: ClientParams) {
        if !self.is_guess() {
            self.guess = Guess::Over;
            self.assumed = Assumed::No;
            self.greeting = Greeting::Unknown(hello);
        }
    }

    /// The server exited when it was asked for its era, or was silent: it is greeted as a legacy one, until it says otherwise.
    pub(crate) fn assume_legacy(&mut self, hello: ClientParams, was_silent: bool) {
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

    /// The server completed the handshake as a legacy one. Returns who greets, if that is to be verified.
    pub(crate) fn take_assumed(&mut self) -> Option<ClientParams> {
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
    pub(crate) fn become_modern(&mut self, hello: &ClientParams) {
        self.greeting = Greeting::modern(hello);
        self.assumed = Assumed::No;
        self.welcome = None;
    }

    /// The era is known: by a guess that was right, or by an answer.
    pub(crate) fn era_is_known(&mut self) {
        self.guess = Guess::Over;
    }

    /// We ended the server ourselves before it could tell its era. That says nothing about it.
    pub(crate) fn forget_question(&mut self) {
        if let Greeting::ResponseFormat(hello) = &self.greeting {
            self.greeting = Greeting::Unknown(hello.clone());
        }
    }

    /// A client's request carries this modern envelope: its client speaks that era.
    pub(crate) fn observe_modern(&mut self, meta: Option<&[u8]>) {
        if !matches!(self.greeting, Greeting::ByClient) {
            return;
        }
        let meta = meta.and_then(|meta| serde_json::from_slice::<Map<String, Value>>(meta).ok());
        let mut meta = meta.unwrap_or_default();
        meta.retain(|key, _| key.starts_with(meta::PREFIX));
        self.greeting = Greeting::Modern { meta: Value::from(meta).to_string().into() };
    }

    /// A request of a program, which leaves the era to us: in the modern one it carries our `_meta`.
    pub(crate) fn envelop(&self, request: &Frame, id: &RawId) -> Bytes {
        let Greeting::Modern { meta } = &self.greeting else {
            return request.with([Edit::Id(id), Edit::MetaProgressToken(id)]);
        };
        let object = |raw: Option<&[u8]>| -> Map<String, Value> {
            raw.and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or_default()
        };
        let mut params = object(request.params());
        let mut envelope = object(Some(meta));
        envelope.extend(object(request.meta()));
        if let (Some(token), Ok(id)) =
            (envelope.get_mut("progressToken"), serde_json::from_slice(id.as_bytes()))
        {
            *token = id;
        }
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

/// The parameters of a request of our own in the modern era.
pub(crate) fn enveloped(meta: &[u8]) -> Bytes {
    [b"{\"_meta\":", meta, b"}"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modern_envelope_is_remembered_without_what_belongs_to_one_request() {
        let mut era = EraKnowledge::new(Greeting::ByClient);
        era.observe_modern(Some(
            br#"{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#,
        ));
        let Greeting::Modern { meta } = &era.greeting else { panic!() };
        assert_eq!(&meta[..], br#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#);
    }
}
