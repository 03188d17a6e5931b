//! What can be said on the command line, and in the environment instead.

mod audit;
mod parse;
pub(crate) mod sign_in;
mod words;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use regrow_auth::settings::Settings;
use regrow_gateway::operate::DEFAULT_PORT;
use regrow_gateway::units::{self, Limit};

use audit::AuditLog;
pub(crate) use parse::parse;
use sign_in::{Accounts, Login, Logout, OAuthClient, SignIn};

/// Keeps MCP connections alive: a server may die, the client's connection does not.
#[derive(Parser, Debug)]
#[command(name = "regrow", version, about, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
}

// Without a doc comment, which would become the text of the command above.
#[derive(Args, Debug)]
pub(crate) struct Everywhere {
    /// Whether output is coloured; auto: on a terminal, unless NO_COLOR is set. CLICOLOR_FORCE colours it everywhere
    #[arg(long = "color", value_enum, value_name = "WHEN", default_value_t, global = true)]
    pub(crate) colour: Colour,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a server, or connect to a remote one, and keep the client's connection alive
    ///
    /// Put this in front of a server's command in the configuration of any MCP host, or pass the URL of a server.
    /// Standard input and output carry the protocol, logs go to standard error. SIGHUP asks for a planned restart of the
    /// server, or of the session with it.
    #[command(
        override_usage = "regrow wrap [OPTIONS] [--] <COMMAND>...\n       regrow wrap [OPTIONS] <URL>",
        after_help = "Examples:\n  regrow wrap npx -y @modelcontextprotocol/server-everything\n  \
                      regrow wrap --bearer-env TOKEN https://mcp.example.com/mcp"
    )]
    Wrap(Box<Wrap>),

    /// Serve all servers of a configuration behind one endpoint
    ///
    /// Reads the files that hosts have: mcpServers, or servers with inputs. Without a name it reads .mcp.json here, or the
    /// file of a host that you have, and says which; without any it serves a demo server. The file is reloaded when it changes and
    /// on SIGHUP; only servers that changed are restarted.
    #[command(after_help = "Examples:\n  regrow serve\n  regrow serve --transport stdio team.json\n  \
                            regrow serve --host 0.0.0.0 --token-env REGROW_TOKEN --tls-cert cert.pem --tls-key key.pem")]
    Serve(Box<Serve>),

    /// Connect to every server of a configuration and show which work
    ///
    /// Reads the files that hosts have: mcpServers, or servers with inputs. Without a name it reads .mcp.json here, or the
    /// file of a host that you have, and says which. Exits 1 if a server is broken, 64 if the whole configuration is.
    Check(Check),

    /// Explain what is wrong on this machine, and what to do next
    ///
    /// Looks at regrow itself, PATH, proxies and certificates, the folders and accounts of regrow, and the configurations of all hosts that you
    /// have, and tries each server. It changes nothing. Exits 1 if something is broken, 0 if there are only hints.
    Doctor(Doctor),

    /// Allow the servers of a configuration that came with a folder to run
    ///
    /// `regrow serve` and `regrow check` run nothing from a file that they find in the working directory, such as .mcp.json of a repository,
    /// until you allow it: they ask, or name this command. It shows what would run, and allows exactly that: when the file changes, Regrow
    /// asks again. A file that you name on the command line needs no such permission.
    Trust(Trust),

    /// Sign in to a remote server
    ///
    /// Opens a browser, and stores the account for `wrap`, `serve` and `check`, which keep it signed in. Connections that wait for it go on
    /// within two seconds.
    #[command(after_help = "Examples:\n  regrow login https://mcp.example.com/mcp\n  \
                            regrow login --no-browser https://mcp.example.com/mcp    (over SSH)")]
    Login(Box<Login>),

    /// Sign out of a remote server and remove the account
    ///
    /// Ends the tokens at the authorization server where that supports it. Exits 1 if that failed; the account is removed all the same.
    Logout(Logout),

    /// List the accounts at remote servers
    Accounts(Accounts),

    /// Put the servers of a host's configuration behind `regrow wrap`
    ///
    /// Shows what changes and asks first. Comments, order and everything else in the file stay as they are; a copy of
    /// it is kept beside it. --undo takes regrow out again. Without a file it shows what would change in the configurations of all hosts that
    /// you have; --all changes them.
    Adopt(Adopt),

    /// See what regrow does: a server dies and hangs while it is called, without regrow and with it
    ///
    /// Takes about 12 seconds and needs nothing else. Exits 1 if a promise was broken, and says which.
    Demo(Demo),

    /// Test how a client or a proxy copes with servers that misbehave
    ///
    /// Runs scenarios with a misbehaving server, and reports which promises the program keeps. See docs/chaos.md.
    Chaos(crate::chaos::Chaos),

    /// Show the state of the servers of a running gateway
    ///
    /// Exits 1 if a server is broken: it failed, and waits for a retry or is parked.
    Status(Status),

    /// Restart the session with a server after its calls have ended
    Reconnect(ToServer),

    /// Let a server finish its calls, then stop it until `regrow wake`
    Drain(ToServer),

    /// Stop a server and refuse calls to it until `regrow wake`
    Park(ToServer),

    /// Start a server that was drained or parked, or that waits for a retry
    Wake(ToServer),

    /// Reset the restart budget of a server
    ResetBudget(ToServer),

    /// Show what a server changed since it was approved, and approve it
    ///
    /// What a server offers at first sight is approved: its tools and prompts, and the command or URL that it is reached by. When one of them
    /// changes, `regrow serve` reports it, and with --pin hold does not use it until this command approves it. At a terminal it asks first.
    Approve(Box<Approve>),

    /// Show the last events of a server and the last lines of its stderr
    Logs(Logs),

    /// Change the log level of the gateway
    LogLevel(ToLog),

    /// Print the completion script for a shell
    #[command(
        after_help = "Examples:\n  regrow completions bash > ~/.local/share/bash-completion/completions/regrow\n  \
                            regrow completions zsh > ~/.zfunc/_regrow    (a folder of your fpath)\n  \
                            regrow completions fish > ~/.config/fish/completions/regrow.fish\n  \
                            regrow completions powershell >> $PROFILE"
    )]
    Completions(Completions),

    /// Write the man pages into a folder
    #[command(after_help = "Example:\n  regrow man ~/.local/share/man/man1 && man regrow-wrap")]
    Man(Man),
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder; it is created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Where the gateway is, and how to get in.
#[derive(Args, Debug)]
pub(crate) struct GatewayArguments {
    /// The address of the gateway, as `regrow serve` prints it [default: the gateway that runs on this machine]
    #[arg(long, value_name = "URL", env = "REGROW_URL")]
    pub(crate) url: Option<String>,

