//! The names that hosts have for the members of a server.

/// How a host writes a server.
#[derive(Debug)]
pub struct Members {
    /// The server's name, where servers are in a list.
    pub name: Option<&'static str>,
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
    /// The member that the headers are in, if they are not in the entry itself.
    pub headers_in: Option<&'static str>,
    /// The variable that holds the bearer token of a remote server, by name.
    pub bearer_variable: Option<&'static str>,
    /// The variables that hold headers, by name.
    pub header_variables: Option<&'static str>,
    /// The variables of its own environment that it passes on, in a list of names.
    pub passed_variables: Option<&'static str>,
    /// What `type` is for a server that is started, where it must be given.
    pub local: &'static str,
    /// Whether an entry without a command and a URL is a server that an extension of the host provides.
    pub has_extensions: bool,
    /// Whether it writes the variables of a remote server, too, though there are none, and ignores the headers of one that it starts.
    pub has_env_always: bool,
    /// Members of the host's own that look like options of ours.
    pub own: &'static [&'static str],
}

impl Members {
    /// The members of a server that say how it is reached.
    pub fn of_reach(&self) -> Vec<&'static str> {
        let names = [self.command, self.env, self.headers];
        let others =
            [self.args, self.headers_in, self.bearer_variable, self.header_variables, self.passed_variables];
        names.into_iter().chain(others.into_iter().flatten()).chain(self.urls.iter().copied()).collect()
    }
}

/// As Claude writes it, and most hosts.
pub(super) const COMMON: Members = Members {
    name: None,
    command: "command",
    args: Some("args"),
    env: "env",
    urls: &["url", "serverUrl", "httpUrl"],
    headers: "headers",
    headers_in: None,
    bearer_variable: None,
    header_variables: None,
    passed_variables: None,
    local: "stdio",
    has_extensions: false,
    has_env_always: false,
    own: &[],
};

pub(super) const COPILOT: Members = Members { local: "local", ..COMMON };

pub(super) const ZED: Members = Members { has_extensions: true, ..COMMON };

pub(super) const OPENCODE: Members = Members { args: None, env: "environment", local: "local", ..COMMON };

pub(super) const CODEX: Members = Members {
    urls: &["url"],
    headers: "http_headers",
    bearer_variable: Some("bearer_token_env_var"),
    header_variables: Some("env_http_headers"),
    passed_variables: Some("env_vars"),
    ..COMMON
};

pub(super) const GOOSE: Members = Members {
    command: "cmd",
    env: "envs",
    urls: &["uri"],
    passed_variables: Some("env_keys"),
    has_extensions: true,
    has_env_always: true,
    ..COMMON
};

pub(super) const CONTINUE: Members =
    Members { name: Some("name"), urls: &["url"], headers_in: Some("requestOptions"), ..COMMON };

pub(super) const LIBRECHAT: Members = Members { urls: &["url"], ..COMMON };

pub(super) const HERMES: Members = Members { urls: &["url"], own: &["connect_timeout"], ..COMMON };
