//! Calls over HTTP: one connection for each call in flight.

use std::cell::RefCell;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use memchr::memmem;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use super::Load;
use super::call::Calls;
use super::recorder::{Recorder, Tally};
use crate::frame;
use crate::http1::{Message, Wire};
use crate::options::Era;

pub(crate) struct Site {
    address: SocketAddr,
    /// `/mcp`, unless that is unknown there.
    path: &'static str,
    /// What the tool is called there. Some proxies put the server's name before it.
    tool: Option<String>,
    session: Option<String>,
}

impl Site {
    pub(super) fn new(address: SocketAddr) -> Site {
        Site { address, path: "/mcp", tool: None, session: None }
    }

    pub(super) async fn greet(&mut self, calls: &Calls) -> io::Result<()> {
        let mut connection = Connection::open(self.address).await?;
        for message in calls.greeting() {
            let mut response = connection.post(&self.head(&message, calls.era), message.as_bytes()).await?;
            if self.session.is_none() && response.start().contains(" 404 ") {
                self.path = "/";
                response = connection.post(&self.head(&message, calls.era), message.as_bytes()).await?;
            }
            if let Some(session) = response.header("mcp-session-id") {
                self.session = Some(session.to_owned());
            }
            if Calls::is_request(&message) {
                let mut answered = false;
                for message in response.messages() {
                    answered |= Calls::is_greeting_response(message)?;
                    let tool = frame::string_member(message, "name").map(String::from_utf8_lossy);
                    self.tool = tool.map(|tool| tool.into_owned()); // The last response is the list.
                }
                if !answered {
                    let text = format!("the greeting failed: {}", response.start());
                    return Err(io::Error::other(text));
                }
            }
        }
        Ok(())
    }

    /// A client without a session, at the same address.
    pub(crate) fn another(&self) -> Site {
        Site::new(self.address)
    }

    /// How many tools are listed.
    pub(crate) async fn tools(&self, calls: &Calls) -> io::Result<usize> {
        let list = calls.greeting().pop().expect("a greeting ends with a list");
        let head = self.head(&list, calls.era);
        let response = Connection::open(self.address).await?.post(&head, list.as_bytes()).await?;
        let tools = response
            .messages()
            .into_iter()
            .map(|message| memmem::find_iter(message, "\"inputSchema\"").count());
        Ok(tools.sum())
    }

    /// All headers of a request with this body, except the length.
    fn head(&self, body: &str, era: Era) -> String {
        let Site { address, path, session, .. } = self;
        let session =
            session.as_ref().map(|session| format!("mcp-session-id: {session}\r\n")).unwrap_or_default();
        let member = |name| frame::string_member(body.as_bytes(), name).map(String::from_utf8_lossy);
        let more = match era {
            Era::Legacy => "mcp-protocol-version: 2025-11-25\r\n".to_owned(),
            Era::Modern => {
                let method = member("method").unwrap_or_default();
                let name = member("name").filter(|_| method == "tools/call");
                let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
                format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}")
            }
        };
        format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}{more}"
        )
    }

    pub(super) async fn run(&mut self, load: &Load, recorder: Recorder) -> io::Result<Tally> {
        let recorder = Rc::new(RefCell::new(recorder));
        let mut calls = load.calls.clone();
        calls.tool = self.tool.clone().unwrap_or(calls.tool);
        let calls = Rc::new(calls);
        let mut example = vec![];
        calls.write(0, &mut example);
        let head = self.head(&String::from_utf8_lossy(&example), calls.era);
        let mut connections = vec![];
        for _ in 0..load.in_flight {
            let mut connection = Connection::open(self.address).await?;
            // Of many connections on which nothing was said yet, Regrow closes the oldest.
            connection.post(&head, &example).await?;
            connections.push(connection);
        }
        let mut tasks = JoinSet::new();
        let local = LocalSet::new();
        recorder.borrow_mut().start()?;
        for (slot, connection) in connections.into_iter().enumerate() {
            let (calls, recorder, head) = (calls.clone(), recorder.clone(), head.clone());
            let calling = call_again_and_again(connection, head, calls, slot, load.in_flight, recorder);
            tasks.spawn_local_on(calling, &local);
        }
        local
            .run_until(async {
                while let Some(ended) = tasks.join_next().await {
                    ended.map_err(io::Error::other)??;
                }
                Ok::<_, io::Error>(())
            })
            .await?;
        let recorder = Rc::into_inner(recorder).expect("all tasks have ended");
        Ok(recorder.into_inner().finish())
    }
}

async fn call_again_and_again(
    mut connection: Connection,
    head: String,
    calls: Rc<Calls>,
    mut id: usize,
    in_flight: usize,
    recorder: Rc<RefCell<Recorder>>,
) -> io::Result<()> {
    let mut body = vec![];
    while !recorder.borrow().is_done {
        body.clear();
        let sent = Instant::now();
        calls.write(id, &mut body);
        let response = connection.post(&head, &body).await?;
        let mut answers = response.messages().into_iter().map(|message| calls.check(message));
        let answered = answers.try_fold(None, |found, id| id.map(|id| found.or(id)))?;
        if answered != Some(id) {
            return Err(io::Error::other(format!(
                "response {answered:?} to call {id}: {}",
                response.start()
            )));
        }
        recorder.borrow_mut().ended(sent)?;
        id += in_flight;
    }
    Ok(())
}

struct Connection {
    wire: Wire,
    request: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> io::Result<Connection> {
        Ok(Connection { wire: Wire::new(TcpStream::connect(address).await?)?, request: vec![] })
    }

    async fn post(&mut self, head: &str, body: &[u8]) -> io::Result<Message> {
        self.request.clear();
        write!(self.request, "{head}content-length: {}\r\n\r\n", body.len())?;
        self.request.extend_from_slice(body);
        self.wire.write(&self.request).await?;
        self.wire.read().await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
