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
    /// The list of variables that it gets from the environment of the host.
    pub forwarded: Option<&'static str>,
    /// The URL of a remote server.
    pub urls: &'static [&'static str],
    /// The headers of every request, as a path.
    pub headers: &'static str,
    /// The variable with a token for every request.
    pub bearer: Option<&'static str>,
    /// The headers whose values are in variables.
    pub header_variables: Option<&'static str>,
    /// What `type` is for a server that is started, where it must be given.
    pub local: &'static str,
    /// The values of `type` that the host itself provides: no servers to us.
    pub built_in: &'static [&'static str],
    /// Whether an entry without a command and a URL is a server that an extension of the host provides.
    pub has_extensions: bool,
    /// Whether servers are in a list, and each has a `name`.
    pub is_list: bool,
}

impl Members {
    /// The members of a server that say how it is reached.
    pub fn of_reach(&self) -> Vec<&'static str> {
        let headers = self.headers.split('/').next();
        let names = [Some(self.command), self.args, Some(self.env), self.forwarded];
        let remote = [headers, self.bearer, self.header_variables];
        names.into_iter().chain(self.urls.iter().copied().map(Some)).chain(remote).flatten().collect()
    }
}

/// As Claude writes it, and most hosts.
pub(super) const COMMON: Members = Members {
    command: "command",
    args: Some("args"),
    env: "env",
    forwarded: None,
    urls: &["url", "serverUrl", "httpUrl"],
    headers: "headers",
    bearer: None,
    header_variables: None,
    local: "stdio",
    built_in: &[],
    has_extensions: false,
    is_list: false,
};

pub(super) const COPILOT: Members = Members { local: "local", ..COMMON };

pub(super) const ZED: Members = Members { has_extensions: true, ..COMMON };

pub(super) const OPENCODE: Members = Members { args: None, env: "environment", local: "local", ..COMMON };
