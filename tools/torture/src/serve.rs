//! `regrow serve` under torture: a child of ours in front of several servers, and clients that come to it over HTTP.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::face::Face;
use super::history::History;
use super::lane::{Setup, Way};
use super::system::MARK;
use regrow_chaos::fetch::{Request, Response, fetch};
use regrow_chaos::program::{Program, clean};
use regrow_chaos::sync::lock;

/// No exchange lasts longer.
const LONGEST: Duration = Duration::from_secs(60);
/// How long calls may go on after SIGTERM.
const DRAIN: &str = "3s";
/// The variable with the token for commands.
const OPERATOR_TOKEN: &str = "TORTURE_OPERATOR_TOKEN";

/// A gateway that listens.
pub(crate) struct Gateway {
    pub(crate) program: Program,
    address: SocketAddr,
    /// What opens it for commands, as a header.
    operator: String,
}

impl Gateway {
    /// Starts it with this configuration, which is written into this folder.
    pub(crate) fn start(program: &Path, folder: &Path, mark: &str, config: &Value) -> io::Result<Gateway> {
        fs::create_dir_all(folder)?;
        let file = folder.join("servers.json");
        fs::write(&file, config.to_string())?;
        let mut command = clean(program);
        command.args(["serve", "--port", "0", "--no-cache", "--drain-timeout", DRAIN]);
        command.args(["--admin-token-env", OPERATOR_TOKEN]).env(OPERATOR_TOKEN, mark).arg(file);
        command.env(MARK, mark).env("NO_PROXY", "*").stdin(Stdio::null()).stdout(Stdio::null());
        let (found, address) = sync_channel(1);
        let hear = move |line: &str| {
            if let Some(address) = address_said_by(line) {
                let _ = found.try_send(address); // Said once; who waits for it takes it or has gone.
            }
        };
        let program = Program::start(&mut command, |_| (), hear)?;
        match address.recv_timeout(LONGEST) {
            Ok(address) => Ok(Gateway { program, address, operator: format!("Bearer {mark}") }),
            Err(_) => {
                let said = program.log().join("\n");
                Err(io::Error::other(format!("`regrow serve` does not listen:\n{said}")))
            }
        }
    }

    /// A page, read by an operator.
    pub(crate) fn page(&self, path: &str) -> io::Result<Response> {
        fetch(self.address, &Request { method: "GET", path, headers: &[], body: "" }, LONGEST)
    }

    /// The same, as JSON.
    pub(crate) fn json(&self, path: &str) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.page(path)?.text()?)?)
    }
}

/// Where it listens, if this line of the log says so.
fn address_said_by(line: &str) -> Option<SocketAddr> {
    line.split_once("serving at http://")?.1.split('/').next()?.parse().ok()
}

/// A client of one server behind a gateway, of either era.
#[derive(Clone)]
pub(crate) struct Guest {
    gateway: Arc<Gateway>,
    history: Arc<History>,
    server: String,
    /// At the address of all servers.
    together: bool,
    modern: bool,
    session: Arc<Mutex<Option<String>>>,
}

impl Guest {
    pub(crate) fn new(
        gateway: &Arc<Gateway>,
        history: &Arc<History>,
        server: String,
        setup: &Setup,
    ) -> Guest {
        let (gateway, history, session) = (gateway.clone(), history.clone(), Arc::default());
        let together = matches!(setup.way, Way::Serve(served) if served.together);
        Guest { gateway, history, server, together, modern: setup.modern_client, session }
    }

    fn post(&self, message: &Value) -> io::Result<()> {
        let session = lock(&self.session).clone().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (method, name) = (text(&message["method"]), text(&message["params"]["name"]));
        let headers = match self.modern {
            true => {
                vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", &*method), ("Mcp-Name", &*name)]
            }
            false => vec![("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", &*session)],
        };
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let path = match self.together {
            true => "/mcp".to_owned(),
            false => format!("/servers/{}/mcp", self.server),
        };
        let body = message.to_string();
        let request = Request { method: "POST", path: &path, headers: &headers, body: &body };
        let response = fetch(self.gateway.address, &request, LONGEST)?;
        if let Some(session) = response.header("mcp-session-id") {
            *lock(&self.session) = Some(session.to_owned());
        }
        for message in response.messages()? {
            let message = message?;
            if message.get("method").is_none() {
                self.history.answer(&message["id"], &message);
            }
        }
        Ok(())
    }

    /// Where its server stands, as an operator is told.
    fn report(&self) -> Option<Value> {
        let status = self.gateway.json("/status").ok()?;
        let is_ours = |server: &&Value| server["name"] == *self.server;
        status["servers"].as_array()?.iter().find(is_ours).cloned()
    }
}

impl Face for Guest {
    fn program(&self) -> &Program {
        &self.gateway.program
    }

    fn send(&self, id: u64, method: &str, mut params: Value) {
        if let (true, Some(tool)) = (self.together, params["name"].as_str()) {
            params["name"] = format!("{}__{tool}", self.server).into();
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let guest = self.clone();
        let begun = thread::Builder::new().spawn(move || {
            let _ = guest.post(&message); // Whether that brought an answer is in the history.
            guest.history.give_up(id);
        });
        if begun.is_err() {
            self.history.give_up(id);
        }
    }

    fn notify(&self, method: &str) {
        // What it thinks of that is seen by what follows.
        let _ = self.post(&json!({ "jsonrpc": "2.0", "method": method }));
    }

    fn children(&self) -> Option<usize> {
        None
    }

    fn says_ready(&self) -> Option<bool> {
        Some(self.report().is_some_and(|report| report["state"] == "ready"))
    }

    fn tasks(&self) -> Option<u64> {
        self.gateway.json("/status").ok()?["gateway"]["tasks"].as_u64()
    }

    fn restart(&self) {
        let path = format!("/admin/servers/{}/reconnect", self.server);
        let headers = [("Authorization", &*self.gateway.operator)];
        let order = Request { method: "POST", path: &path, headers: &headers, body: "{}" };
        // What comes of it is seen: another process must follow.
        let _ = fetch(self.gateway.address, &order, LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_where_it_listens() {
        let address = "127.0.0.1:4711".parse().ok();
        assert_eq!(address_said_by("regrow: serving at http://127.0.0.1:4711/mcp"), address);
        assert_eq!(address_said_by("regrow: using .mcp.json"), None);
    }
}