    /// Send the value of this variable as the operator token [default: the token of your own gateway on this machine, or
    /// REGROW_ADMIN_TOKEN]
    #[arg(long, value_name = "NAME", env = "REGROW_ADMIN_TOKEN_ENV")]
    pub(crate) admin_token_env: Option<String>,

    /// Trust the certificates in this file (PEM), in addition to the system's
    #[arg(long, value_name = "FILE", env = "REGROW_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Where a gateway is looked for that was not found. A test compares it with the port that gateways listen on.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8732";

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Show it again and again until interrupted: redrawn in place on a terminal, else one after the other
    #[arg(long)]
    pub(crate) watch: bool,

    /// How often --watch refreshes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, requires = "watch")]
    pub(crate) interval: Duration,

    #[command(flatten)]
    pub(crate) gateway: GatewayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ToServer {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) gateway: GatewayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct Trust {
    /// The configuration to trust [default: the one in this folder]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Approve {
    /// The server, as its file calls it
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Only this tool or prompt, as the server calls it
    #[arg(value_name = "TOOL")]
    pub(crate) tool: Option<String>,

    /// The file that describes the server, if several files have one of this name
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Approve without asking
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) gateway: GatewayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) server: String,

    /// Follow new lines until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) gateway: GatewayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ToLog {
    /// The log level
    #[arg(value_enum, value_name = "LEVEL")]
    pub(crate) level: LogLevel,

    #[command(flatten)]
    pub(crate) gateway: GatewayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Show every way to lose a server that we know, also planned restarts and many calls at once
    #[arg(long)]
    pub(crate) all: bool,

    /// Print the measured numbers as JSON; the story goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The configuration to read
    #[arg(value_name = "CONFIG")]
    pub(crate) file: Option<PathBuf>,

    /// Another one (repeatable); if two files have a server of the same name, the later file wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,

    /// Only this server
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,

    /// How long each server may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    pub(crate) timeout: Duration,

    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// How long each server may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    pub(crate) timeout: Duration,

    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The configuration to read
    #[arg(value_name = "CONFIG")]
    pub(crate) file: Option<PathBuf>,

    /// Another one (repeatable); if two files have a server of the same name, the later file wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,

    /// How clients connect
    #[arg(long, value_enum, default_value_t = Transport::Http, env = "REGROW_TRANSPORT")]
    pub(crate) transport: Transport,

    /// How a failed tool call is reported: as a tool result that a model can read, or as a JSON-RPC error
    #[arg(long, value_enum, default_value_t = Errors::Tool, env = "REGROW_ERRORS")]
    pub(crate) errors: Errors,

    /// How long a list waits for servers whose tools are not known yet
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration, env = "REGROW_LIST_WAIT")]
    pub(crate) list_wait: Duration,

    /// How long calls may go on after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, env = "REGROW_DRAIN_TIMEOUT")]
    pub(crate) drain_timeout: Duration,

    /// Do not cache the tools and protocol eras of servers in the user's cache folder
    #[arg(long, env = "REGROW_NO_CACHE")]
    pub(crate) no_cache: bool,

    /// What to do about a tool, prompt or command that changed since it was approved: see `regrow approve`. The option "pin" of a server
    /// takes precedence
    #[arg(long, value_enum, default_value_t = Pin::Warn, env = "REGROW_PIN")]
    pub(crate) pin: Pin,

    /// The largest message that is accepted from a client
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size, env = "REGROW_MAX_LINE")]
    pub(crate) max_line: usize,

    /// The log level
    #[arg(long, value_enum, default_value_t = LogLevel::Info, env = "REGROW_LOG_LEVEL")]
    pub(crate) log_level: LogLevel,

    /// The log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "REGROW_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,

    #[command(flatten)]
    pub(crate) audit: AuditLog,

    #[command(flatten)]
    pub(crate) http: HttpFace,
}

