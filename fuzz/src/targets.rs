//! The targets by name.

mod config;
mod era;
mod frame;
mod headers;
mod lines;
mod request;
mod sse;
mod step;
mod streamed;

/// One target.
pub struct Target {
    /// Also that of its folder in the corpus.
    pub name: &'static str,
    /// Takes any bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// What the mutator likes to put in.
    pub words: &'static [&'static str],
    /// How many bytes it may hold at once for each byte of its input, over a fixed amount.
    pub memory: usize,
}

const ENVELOPE: &[&str] = &[
    "\"id\":",
    "\"method\":",
    "\"params\":",
    "\"result\":",
    "\"error\":",
    "\"_meta\":",
    "\"jsonrpc\":\"2.0\"",
    "null",
    "\"requestId\":",
    "\"name\":",
    "\"\\u0069d\":",
    "[",
    "]",
    "{",
    "}",
    "1e999",
    "-0",
    "\u{feff}",
    "\\ud800",
];
const DISCOVERED: &[&str] = &[
    "400\n",
    "404\n",
    "405 9\n",
    "429\n",
    "503 1\n",
    "\"supportedVersions\":[",
    "\"2026-07-28\"",
    "\"supported\":",
    "-32022",
    "-32601",
    "\"data\":",
    "\"code\":",
    "\"result\":{}",
    "\"id\":1",
    "\"id\":null",
    "session not found",
];
const EVENTS: &[&str] =
    &["data:", "data", "id:", "event:", "retry:", "\n\n", "\r\n", "\r", ": ", "\u{feff}", "endpoint"];
const MIRRORED: &[&str] = &[
    "=?base64?",
    "?=",
    "\"x-mcp-header\":",
    "\"inputSchema\":",
    "\"properties\":",
    "\"type\":\"string\"",
    "\n",
    "\r\n",
    "\"arguments\":",
    "\u{e9}",
    "\"name\":\"pay\"",
];
const CONFIGURED: &[&str] = &[
    "\"mcpServers\":",
    "\"servers\":",
    "\"command\":",
    "\"args\":",
    "\"env\":",
    "\"url\":",
    "\"headers\":",
    "\"regrow\":",
    "${SECRET}",
    "${env:SECRET}",
    "${HOME",
    "\"http://a/\"",
    "\"disabled\":true",
    "//",
    "/*",
    ",",
    "\"inputs\":",
    "\"type\":",
];
const REQUESTED: &[&str] = &[
    "POST /mcp\n",
    "GET /mcp\n",
    "/servers/a/mcp\n",
    "content-type: application/json\n",
    "mcp-session-id: @\n",
    "mcp-protocol-version: 2026-07-28\n",
    "mcp-method: tools/call\n",
    "mcp-name: a__echo\n",
    "last-event-id: 0-0\n",
    "origin: http://localhost\n",
    "\n\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a__echo\"}}",
    "\"method\":\"tools/list\"",
    "\"cursor\":\"+1-0\",",
    "\"requestState\":\"1\",",
    "\"id\":",
    "\"_meta\":",
    "a__b__c",
    "\r",
    ",",
    "[",
    "]",
];

const STREAMED: &[&str] = &[
    "\"id\":7",
    "\"result\":{",
    "\"content\":[",
    "\"isError\":false",
    "\"isError\":true",
    "\"jsonrpc\":\"2.0\"",
    "\"_meta\":{}",
    "\\ud83d",
    "\\u",
    "\u{1f600}",
    "-0.5e+1",
    "null",
    "true",
    ",",
    "}",
    "]",
];

/// All of them.
pub const TARGETS: [Target; 9] = [
    Target { name: "frame", run: frame::run, words: ENVELOPE, memory: 64 },
    Target {
        name: "lines",
        run: lines::run,
        words: &["\n", "\r\n", "\r", "\"id\":7", "{", "\"method\""],
        memory: 64,
    },
    Target { name: "sse", run: sse::run, words: EVENTS, memory: 256 },
    Target { name: "era", run: era::run, words: DISCOVERED, memory: 128 },
    Target { name: "headers", run: headers::run, words: MIRRORED, memory: 256 },
    Target { name: "config", run: config::run, words: CONFIGURED, memory: 1024 },
    Target { name: "request", run: request::run, words: REQUESTED, memory: 1024 },
    Target { name: "streamed", run: streamed::run, words: STREAMED, memory: 256 },
    Target { name: "step", run: step::run, words: &["\0", "\u{1}", "\u{2}", "\u{7f}"], memory: 64 },
];
