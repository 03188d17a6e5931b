//! One line of the audit log: what happened, as JSON. Nothing here writes or looks at the clock.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use regrow_protocol::frame::Frame;
use regrow_protocol::{meta, method};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::admit::Principal;
use crate::stats::Ending;

/// A text in a line takes at most this many bytes, escaped. So a line is shorter than what a pipe takes as a whole.
const LONGEST: usize = 400;
/// What clients say of themselves is not looked for in more than this.
const LONGEST_INTRODUCTION: usize = 64 << 10;
/// Bytes of the hash that stands for a session.
const TAG: usize = 8;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A request of a client to a server has ended.
    Call,
    /// An operator gave a command.
    Command,
    /// Regrow refused a request.
    Refusal,
    /// The configuration was read.
    Config,
    /// A server is not as it was approved, or a person approved what has changed.
    Pin,
    /// A server requires sign-in, or a person has signed in to it.
    SignIn,
}

/// What happened. It has no argument, no token and no session id.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What the line is about.
    pub event: Event,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub principal: Option<Cow<'static, str>>,
    /// What the client calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientName>,
    /// Stands for the client's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The server that it was for.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub server: Option<Cow<'static, str>>,
    /// The method of the JSON-RPC request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub method: Option<Cow<'static, str>>,
    /// The tool, by the name that its server has for it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub tool: Option<Cow<'static, str>>,
    /// The prompt, the same.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub prompt: Option<Cow<'static, str>>,
    /// The operator's command.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub command: Option<Cow<'static, str>>,
    /// Method and path of an HTTP request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bounded_text")]
    pub request: Option<Cow<'static, str>>,
    /// Of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Digest>,
    /// Which servers a configuration changed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangedServers>,
    /// How far a call got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<&'static str>,
    /// How it ended.
    pub outcome: &'static str,
    /// The status of the HTTP response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// How long it took.
    #[serde(rename = "durationMs", skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub duration: Option<Duration>,
    /// How many more of its kind it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
}

/// What a client calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientName {
    #[serde(serialize_with = "bounded_string")]
    name: String,
    #[serde(serialize_with = "bounded_string")]
    version: String,
}

/// What is recorded of arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Digest {
    sha256: String,
    bytes: usize,
}

/// Which servers a configuration changed, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangedServers {
    /// They are new.
    #[serde(serialize_with = "bounded_list")]
    pub added: Vec<String>,
    /// They are gone.
    #[serde(serialize_with = "bounded_list")]
    pub removed: Vec<String>,
    /// They are described differently.
    #[serde(serialize_with = "bounded_list")]
    pub changed: Vec<String>,
    /// How many stayed as they were.
    pub kept: usize,
}

impl Record {
    /// Of something that ended like this.
    pub fn new(event: Event, outcome: &'static str) -> Record {
        Record {
            event,
            principal: None,
            client: None,
            session: None,
            server: None,
            method: None,
            tool: None,
            prompt: None,
            command: None,
            request: None,
            arguments: None,
            changed: None,
            delivery: None,
            outcome,
            http_status: None,
            duration: None,
            repeats: None,
        }
    }

    /// A command of the operator to this server, or to the gateway itself.
    pub fn command(
        command: impl Into<Cow<'static, str>>,
        server: Option<&str>,
        outcome: &'static str,
    ) -> Record {
        let server = server.map(|server| server.to_owned().into());
        Record { command: Some(command.into()), server, ..Record::new(Event::Command, outcome) }
    }

    /// A refused HTTP request, named after the status of its response.
    pub(crate) fn refusal(status: StatusCode) -> Record {
        let outcome = match status {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "forbidden",
            StatusCode::NOT_FOUND => "not-found",
            StatusCode::PAYLOAD_TOO_LARGE => "too-large",
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => "overloaded",
            StatusCode::INTERNAL_SERVER_ERROR => "internal-error",
            _ => "bad-request",
        };
        Record::new(Event::Refusal, outcome)
    }

    /// Another configuration was taken.
    pub fn config(changed: ChangedServers) -> Record {
        Record { changed: Some(changed), ..Record::new(Event::Config, "ok") }
    }

    /// Of what was approved of this server.
    pub fn pin(server: &str, outcome: &'static str) -> Record {
        Record { server: Some(server.to_owned().into()), ..Record::new(Event::Pin, outcome) }
    }

    /// Of the account at this server.
    pub fn sign_in(server: &str, outcome: &'static str) -> Record {
        Record { server: Some(server.to_owned().into()), ..Record::new(Event::SignIn, outcome) }
    }

