//! The names that hosts have for the members of a server.

/// How a host writes a server.
#[derive(Debug)]
pub struct Members {
    /// The program.
    pub command: &'static str,
    /// Its arguments. None if they follow the program in one list.
    pub args: Option<&'static str>,
    /// The variables that it gets.
    pub env: &'static str,
    /// The URL of a remote server.
    pub urls: &'static [&'static str],
    /// The headers of every request.
    pub headers: &'static str,
    /// What `type` is for a server that is started, where it must be given.
    pub local: &'static str,
    /// Whether an entry without a command and a URL is a server that an extension of the host provides.
    pub has_extensions: bool,
}

impl Members {
    /// The members of a server that say how it is reached.
    pub fn of_reach(&self) -> Vec<&'static str> {
        let names = [self.command, self.env, self.headers];
        names.into_iter().chain(self.args).chain(self.urls.iter().copied()).collect()
    }
}

/// As Claude writes it, and most hosts.
pub(super) const COMMON: Members = Members {
    command: "command",
    args: Some("args"),
    env: "env",
    urls: &["url", "serverUrl", "httpUrl"],
    headers: "headers",
    local: "stdio",
    has_extensions: false,
};

pub(super) const COPILOT: Members = Members { local: "local", ..COMMON };

pub(super) const ZED: Members = Members { has_extensions: true, ..COMMON };

pub(super) const OPENCODE: Members = Members { args: None, env: "environment", local: "local", ..COMMON };
