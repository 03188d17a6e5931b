//! Every option: its name, its default, what it means. The document and the schema are tested against this table.

use regrow::core::Replay;
use regrow_protocol::version::Era;

use crate::catalog::Pin;
use crate::tool_filter::ToolFilter;

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
    /// `"5/180"`: this many in this many seconds.
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
    /// What a server may reach, or `"none"`.
    Sandbox,
    /// Which tools clients get, and what they are called.
    Tools,
    /// How to sign in to a remote server.
    SignIn,
}

/// All options, in the order in which people are told of them.
pub const OPTIONS: &[Described] = &[
    Described {
        name: "callTimeout",
        kind: Kind::Limit,
        default: Some("\"300s\""),
        meaning: "How long a call may take; progress resets the timer, up to an hour. Does not apply to `tasks/result`, which waits for its task.",
        set: |options, it| it.limit().map(|it| options.call_timeout = it),
    },
    Described {
        name: "connectTimeout",
        kind: Kind::Duration,
        default: Some("\"60s\""),
        meaning: "How long the server may take to start and complete the handshake.",
        set: |options, it| it.duration().map(|it| options.connect_timeout = it),
    },
    Described {
        name: "patience",
        kind: Kind::Limit,
        default: Some("\"10s\""),
        meaning: "How long a call that has not run yet waits while attempts to connect fail, if the server was healthy within the last minute.",
        set: |options, it| it.limit_or_off().map(|it| options.patience = it),
    },
    Described {
        name: "idleProbe",
        kind: Kind::Limit,
        default: Some("\"60s\""),
        meaning: "Probe the server after it has sent nothing for this long.",
        set: |options, it| it.limit().map(|it| options.idle_probe = it),
    },
    Described {
        name: "hangTimeout",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "During a call, probe the server after this much silence; a server that has answered such a probe before and now stays silent for as long again is restarted.",
        set: |options, it| it.limit_or_off().map(|it| options.hang_timeout = it),
    },
    Described {
        name: "budget",
        kind: Kind::Pace,
        default: Some("\"5/180\""),
        meaning: "More faults than this in this many seconds park the server: Regrow then retries slowly, and on the next call.",
        set: |options, it| it.pace().map(|it| options.budget = it),
    },
    Described {
        name: "replay",
        kind: Kind::Word(&["never", "safe", "hints"]),
        default: Some("\"safe\""),
        meaning: "Which calls are retried when it is unknown whether they ran: none, protocol reads and `safeTools`, or also tools annotated as read-only or idempotent.",
        set: |options, it| {
            let words = [("never", Replay::Never), ("safe", Replay::Safe), ("hints", Replay::Hints)];
            it.word(&words).map(|it| options.replay = it)
        },
    },
    Described {
        name: "safeTools",
        kind: Kind::List,
        default: Some("[]"),
        meaning: "Tools that are safe to call again, such as `get_*`. A server's list replaces the top-level one.",
        set: |options, it| it.list().map(|it| options.safe_tools = it),
    },
    Described {
        name: "maxLine",
        kind: Kind::Size,
        default: Some("\"64MiB\""),
        meaning: "The largest message that is forwarded.",
        set: |options, it| it.size().map(|it| options.max_line = it),
    },
    Described {
        name: "era",
        kind: Kind::Word(&["auto", "legacy", "modern"]),
        default: Some("\"auto\""),
        meaning: "The protocol era of the server: detected, handshake and sessions (up to 2025-11-25), or stateless (from 2026-07-28).",
        set: |options, it| {
            let words = [("auto", Era::Auto), ("legacy", Era::Legacy), ("modern", Era::Modern)];
            it.word(&words).map(|it| options.era = it)
        },
    },
    Described {
        name: "cleanEnv",
        kind: Kind::Flag,
        default: Some("true"),
        meaning: "Pass only a list of common variables to the server, plus those in `env` and `envFile`, instead of Regrow's whole environment.",
        set: |options, it| it.flag().map(|it| options.clean_env = it),
    },
    Described {
        name: "noNewPrivileges",
        kind: Kind::Flag,
        default: Some("true"),
        meaning: "Do not let the server gain rights through programs such as `sudo`. Linux only.",
        set: |options, it| it.flag().map(|it| options.no_new_privileges = it),
    },
    Described {
        name: "sandbox",
        kind: Kind::Sandbox,
        default: Some("\"none\""),
        meaning: "The files that the server may `read` and `write`, and whether it may use the network (`net`). With `required`, it does not start where the system cannot enforce that. A server's sandbox replaces the top-level one. Linux only.",
        set: |options, it| it.sandbox().map(|it| options.sandbox = it),
    },
    Described {
        name: "stderrInErrors",
        kind: Kind::Flag,
        default: Some("false"),
        meaning: "Include the first and last lines of the server's stderr in every error, not only after a failed start. Never for shared sessions.",
        set: |options, it| it.flag().map(|it| options.stderr_in_errors = it),
    },
    Described {
        name: "headerFile",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: send the headers in this file, one per line; reloaded when it changes.",
        set: |options, it| it.path().map(|it| options.header_file = it),
    },
    Described {
        name: "caFile",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: trust the certificates in this file (PEM), in addition to the system's. They may be authorities, or self-signed certificates of servers.",
        set: |options, it| it.path().map(|it| options.ca_file = it),
    },
    Described {
        name: "clientCert",
        kind: Kind::Path,
        default: None,
        meaning: "Remote servers: present this client certificate (PEM).",
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
        meaning: "Remote servers: how long connecting to the server may take: DNS, TCP and TLS.",
        set: |options, it| it.duration().map(|it| options.reach_timeout = it),
    },
    Described {
        name: "headerTimeout",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "Remote servers: how long to wait for the start of a response.",
        set: |options, it| it.limit().map(|it| options.header_timeout = it),
    },
    Described {
        name: "streamTimeout",
        kind: Kind::Limit,
        default: Some("\"none\""),
        meaning: "Remote servers: how long a response may pause.",
        set: |options, it| it.limit().map(|it| options.stream_timeout = it),
    },
    Described {
        name: "signIn",
        kind: Kind::SignIn,
        default: None,
        meaning: "Remote servers: how to sign in with OAuth, and with which account. Only for one server, not at the top level.",
        set: |options, it| it.sign_in().map(|it| options.sign_in = it),
    },
    Described {
        name: "start",
        kind: Kind::Word(&["eager", "lazy"]),
        default: Some("\"eager\""),
        meaning: "Gateway: start the server with the gateway, or on the first call.",
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
        meaning: "Gateway: at most this many private sessions.",
        set: |options, it| it.number().map(|it| options.max_sessions = it),
    },
    Described {
        name: "queue",
        kind: Kind::Number,
        default: Some("4096"),
        meaning: "At most this many calls may be pending; more are refused at once.",
        set: |options, it| it.number().map(|it| options.queue = it),
    },
    Described {
        name: "concurrency",
        kind: Kind::NumberOrNone,
        default: Some("\"none\""),
        meaning: "Gateway: at most this many calls run at the same time; others wait.",
        set: |options, it| it.number_or_none().map(|it| options.concurrency = it),
    },
    Described {
        name: "rate",
        kind: Kind::PaceOrNone,
        default: Some("\"none\""),
        meaning: "Gateway: at most this many calls in this many seconds; others wait.",
        set: |options, it| it.pace_or_none().map(|it| options.rate = it),
    },
    Described {
        name: "tools",
        kind: Kind::Tools,
        default: None,
        meaning: "Gateway: which tools of the server clients get (`allow`, `deny`), and what they are called (`rename`, `prefix`). Only for one server, not at the top level.",
        set: |options, it| {
            let read_only = options.tools.read_only;
            it.tools().map(|it| options.tools = ToolFilter { read_only, ..it })
        },
    },
    Described {
        name: "readOnly",
        kind: Kind::Flag,
        default: Some("false"),
        meaning: "Gateway: offer only tools that declare `readOnlyHint: true`. What they declare is not verified.",
        set: |options, it| it.flag().map(|it| options.tools.read_only = it),
    },
    Described {
        name: "pin",
        kind: Kind::Word(&["off", "warn", "hold"]),
        default: None,
        meaning: "Gateway: what to do about a tool, prompt or command that changed since it was approved. `warn`: report it. `hold`: also do not use it until `regrow approve`. The default is that of `--pin`.",
        set: |options, it| {
            let words = [("off", Pin::Off), ("warn", Pin::Warn), ("hold", Pin::Hold)];
            it.word(&words).map(|it| options.pin = Some(it))
        },
    },
];