    /// A request of a client that has not ended.
    pub(crate) fn of_request(request: &Frame, principal: Principal) -> Record {
        let method = request.method().unwrap_or_default();
        Record {
            principal: Some(principal_name(principal)),
            client: client_name(request.meta(), meta::CLIENT_INFO),
            method: Some(method.to_owned().into()),
            tool: request.tool().map(|tool| tool.into_owned().into()),
            arguments: Some(Digest::of(arguments(method, request.params().unwrap_or_default()))),
            ..Record::new(Event::Call, "cancelled")
        }
    }

    /// It ended like this.
    pub(crate) fn ended(&mut self, ending: Ending) {
        self.outcome = ending.outcome();
        self.delivery = Some(ending.delivery().name());
    }

    /// Its line: ASCII, one line break at its end and nowhere else.
    pub fn line(&self, time: SystemTime) -> Vec<u8> {
        #[derive(Serialize)]
        struct Line<'a> {
            time: String,
            #[serde(flatten)]
            record: &'a Record,
        }
        let time = humantime::format_rfc3339_millis(time).to_string();
        let json = serde_json::to_string(&Line { time, record: self });
        let json = json.expect("a record has text for names and no value that JSON lacks");
        let mut line = Vec::with_capacity(json.len() + 1);
        // Characters beyond ASCII occur in strings only. Some are line breaks to some readers, others steer terminals.
        for letter in json.chars() {
            match letter {
                ' '..='~' => line.push(letter as u8),
                letter => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        line.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                    }
                }
            }
        }
        line.push(b'\n');
        line
    }
}

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest { sha256: hex(digest(&SHA256, bytes).as_ref()), bytes: bytes.len() }
    }
}

/// Stands for a session: the same for the same id, and useless to take the session over.
pub(crate) fn session_tag(id: &str) -> String {
    hex(&digest(&SHA256, id.as_bytes()).as_ref()[..TAG])
}

/// What the member `key` of this JSON object says of a client.
pub(crate) fn client_name(object: Option<&[u8]>, key: &str) -> Option<ClientName> {
    let object = object.filter(|object| object.len() <= LONGEST_INTRODUCTION)?;
    let members: std::collections::BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(object).ok()?;
    serde_json::from_str(members.get(key)?.get()).ok()
}

pub(crate) fn principal_name(principal: Principal) -> Cow<'static, str> {
    match principal {
        Principal::LocalUser => "local-user".into(),
        Principal::Anonymous => "anonymous".into(),
        Principal::Operator => "operator".into(),
        Principal::Client(index) => format!("client-{}", u64::from(index) + 1).into(),
    }
}

/// The arguments of a tool or a prompt as its client wrote them; of another request all its params.
fn arguments<'a>(method: &str, params: &'a [u8]) -> &'a [u8] {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    if ![method::TOOLS_CALL, method::PROMPTS_GET].contains(&method) {
        return params;
    }
    match serde_json::from_slice::<Params<'_>>(params) {
        Ok(found) => found.arguments.map_or(&[], |arguments| arguments.get().as_bytes()),
        Err(_) => params,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// How much of a line a letter takes.
fn escaped_length(letter: char) -> usize {
    match letter {
        '"' | '\\' => 2,
        ' '..='~' => 1,
        letter => 6 * letter.len_utf16(),
    }
}

/// The start of a text that fits, and whether that is not all.
fn cut(text: &str, room: usize) -> (&str, bool) {
    let mut length = 0;
    for (at, letter) in text.char_indices() {
        length += escaped_length(letter);
        if length > room {
            return (&text[..at], true);
        }
    }
    (text, false)
}

fn bounded(text: &str) -> Cow<'_, str> {
    match cut(text, LONGEST) {
        (whole, false) => whole.into(),
        (start, true) => format!("{start}...").into(),
    }
}

fn bounded_string<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bounded(text))
}

fn bounded_text<S: Serializer>(text: &Option<Cow<'static, str>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bounded(text.as_deref().unwrap_or_default()))
}

/// As many names as fit; what is left out is counted in a last one.
fn bounded_list<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    let mut room = LONGEST;
    let mut shown: Vec<Cow<'_, str>> = vec![];
    for name in names {
        let length = name.chars().map(escaped_length).sum::<usize>() + 3; // Its quotes and comma.
        if length > room {
            break;
        }
        room -= length;
        shown.push(name.into());
    }
    if shown.len() < names.len() {
        shown.push(format!("... {} more", names.len() - shown.len()).into());
    }
    serializer.collect_seq(shown)
}

