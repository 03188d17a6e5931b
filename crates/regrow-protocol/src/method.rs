//! The requests of MCP, in both eras, and what the specification says about each.

/// The handshake of the legacy era.
pub const INITIALIZE: &str = "initialize";
/// Probes the other side; legacy era.
pub const PING: &str = "ping";
/// Asks what the server is and can do; modern era.
pub const SERVER_DISCOVER: &str = "server/discover";
/// Opens a stream of notifications; modern era.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Reads a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists templates of resource URIs.
pub const RESOURCES_TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Asks for notifications about a resource; legacy era.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Ends that; legacy era.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Completes an argument of a prompt or a template.
pub const COMPLETION_COMPLETE: &str = "completion/complete";
/// Sets the log level of the session; legacy era.
pub const LOGGING_SET_LEVEL: &str = "logging/setLevel";
/// Lists tasks.
pub const TASKS_LIST: &str = "tasks/list";
/// Reads the state of a task.
pub const TASKS_GET: &str = "tasks/get";
/// Waits for a task to end and reads its result.
pub const TASKS_RESULT: &str = "tasks/result";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// Answers the questions of a task.
pub const TASKS_UPDATE: &str = "tasks/update";
/// A server asks the client's user.
pub const ELICITATION_CREATE: &str = "elicitation/create";
/// A server asks the client's model.
pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
/// A server asks for the client's folders.
pub const ROOTS_LIST: &str = "roots/list";

/// Requests that exist in the legacy era only.
pub const LEGACY_ONLY: [&str; 7] = [
    INITIALIZE,
    PING,
    LOGGING_SET_LEVEL,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    TASKS_LIST,
    TASKS_RESULT,
];

/// Those that are asked for again and again, the most frequent first.
const USUAL: [&str; 7] =
    [TOOLS_CALL, TOOLS_LIST, RESOURCES_READ, PROMPTS_GET, COMPLETION_COMPLETE, TASKS_GET, PING];

/// The same text, where it is one of the usual methods: then it need not be read from the message each time.
pub(crate) fn usual(method: &[u8]) -> Option<&'static str> {
    USUAL.into_iter().find(|usual| usual.as_bytes() == method)
}

/// What a client's request does at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The handshake of the legacy era.
    Initialize,
    /// The question that begins the modern era.
    Discover,
    /// Opens a stream, which has no end of its own.
    Listen,
    /// Whether it may run twice depends on the tool.
    CallTool,
    /// Running it twice is the same as running it once.
    Repeatable,
    /// May change something each time it runs; also every method that is not in the specification.
    Effect,
}

/// The class of a client's request.
pub fn class(method: &str) -> Class {
    match method {
        INITIALIZE => Class::Initialize,
        SERVER_DISCOVER => Class::Discover,
        SUBSCRIPTIONS_LISTEN => Class::Listen,
        TOOLS_CALL => Class::CallTool,
        PING
        | TOOLS_LIST
        | PROMPTS_LIST
        | PROMPTS_GET
        | RESOURCES_LIST
        | RESOURCES_TEMPLATES_LIST
        | RESOURCES_READ
        | RESOURCES_SUBSCRIBE
        | RESOURCES_UNSUBSCRIBE
        | COMPLETION_COMPLETE
        | LOGGING_SET_LEVEL
        | TASKS_GET
        | TASKS_RESULT
        | TASKS_LIST => Class::Repeatable,
        // A second cancellation is refused, so the client would be told that the first one failed; and `tasks/update` carries
        // answers to the task's questions.
        _ => Class::Effect,
    }
}

/// Whether a client begins a session with it.
pub fn is_handshake(method: &str) -> bool {
    matches!(class(method), Class::Initialize | Class::Discover)
}

/// Whether the response comes only when something happens at the server, however long that takes.
pub fn waits_by_design(method: &str) -> bool {
    matches!(method, SUBSCRIPTIONS_LISTEN | TASKS_RESULT)
}

/// Whether it is about a task. The eras do not share tasks.
pub fn is_about_tasks(method: &str) -> bool {
    method.starts_with("tasks/")
}

/// Whether a modern server may answer it with a request for input.
pub fn may_require_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// The capability that a client needs to answer this request of a server. `None`: a server sends no such request, or needs none.
pub fn client_capability(method: &str) -> Option<&'static str> {
    match method {
        ELICITATION_CREATE => Some("elicitation"),
        SAMPLING_CREATE_MESSAGE => Some("sampling"),
        ROOTS_LIST => Some("roots"),
        _ => None,
    }
}
