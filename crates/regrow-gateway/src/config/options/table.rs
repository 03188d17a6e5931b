//! Every option: its name, its default, what it means. The document and the schema are tested against this table.

use regrow::core::Replay;
use regrow_protocol::version::Era;

use super::{Options, Sessions, Setting, Start};

/// An option.
pub struct Described {
    /// Its name in the file.
    pub name: &'static str,
    /// What can be written.
    pub kind: Kind,
    /// What holds where nothing is written, as JSON. None where that is nothing.
    pub default: Option<&'static str>,
    /// What it means, for people.
    pub meaning: &'static str,
    pub(super) set: fn(&mut Options, &Setting<'_>) -> Result<(), String>,
}

/// What can be written for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `"30s"`.
    Duration,
    /// `"30s"` or `"none"`.
    Limit,
    /// `"64MiB"`.
    Size,
    /// `"5/180"`: so many in so many seconds.
    Pace,
    /// The same, or `"none"`.
    PaceOrNone,
    /// A whole number above 0.
    Number,
    /// The same, or `"none"`.
    NumberOrNone,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of texts.
    List,
    /// A path.
    Path,
}

/// All options, in the order in which people are told of them.
pub const OPTIONS: &[Described] = &[
    Described {
        name: "callTimeout",
        kind: Kind::Limit,
        default: Some("\"300s\""),
        meaning: "How long a call may take; progress resets it, up to an hour. Not for `tasks/result`, which waits for its task.",
        set: |options, it| it.limit().map(|it| options.call_timeout = it),
    },
    Described {
        name: "connectTimeout",
        kind: Kind::Duration,
        default: Some("\"60s\""),
        meaning: "How long the server may take to start and shake hands.",
        set: |options, it| it.duration().map(|it| options.connect_timeout = it),
    },
    Described {
        name: "patience",
        kind: Kind::Limit,
        default: Some("\"10s\""),
        meaning: "How long a call that did not run waits through failing attempts, if the server was healthy within the last minute.",
        set: |options, it| it.limit_or_off().map(|it| options.patience = it),
    },
    Described {
        name: "idleProbe",
        kind: Kind::Limit,
        default: Some("\"60s\""),
        meaning: "Ask for a sign of life after this long in which the server said nothing.",
        set: |options, it| it.limit().map(|it| options.idle_probe = it),
    },
    Described {
        name: "hangTimeout",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "During a call, ask for a sign of life after this much silence; a server that has answered such a probe before, and now stays silent for as long again, is replaced.",
        set: |options, it| it.limit_or_off().map(|it| options.hang_timeout = it),
    },
    Described {
        name: "budget",
        kind: Kind::Pace,
        default: Some("\"5/180\""),
        meaning: "More faults than this in so many seconds park the server: it is then tried slowly, and whenever a call comes.",
        set: |options, it| it.pace().map(|it| options.budget = it),
    },
    Described {
        name: "replay",
        kind: Kind::Word(&["never", "safe", "hints"]),
        default: Some("\"safe\""),
        meaning: "Which calls are sent again when it is unknown whether they ran: none, protocol reads and `safeTools`, or also tools that call themselves read-only or idempotent.",
        set: |options, it| {
            let words = [("never", Replay::Never), ("safe", Replay::Safe), ("hints", Replay::Hints)];
            it.word(&words).map(|it| options.replay = it)
        },
    },
    Described {
        name: "safeTools",
        kind: Kind::List,
        default: Some("[]"),
        meaning: "Tools that are safe to call again, such as `get_*`. A server's list takes the place of the one at top level.",
        set: |options, it| it.list().map(|it| options.safe_tools = it),
    },
    Described {
        name: "maxLine",
        kind: Kind::Size,
        default: Some("\"64MiB\""),
        meaning: "The longest message that is handed on.",
        set: |options, it| it.size().map(|it| options.max_line = it),
    },
    Described {
        name: "era",
        kind: Kind::Word(&["auto", "legacy", "modern"]),
        default: Some("\"auto\""),
        meaning: "The era of the protocol that the server speaks: found out, handshake and sessions (up to 2025-11-25), or stateless (from 2026-07-28).",
        set: |options, it| {
            let words = [("auto", Era::Auto), ("legacy", Era::Legacy), ("modern", Era::Modern)];
            it.word(&words).map(|it| options.era = it)
        },
    },
    Described {
        name: "cleanEnv",
        kind: Kind::Flag,
        default: Some("true"),
        meaning: "Hand on to a server only a short list of harmless variables, and what `env` and `envFile` name, rather than our whole environment.",
        set: |options, it| it.flag().map(|it| options.clean_env = it),
    },
    Described {
        name: "stderrInErrors",
        kind: Kind::Flag,
        default: Some("false"),
        meaning: "Put the first and last lines of the server's stderr into every error, not only into those of a failed start. Never on shared sessions.",
        set: |options, it| it.flag().map(|it| options.stderr_in_errors = it),
    },
    Described {
        name: "headerFile",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: send the headers in this file, a line each; read again when it changes.",
        set: |options, it| it.path().map(|it| options.header_file = it),
    },
    Described {
        name: "caFile",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: trust the certificates in this file (PEM), besides those that the system trusts. They may be authorities, or self-signed certificates of servers.",
        set: |options, it| it.path().map(|it| options.ca_file = it),
    },
    Described {
        name: "clientCert",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: show this certificate (PEM).",
        set: |options, it| it.path().map(|it| options.client_cert = it),
    },
    Described {
        name: "clientKey",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: the private key of that certificate (PEM).",
        set: |options, it| it.path().map(|it| options.client_key = it),
    },
    Described {
        name: "reachTimeout",
        kind: Kind::Duration,
        default: Some("\"10s\""),
        meaning: "Remote servers: how long it may take to reach the server: its name, TCP, TLS.",
        set: |options, it| it.duration().map(|it| options.reach_timeout = it),
    },
    Described {
        name: "headerTimeout",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "Remote servers: how long the server may take to begin an answer.",
        set: |options, it| it.limit().map(|it| options.header_timeout = it),
    },
    Described {
        name: "streamTimeout",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "Remote servers: how long the server may pause within an answer.",
        set: |options, it| it.limit().map(|it| options.stream_timeout = it),
    },
    Described {
        name: "start",
        kind: Kind::Word(&["eager", "lazy"]),
        default: Some("\"eager\""),
        meaning: "Gateway: start the server with us, or with the first call.",
        set: |options, it| {
            let words = [("eager", Start::Eager), ("lazy", Start::Lazy)];
            it.word(&words).map(|it| options.start = it)
        },
    },
    Described {
        name: "idleStop",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "Gateway: stop the server after this long without a call; the next call starts it.",
        set: |options, it| it.limit().map(|it| options.idle_stop = it),
    },
    Described {
        name: "sessions",
        kind: Kind::Word(&["auto", "shared", "private"]),
        default: Some("\"auto\""),
        meaning: "Gateway: which clients share a session with the server. `auto`: a legacy client gets its own if it declares elicitation, sampling or roots, or if it set a log level before its first call; the others share one. `shared`: all clients of one principal. `private`: none.",
        set: |options, it| {
            let words =
                [("auto", Sessions::Auto), ("shared", Sessions::Shared), ("private", Sessions::Private)];
            it.word(&words).map(|it| options.sessions = it)
        },
    },
    Described {
        name: "sessionIdle",
        kind: Kind::Duration,
        default: Some("\"30m\""),
        meaning: "Gateway: a private session ends after this long without a call.",
        set: |options, it| it.duration().map(|it| options.session_idle = it),
    },
    Described {
        name: "maxSessions",
        kind: Kind::Number,
        default: Some("64"),
        meaning: "Gateway: so many private sessions at most.",
        set: |options, it| it.number().map(|it| options.max_sessions = it),
    },
    Described {
        name: "queue",
        kind: Kind::Number,
        default: Some("4096"),
        meaning: "So many calls may be pending; more are refused at once.",
        set: |options, it| it.number().map(|it| options.queue = it),
    },
    Described {
        name: "concurrency",
        kind: Kind::NumberOrNone,
        default: Some("\"none\""),
        meaning: "Gateway: so many calls may run at the same time; others wait.",
        set: |options, it| it.number_or_none().map(|it| options.concurrency = it),
    },
    Described {
        name: "rate",
        kind: Kind::PaceOrNone,
        default: Some("\"none\""),
        meaning: "Gateway: so many calls in so many seconds; others wait.",
        set: |options, it| it.pace_or_none().map(|it| options.rate = it),
    },
];