const HTTP: &str = "Options for clients over HTTP";

#[derive(Args, Debug)]
#[command(next_help_heading = HTTP)]
pub(crate) struct HttpFace {
    /// The address to listen on. Other than on this machine, a token is required
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", env = "REGROW_HOST")]
    pub(crate) host: IpAddr,

    /// The port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT, env = "REGROW_PORT")]
    pub(crate) port: u16,

    /// How many threads carry calls [default: one for each processor, at most 4]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64), env = "REGROW_THREADS")]
    pub(crate) threads: Option<u16>,

    /// Clients must send the value of this variable as their bearer token (repeatable). Clients with different tokens share no session. A
    /// client token opens /mcp only: no status, logs or commands
    #[arg(long = "token-env", value_name = "NAME", env = "REGROW_TOKEN_ENV", value_delimiter = ',')]
    pub(crate) token_envs: Vec<String>,

    /// Accept the value of this variable as the operator token: for commands, and if clients have tokens also for status, metrics and
    /// logs. `regrow status` and the like do not need it on the same machine as the same user
    #[arg(long, value_name = "NAME", env = "REGROW_ADMIN_TOKEN_ENV")]
    pub(crate) admin_token_env: Option<String>,

    /// Which users of this machine may connect without a token
    #[arg(long, value_enum, default_value_t = Users::Own, env = "REGROW_ALLOW_USERS")]
    pub(crate) allow_users: Users,

    /// A host name that clients may use, such as mcp.example (repeatable)
    #[arg(long = "allow-host", value_name = "NAME[:PORT]", env = "REGROW_ALLOW_HOST", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,

