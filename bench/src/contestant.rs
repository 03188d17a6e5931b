//! Who is measured, and how each is started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::case::Case;
use crate::options::{Measure, Peer, Shape};
use crate::running::{Address, Running, Server};

pub(crate) struct Contestant {
    pub(crate) name: String,
    kind: Kind,
}

enum Kind {
    /// The client calls the server.
    Direct,
    Pump,
    Relay,
    Library,
    Regrow(PathBuf),
    Peer(Peer),
}

pub(crate) const RELAY: &str = "relay";
pub(crate) const REGROW: &str = "regrow";
pub(crate) const AGAINST: &str = "against";

/// The executable that is named, or a new one.
pub(crate) fn regrow_path(named: Option<&Path>) -> io::Result<PathBuf> {
    named.map_or_else(crate::build::regrow, |path| Ok(path.to_owned()))?.canonicalize()
}

/// Those whose instructions are counted.
pub(crate) fn counted(regrow: Option<&Path>, against: Option<&Path>) -> io::Result<Vec<Contestant>> {
    let mut all = vec![(RELAY, Kind::Relay), (REGROW, Kind::Regrow(regrow_path(regrow)?))];
    if let Some(against) = against {
        all.push((AGAINST, Kind::Regrow(against.canonicalize()?)));
    }
    Ok(all.into_iter().map(|(name, kind)| Contestant { name: name.to_owned(), kind }).collect())
}

pub(crate) fn contestants(options: &Measure) -> io::Result<Vec<Contestant>> {
    let is_chosen = |name: &str| match options.quick && options.only.is_empty() {
        true => matches!(name, RELAY | REGROW | AGAINST),
        false => options.only.is_empty() || options.only.iter().any(|only| only == name),
    };
    let mut all = vec![
        ("direct", Kind::Direct),
        ("pump", Kind::Pump),
        (RELAY, Kind::Relay),
        ("library", Kind::Library),
    ];
    if is_chosen(REGROW) {
        all.push((REGROW, Kind::Regrow(regrow_path(options.regrow.as_deref())?)));
    }
    if let Some(against) = &options.against {
        all.push((AGAINST, Kind::Regrow(against.canonicalize()?)));
    }
    all.extend(options.peer.iter().map(|peer| (peer.name.as_str(), Kind::Peer(peer.clone()))));
    let chosen = all.into_iter().filter(|(name, _)| is_chosen(name));
    Ok(chosen.map(|(name, kind)| Contestant { name: name.to_owned(), kind }).collect())
}

impl Contestant {
    pub(crate) fn takes_part(&self, shape: Shape) -> bool {
        match &self.kind {
            Kind::Direct => matches!(shape, Shape::StdioStdio | Shape::HttpHttp),
            Kind::Pump => shape == Shape::StdioStdio,
            Kind::Library => !shape.client_is_http(),
            Kind::Relay | Kind::Regrow(_) => true,
            Kind::Peer(peer) => peer.shape == shape,
        }
    }

    pub(crate) fn is_proxy(&self) -> bool {
        !matches!(self.kind, Kind::Direct)
    }

    /// Starts it in front of this server. What it keeps on disk goes into `folder`.
    pub(crate) fn start(&self, case: &Case, server: &Server, folder: &Path) -> io::Result<Running> {
        match self.command(case, server, folder)? {
            Some((command, address)) => Running::start(command, address),
            None => server.alone(),
        }
    }

    /// How it is started, and how it says where it listens if clients connect over HTTP. None without a proxy.
    pub(crate) fn command(
        &self,
        case: &Case,
        server: &Server,
        folder: &Path,
    ) -> io::Result<Option<(Command, Option<Address>)>> {
        let own = std::env::current_exe()?;
        let (mut command, address) = match &self.kind {
            Kind::Direct => return Ok(None),
            Kind::Pump => {
                let mut command = Command::new(own);
                command.args(["pump", "--"]).args(server.command());
                (command, None)
            }
            Kind::Relay => {
                let mut command = Command::new(own);
                command.arg("relay");
                if case.shape.client_is_http() {
                    command.arg("--http");
                }
                lead_to(server, &mut command);
                (command, Some(Address::Stdout))
            }
            Kind::Library => {
                let mut command = Command::new(own);
                command.arg("library");
                lead_to(server, &mut command);
                (command, None)
            }
            Kind::Regrow(path) => (regrow(path, case, server, folder)?, Some(Address::Stderr)),
            Kind::Peer(peer) => {
                let port = free_port()?;
                (peer_command(peer, port, server), Some(Address::Port(port)))
            }
        };
        isolate(&mut command, folder);
        Ok(Some((command, address.filter(|_| case.shape.client_is_http()))))
    }
}

/// The arguments of our own proxies.
fn lead_to(server: &Server, command: &mut Command) {
    match server.url() {
        Some(url) => command.args(["--url", url]),
        None => command.arg("--").args(server.command()),
    };
}

/// Nothing that the user has is read or changed.
pub(crate) fn isolate(command: &mut Command, folder: &Path) {
    for variable in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
        command.env(variable, folder);
    }
    command.env("XDG_RUNTIME_DIR", folder);
}

fn regrow(path: &Path, case: &Case, server: &Server, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(path);
    if case.shape.client_is_http() {
        let entry = match (server.url(), server.command()) {
            (Some(url), _) => json!({ "type": "http", "url": url }),
            (None, command) => json!({ "command": command[0], "args": command[1..] }),
        };
        let file = folder.join("mcp.json");
        std::fs::write(&file, json!({ "mcpServers": { "echo": entry } }).to_string())?;
        command.args(["serve", "--port", "0"]).arg(file);
    } else {
        command.args(["wrap", "--name", "echo"]);
        match server.url() {
            Some(url) => command.arg(url),
            None => command.arg("--").args(server.command()),
        };
    }
    Ok(command)
}

fn peer_command(peer: &Peer, port: u16, server: &Server) -> Command {
    let mut words = vec![];
    for word in &peer.command {
        match word.as_str() {
            "{server}" => words.extend_from_slice(server.command()),
            _ => words.push(
                word.replace("{url}", server.url().unwrap_or_default()).replace("{port}", &port.to_string()),
            ),
        }
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