fn millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let micros = duration.unwrap_or_default().as_micros();
    serializer.serialize_f64(micros as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::core::Delivery;
    use serde_json::{Value, json};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 7)
    }

    fn request(params: &str) -> Frame {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        Frame::built(line.into())
    }

    fn text(record: &Record) -> String {
        String::from_utf8(record.line(at(1_800_000_000))).unwrap()
    }

    #[test]
    fn a_line_has_what_happened_and_only_the_hash_of_the_arguments() {
        let call = request(
            r#"{"name":"read","arguments": {"path":"/home/secret"},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"ide","version":"2.1","icons":[]}}}"#,
        );
        let mut record = Record::of_request(&call, Principal::Client(1));
        record.server = Some("files".into());
        record.session = Some(session_tag("the-session-id"));
        record.duration = Some(Duration::from_micros(1234));
        record.ended(Ending::CANCELLED);
        let line = text(&record);
        assert!(
            line.ends_with("}\n") && !line.contains("secret") && !line.contains("the-session-id"),
            "{line}"
        );
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            parsed,
            json!({
                "time": "2027-01-15T08:00:00.007Z",
                "event": "call",
                "principal": "client-2",
                "client": { "name": "ide", "version": "2.1" },
                "session": session_tag("the-session-id"),
                "server": "files",
                "method": "tools/call",
                "tool": "read",
                "arguments": {
                    "sha256": "9e920d4460445a8be20d06bf469b297e30110ddc72c4e6c1761ef1c54979475b",
                    "bytes": 23,
                },
                "delivery": Delivery::Unknown.name(),
                "outcome": "cancelled",
                "durationMs": 1.234,
            })
        );
    }

    #[test]
    fn no_text_from_outside_forges_a_line_or_steers_a_terminal() {
        let nasty = "a\"}\n{\"event\":\"call\"}\r\u{2028}\u{85}\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{1f600}\\";
        let record = Record { server: Some(nasty.into()), ..Record::new(Event::Refusal, "forbidden") };
        let line = text(&record);
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\n'), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["server"], nasty);
    }

    #[test]
    fn a_line_is_shorter_than_what_a_pipe_takes_as_a_whole() {
        for letter in ["x", "\"", "\n", "\u{1}", "\u{2028}", "\u{1f600}"] {
            let long: String = letter.repeat(5000);
            let owned = || Some(Cow::Owned(long.clone()));
            let named = ClientName { name: long.clone(), version: long.clone() };
            let record = Record {
                principal: Some("local-user".into()),
                client: Some(named),
                session: Some(session_tag(&long)),
                server: owned(),
                method: owned(),
                tool: owned(),
                prompt: owned(),
                command: owned(),
                request: owned(),
                arguments: Some(Digest::of(long.as_bytes())),
                http_status: Some(403),
                duration: Some(Duration::from_secs(86_400)),
                delivery: Some("answered"),
                repeats: Some(u64::MAX),
                ..Record::new(Event::Refusal, "unsupported-version")
            };
            assert!(text(&record).len() < 4096, "{}", text(&record).len());
            let names = vec![letter.repeat(50); 500];
            let changed =
                ChangedServers { added: names.clone(), removed: names.clone(), changed: names, kept: 9 };
            let line = text(&Record::config(changed));
            assert!(line.len() < 4096, "{}", line.len());
            let parsed: Value = serde_json::from_str(&line).unwrap();
            assert!(parsed["added"].as_array().unwrap().last().unwrap().as_str().unwrap().ends_with("more"));
        }
    }

    #[test]
    fn the_hash_is_of_the_arguments_as_they_were_written() {
        let of = |params: &str| Record::of_request(&request(params), Principal::LocalUser).arguments.unwrap();
        assert_eq!(of(r#"{"name":"a","arguments":{"x":1}}"#), Digest::of(br#"{"x":1}"#));
        assert_eq!(of(r#"{"arguments":{"x": 1},"name":"b"}"#), Digest::of(br#"{"x": 1}"#));
        assert_eq!(of(r#"{"name":"a"}"#), Digest::of(b""));
        for params in [&br#"{"arguments":1,"arguments":2}"#[..], b"7"] {
            assert_eq!(arguments("tools/call", params), params, "where it is not clear, all of it counts");
        }
        assert_eq!(arguments("resources/read", br#"{"arguments":1}"#), br#"{"arguments":1}"#);
    }

    #[test]
    fn an_introduction_that_makes_no_sense_names_nobody() {
        let of = |object: &[u8]| client_name(Some(object), "clientInfo");
        assert_eq!(of(br#"{"clientInfo":{"name":"n"}}"#).unwrap().name, "n");
        for object in [&b"7"[..], b"{}", br#"{"clientInfo":7}"#, br#"{"clientInfo":{"name":[]}}"#] {
            assert_eq!(of(object), None);
        }
        let long = format!(r#"{{"x":"{}","clientInfo":{{"name":"n"}}}}"#, "x".repeat(LONGEST_INTRODUCTION));
        assert_eq!(of(long.as_bytes()), None);
    }
}