    /// An origin of web pages that may connect, with scheme and port (repeatable)
    #[arg(long = "allow-origin", value_name = "ORIGIN", env = "REGROW_ALLOW_ORIGIN", value_delimiter = ',')]
    pub(crate) origins: Vec<String>,

    /// The certificate for HTTPS (PEM)
    #[arg(long, value_name = "FILE", env = "REGROW_TLS_CERT", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", env = "REGROW_TLS_KEY", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Also serve the older HTTP+SSE transport at /sse
    #[arg(long, env = "REGROW_SSE")]
    pub(crate) sse: bool,

    /// Accept every client that can reach the address, without a token
    #[arg(long, env = "REGROW_INSECURE")]
    pub(crate) insecure: bool,

    /// How long an idle client session is kept
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = units::duration, env = "REGROW_SESSION_IDLE")]
    pub(crate) session_idle: Duration,

    /// At most this many clients at a time
    #[arg(long, value_name = "N", default_value_t = 4096, env = "REGROW_MAX_CLIENTS")]
    pub(crate) max_clients: usize,

    /// How much memory clients may use for request bodies, waiting calls and unread responses. Over it, requests are refused, first of
    /// the token that uses most [default: a quarter of the memory of the cgroup or machine, at least 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, env = "REGROW_MEMORY_BUDGET")]
    pub(crate) memory_budget: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct Adopt {
    /// The host's configuration, such as claude_desktop_config.json, .mcp.json or ~/.codex/config.toml [default: those of all hosts that you have]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Change the configurations of all hosts that you have; without it, and without a file, they are only shown
    #[arg(long, conflicts_with = "file")]
    pub(crate) all: bool,

    /// Only this server (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Vec<String>,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// What the host is to call regrow by [default: regrow if the host will find it by that name, otherwise its absolute path]
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,

    /// Take regrow out again
    #[arg(long)]
    pub(crate) undo: bool,

    /// Change the file without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Wrap {
    /// The server's name in messages and logs [default: from the command or the URL]
    #[arg(long, env = "REGROW_NAME")]
    pub(crate) name: Option<String>,

    /// Set a variable in the server's environment; NAME alone copies it from Regrow's (repeatable)
    #[arg(help_heading = COMMANDS, short = 'e', long = "env", value_name = "NAME[=VALUE]", env = "REGROW_ENV", value_delimiter = None)]
    pub(crate) variables: Vec<String>,

    /// Pass only a list of common variables and those of -e, instead of Regrow's whole environment
    #[arg(help_heading = COMMANDS, long, env = "REGROW_CLEAN_ENV")]
    pub(crate) clean_env: bool,

    /// Let the server gain rights through programs such as sudo (Linux)
    #[arg(help_heading = COMMANDS, long, env = "REGROW_ALLOW_NEW_PRIVILEGES")]
    pub(crate) allow_new_privileges: bool,

    /// Start the server in this directory
    #[arg(help_heading = COMMANDS, long, value_name = "DIR", env = "REGROW_CWD")]
    pub(crate) cwd: Option<PathBuf>,

    /// How long a call may take; progress resets the timer, up to an hour
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = units::limit, env = "REGROW_CALL_TIMEOUT")]
    pub(crate) call_timeout: Limit,

    /// How long the server may take to start and complete the handshake
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, env = "REGROW_CONNECT_TIMEOUT")]
    pub(crate) connect_timeout: Duration,

    /// How long a call that has not run yet waits while attempts to connect fail, if the server was healthy within the last minute
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::limit_or_off, env = "REGROW_PATIENCE")]
    pub(crate) patience: Limit,

    /// Which calls are retried when it is unknown whether they ran
    #[arg(long, value_enum, default_value_t = Replay::Safe, env = "REGROW_REPLAY")]
    pub(crate) replay: Replay,

    /// Tools that are safe to call again, such as 'get_*' (repeatable)
    #[arg(long = "safe-tool", value_name = "GLOB", env = "REGROW_SAFE_TOOL", value_delimiter = ',')]
    pub(crate) safe_tools: Vec<String>,

    /// How a failed tool call is reported: as a tool result that a model can read, or as a JSON-RPC error
    #[arg(long, value_enum, default_value_t = Errors::Tool, env = "REGROW_ERRORS")]
    pub(crate) errors: Errors,

    /// Include the first and last lines of the server's stderr in every error, not only after a failed start
    #[arg(help_heading = COMMANDS, long, env = "REGROW_STDERR_IN_ERRORS")]
    pub(crate) stderr_in_errors: bool,

    /// What to do with the server's stderr: pass it through, or only keep its first and last lines
    #[arg(help_heading = COMMANDS, long, value_enum, default_value_t = StderrMode::Pass, env = "REGROW_STDERR")]
    pub(crate) stderr: StderrMode,

    /// More faults than N in this many seconds park the server: Regrow then retries slowly, and on the next call
    #[arg(long, value_name = "N/SECONDS", default_value = "5/180", value_parser = units::budget, env = "REGROW_BUDGET")]
    pub(crate) budget: (u32, Duration),

    /// Probe the server after it has sent nothing for this long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::limit, env = "REGROW_IDLE_PROBE")]
    pub(crate) idle_probe: Limit,

    /// During a call, probe the server after this much silence; restart a server that has answered such a probe before and now
    /// stays silent for as long again
    #[arg(long, value_name = "TIME", default_value = "none", value_parser = units::limit_or_off, env = "REGROW_HANG_TIMEOUT")]
    pub(crate) hang_timeout: Limit,

    /// At most this many calls may be pending; more are refused at once
    #[arg(long, value_name = "N", default_value_t = 4096, env = "REGROW_QUEUE")]
    pub(crate) queue: u32,

    /// The largest message that is forwarded
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size, env = "REGROW_MAX_LINE")]
    pub(crate) max_line: usize,

    /// Restart the server, after its calls, when this file or folder changes (repeatable)
    #[arg(long, value_name = "PATH", env = "REGROW_WATCH", value_delimiter = None)]
    pub(crate) watch: Vec<PathBuf>,

    /// The log level
    #[arg(long, value_enum, default_value_t = LogLevel::Info, env = "REGROW_LOG_LEVEL")]
    pub(crate) log_level: LogLevel,

    /// The log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "REGROW_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,

    #[command(flatten)]
    pub(crate) remote: RemoteArguments,

    /// The address of a remote server: http://... or https://...; env:NAME reads it from a variable, if it holds a secret
    #[arg(value_name = "URL", required_unless_present = "command", conflicts_with = "command")]
    pub(crate) url: Option<String>,

    /// The server's command, as you would start it without regrow: everything from the first word that is not an option of `regrow wrap`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const COMMANDS: &str = "Options for local servers";
