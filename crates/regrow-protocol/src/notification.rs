//! The notifications of MCP.

/// The client has read the result of `initialize`.
pub const INITIALIZED: &str = "notifications/initialized";
/// The sender of a request no longer wants the response.
pub const CANCELLED: &str = "notifications/cancelled";
/// How far a request got.
pub const PROGRESS: &str = "notifications/progress";
/// A log message.
pub const MESSAGE: &str = "notifications/message";
/// A resource has changed.
pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
/// The list of tools has changed.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// The list of prompts has changed.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// The list of resources, or that of their templates, has changed.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// The client's folders have changed.
pub const ROOTS_LIST_CHANGED: &str = "notifications/roots/list_changed";
/// A subscription stream is open; modern era.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The state of a task has changed.
pub const TASKS_STATUS: &str = "notifications/tasks/status";
