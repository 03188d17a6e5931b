//! What the server offers: its tools with honest annotations, its resources, its prompts.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::Server;
use crate::plan::Orders;

/// What may be said about calling a tool twice.
#[derive(Clone, Copy)]
enum Safety {
    Reads,
    Idempotent,
    Acts,
}

use Safety::{Acts, Idempotent, Reads};

/// Name, safety, arguments as `name:type`, description.
const TOOLS: &[(&str, Safety, &str, &str)] = &[
    (
        "ask",
        Acts,
        "kind:string",
        "Asks the client: elicitation, sampling or roots; returns its answer verbatim.",
    ),
    ("batch", Reads, "", "Answers in an array, together with a notification."),
    ("burst", Reads, "n:integer", "Sends n notifications that the tools have changed."),
    ("change", Acts, "", "Adds a tool and says so."),
    ("closein", Acts, "", "Closes stdin, answers, and lives on."),
    ("closeout", Acts, "answer:boolean", "Closes stdout and lives on; may answer first."),
    ("count", Acts, "key:string delay_ms:integer", "Has one durable effect; returns how often it had."),
    (
        "die",
        Acts,
        "key:string when:string how:string times:integer",
        "Dies before, during or after its effect.",
    ),
    ("dup", Reads, "", "Answers twice."),
    ("echo", Reads, "text:string", "Returns the text."),
    ("env", Reads, "name:string", "Returns an environment variable of the server."),
    ("error", Reads, "", "Answers with a JSON-RPC error."),
    ("fail", Reads, "", "Answers with a tool error."),
    ("fds", Reads, "", "Lists the open file descriptors above 2."),
    ("garbage", Reads, "", "Writes bytes that are not JSON, then answers."),
    ("half", Acts, "", "Writes half a line and dies."),
    ("hang", Acts, "key:string whole:boolean", "Never answers; whole: answers nothing at all any more."),
    ("huge", Reads, "bytes:integer id:string", "Answers with one line so large, its id first or last."),
    (
        "lookup",
        Reads,
        "key:string die_times:integer",
        "Reads; dies by SIGKILL the first few times for a key.",
    ),
    ("malformed", Reads, "", "Answers with its id but broken JSON."),
    (
        "notify",
        Reads,
        "n:integer bytes:integer",
        "Sends n numbered log and progress notifications, the former longer by so many bytes, then answers.",
    ),
    ("odd", Reads, "kind:string", "Answers in a way that few would write."),
    ("pid", Reads, "", "Returns the process id."),
    ("region", Acts, "region:string", "Returns the region, which must also stand in a header."),
    ("secret", Reads, "name:string", "Answers with an error that quotes an environment variable."),
    (
        "set",
        Idempotent,
        "key:string die_times:integer",
        "Sets; dies by SIGKILL the first few times for a key.",
    ),
    ("slow", Acts, "ms:integer key:string progress_ms:integer", "Has its effect, then answers after ms."),
    ("stderr", Reads, "bytes:integer", "Writes so much to stderr, then answers."),
    ("stop", Acts, "answer:boolean", "Stops the whole process with SIGSTOP; may answer first."),
    ("stray", Reads, "", "Answers an id that nobody asked with, then properly."),
    (
        "touch",
        Acts,
        "uri:string",
        "Says that a resource has changed, if subscribed; returns how often it said so.",
    ),
    ("unlisten", Acts, "", "Ends all listen streams cleanly; returns how many."),
];

impl Server {
    /// The tools on offer now.
    pub(super) fn tools(&self, orders: &Orders) -> Vec<Value> {
        let kept: Option<Vec<&str>> = orders.text("tools").map(|names| names.split('|').collect());
        let dropped: Vec<&str> = orders.texts("drop-tool").collect();
        let known = TOOLS.iter().map(|(name, safety, arguments, text)| tool(name, *safety, arguments, text));
        let known = known.filter(|tool| {
            let name = tool["name"].as_str().unwrap_or_default();
            kept.as_ref().is_none_or(|kept| kept.contains(&name)) && !dropped.contains(&name)
        });
        let extra = orders.texts("extra-tool").map(|name| tool(name, Reads, "text:string", "As echo."));
        let added = (1..=self.tools_added.load(Ordering::SeqCst))
            .map(|number| tool(&format!("added-{number}"), Reads, "text:string", "As echo."));
        let mut tools: Vec<Value> = known.chain(extra).chain(added).collect();
        for changed in orders.texts("change-tool") {
            let changed = tools.iter_mut().filter(|tool| tool["name"] == changed);
            changed.for_each(|tool| tool["description"] = "It has changed.\u{1b}[31m".into());
        }
        tools
    }

    pub(super) fn offers(&self, orders: &Orders, name: &str) -> bool {
        self.tools(orders).iter().any(|tool| tool["name"] == name)
    }
}

/// Whether the server was built with this tool, as against one that a plan added.
pub(super) fn is_built_in(name: &str) -> bool {
    TOOLS.iter().any(|(known, ..)| *known == name)
}

fn tool(name: &str, safety: Safety, arguments: &str, description: &str) -> Value {
    let properties: Map<String, Value> = arguments
        .split_whitespace()
        .filter_map(|argument| argument.split_once(':'))
        .map(|(name, kind)| match name {
            "region" => (name.to_owned(), json!({"type": kind, "x-mcp-header": "Region"})),
            _ => (name.to_owned(), json!({"type": kind})),
        })
        .collect();
    json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
        "annotations": {
            "readOnlyHint": matches!(safety, Reads),
            "idempotentHint": matches!(safety, Reads | Idempotent),
            "destructiveHint": matches!(safety, Acts),
        },
    })
}

pub(super) fn resources() -> Value {
    json!([{"uri": "chaos://life", "name": "life", "mimeType": "text/plain"}])
}

pub(super) fn prompts() -> Value {
    json!([{"name": "greet", "description": "A greeting.", "arguments": [{"name": "name", "required": false}]}])
}