const REMOTE: &str = "Options for remote servers";

#[derive(Args, Debug)]
#[command(next_help_heading = REMOTE)]
pub(crate) struct RemoteArguments {
    /// Send this header with every request (repeatable). Other users of this machine can see it: for a secret use
    /// --header-file or --bearer-env
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", env = "REGROW_HEADER", value_delimiter = None)]
    pub(crate) headers: Vec<String>,

    /// Send the headers in this file, one per line, such as "Authorization: Bearer ..."; reloaded when it changes
    #[arg(long, value_name = "FILE", env = "REGROW_HEADER_FILE")]
    pub(crate) header_file: Option<PathBuf>,

    /// Send the value of this variable as a bearer token
    #[arg(long, value_name = "NAME", env = "REGROW_BEARER_ENV", conflicts_with = "header_file")]
    pub(crate) bearer_env: Option<String>,

    /// Use the account with this label (see `regrow login`), where you have several at this server
    #[arg(long, value_name = "LABEL", env = "REGROW_ACCOUNT")]
    pub(crate) account: Option<String>,

    #[command(flatten)]
    pub(crate) client: OAuthClient,

    /// Whether to open a browser when a client's request needs sign-in: where one can be opened, or never
    #[arg(long, value_enum, default_value_t = SignIn::Auto, env = "REGROW_SIGN_IN")]
    pub(crate) sign_in: SignIn,

    /// The protocol era that the server speaks: handshake and sessions, or stateless (2026-07-28)
    #[arg(long, value_enum, default_value_t = Era::Auto, env = "REGROW_ERA")]
    pub(crate) era: Era,

    /// Do not remember the server's era in the user's cache folder
    #[arg(long, env = "REGROW_NO_CACHE")]
    pub(crate) no_cache: bool,

    /// Trust the certificates in this file (PEM), in addition to the system's
    #[arg(long, value_name = "FILE", env = "REGROW_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Present this client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "REGROW_CLIENT_CERT", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,

    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", env = "REGROW_CLIENT_KEY", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,

    /// How long connecting may take: DNS, TCP and TLS
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, env = "REGROW_REACH_TIMEOUT")]
    pub(crate) reach_timeout: Duration,

    /// How long to wait for the start of a response
    #[arg(long, value_name = "TIME", default_value = "none", value_parser = units::limit, env = "REGROW_HEADER_TIMEOUT")]
    pub(crate) header_timeout: Limit,

    /// How long a response may pause
    #[arg(long, value_name = "TIME", default_value = "none", value_parser = units::limit, env = "REGROW_STREAM_TIMEOUT")]
    pub(crate) stream_timeout: Limit,
}

impl RemoteArguments {
    /// How to sign in to the server.
    pub(crate) fn sign_in_settings(&self) -> Settings {
        self.client.settings(self.account.clone().unwrap_or_default(), self.ca_file.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pin {
    /// Nothing, and remember nothing
    Off,
    /// Report it
    Warn,
    /// Report it, and do not use it until it is approved
    Hold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Users {
    /// The user who runs the gateway, and root
    Own,
    /// All users
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// Streamable HTTP, any number of clients
    Http,
    /// Standard input and output, one client
    Stdio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Era {
    /// Detect it
    Auto,
    /// Up to 2025-11-25
    Legacy,
    /// From 2026-07-28
    Modern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Replay {
    /// None
    Never,
    /// Protocol reads, and tools named by --safe-tool
    Safe,
    /// Also tools annotated as read-only or idempotent
    Hints,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Errors {
    /// A tool result with isError
    Tool,
    /// A JSON-RPC error
    Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StderrMode {
    /// Pass it through, and keep its last lines
    Pass,
    /// Only keep its last lines
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// Only permanent failures
    Error,
    /// Faults
    Warn,
    /// Every change of state
    Info,
    /// Details
    Debug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines of text
    Text,
    /// One JSON object per line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_option_of_wrap_can_be_set_in_the_environment() {
        let command = Arguments::command();
        let wrap = command.find_subcommand("wrap").unwrap();
        for argument in wrap.get_opts() {
            let name = argument.get_env().unwrap_or_else(|| panic!("{} has none", argument.get_id()));
            assert!(name.to_str().unwrap().starts_with("REGROW_"));
        }
    }

    #[test]
    fn the_gateway_is_looked_for_where_it_listens() {
        let port = regrow_gateway::operate::DEFAULT_PORT;
        assert_eq!(DEFAULT_URL, format!("http://127.0.0.1:{port}"));
    }

    #[test]
    fn what_follows_the_dashes_is_the_servers_whatever_it_looks_like() {
        let arguments = Arguments::parse_from(["regrow", "wrap", "--", "server", "--name", "-x", "--"]);
        let Command::Wrap(wrap) = arguments.command else { panic!("{:?}", arguments.command) };
        assert_eq!(wrap.command, ["server", "--name", "-x", "--"]);
        assert_eq!(wrap.name, None);
    }

    #[test]
    fn a_server_is_a_command_or_a_url_and_never_both_or_none() {
        let parse =
            |words: &str| Arguments::try_parse_from(words.split(' ')).map(|arguments| arguments.command);
        let Ok(Command::Wrap(wrap)) = parse("regrow wrap --era legacy http://host/mcp") else { panic!() };
        assert_eq!((wrap.url.as_deref(), wrap.command.len()), (Some("http://host/mcp"), 0));
        assert!(parse("regrow wrap").is_err());
        assert!(parse("regrow wrap http://host/mcp -- server").is_err());
    }
}

#[cfg(test)]
mod documents;
