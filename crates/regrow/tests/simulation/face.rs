//! How clients reach the engine: as parts of a program, or through a relay. The gateway's router will be a third way.

use std::pin::Pin;
use std::time::Duration;

use regrow::{Builder, Connection};
use regrow_testkit::chance::Chance;
use regrow_testkit::world::secs;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::bug::Bug;
use crate::history::{Event, Recorder};
use crate::key::Key;
use crate::program::Program;
use crate::relayed::{CLIENT, Relayed};

/// Something that a client does beside the rest of the life.
type Doing = Pin<Box<dyn Future<Output = ()> + Send>>;

pub enum Face {
    Program { program: Program, receiver: JoinHandle<()>, clients: Vec<char> },
    Relayed { client: Relayed, recorder: Recorder },
}

impl Face {
    pub fn program(
        builder: Builder,
        recorder: Recorder,
        bug: Option<Bug>,
        clients: u8,
    ) -> (Face, Connection) {
        let connection = builder.build();
        let incoming = connection.incoming().expect("nobody has taken it before");
        let program = Program::new(connection.clone(), recorder, bug);
        let receiver = tokio::spawn(program.clone().receive(incoming));
        let clients = (0..clients).map(|n| char::from(b'a' + n)).collect();
        (Face::Program { program, receiver, clients }, connection)
    }

    pub fn relayed(
        builder: Builder,
        recorder: Recorder,
        is_modern: bool,
        bridged: bool,
    ) -> (Face, Connection) {
        let (client, connection) = Relayed::new(builder, recorder.clone(), is_modern, bridged);
        (Face::Relayed { client, recorder }, connection)
    }

    pub fn is_program(&self) -> bool {
        matches!(self, Face::Program { .. })
    }

    pub fn clients(&self) -> Vec<char> {
        match self {
            Face::Program { clients, .. } => clients.clone(),
            Face::Relayed { .. } => vec![CLIENT],
        }
    }

    /// Says hello, where a client does that itself; modern ones need not. False if nobody answers.
    pub async fn greet(&self, chance: &mut Chance) -> bool {
        match self {
            Face::Program { .. } => true,
            Face::Relayed { client, .. } => client.is_modern && chance.one_in(2) || client.greet().await,
        }
    }

    /// A program sets the deadline of each call; a relay has one for all.
    pub fn deadline(&self, chance: &mut Chance, usual: Duration) -> Duration {
        match self {
            Face::Program { .. } => secs(1) + chance.length() * 3,
            Face::Relayed { .. } => usual,
        }
    }

    pub fn call(&self, key: Key, params: Value, within: Duration, gives_up: Option<Duration>) -> Doing {
        match self {
            Face::Program { program, .. } => Box::pin(program.clone().call(key, params, within, gives_up)),
            Face::Relayed { client, .. } => Box::pin(client.clone().call(key, params, within, gives_up)),
        }
    }

    pub fn list(&self) -> Doing {
        match self {
            Face::Program { program, .. } => Box::pin(program.clone().list()),
            Face::Relayed { .. } => self.request("tools/list", json!({}), None),
        }
    }

    pub fn subscribe(&self, uri: String) -> Doing {
        let params = json!({ "uri": uri });
        match self {
            Face::Program { program, .. } => Box::pin(program.clone().subscribe(uri)),
            Face::Relayed { .. } => self.request("resources/subscribe", params, Some(Event::Subscribed(uri))),
        }
    }

    pub fn unsubscribe(&self, uri: String) -> Doing {
        match self {
            Face::Program { program, .. } => Box::pin(program.clone().unsubscribe(uri)),
            Face::Relayed { recorder, .. } => {
                recorder.note(Event::Unsubscribes(uri.clone()));
                self.request("resources/unsubscribe", json!({ "uri": uri }), None)
            }
        }
    }

    pub fn listen(&self) -> Doing {
        match self {
            Face::Program { program, .. } => Box::pin(program.clone().listen()),
            Face::Relayed { .. } => {
                let filter = json!({ "notifications": { "toolsListChanged": true } });
                self.request("subscriptions/listen", filter, None)
            }
        }
    }

    fn request(&self, method: &'static str, params: Value, then: Option<Event>) -> Doing {
        let Face::Relayed { client, recorder } = self else { return Box::pin(async {}) };
        let (client, recorder) = (client.clone(), recorder.clone());
        Box::pin(async move {
            let answer = client.request(method, params).await;
            if let Some(event) = then.filter(|_| answer.get("result").is_some()) {
                recorder.note(event);
            }
        })
    }

    pub async fn leave(&self) {
        if let Face::Relayed { client, .. } = self {
            client.leave().await;
        }
    }

    /// Drops what of a program holds the connection open.
    pub async fn let_go(&mut self) {
        if let Face::Program { receiver, .. } = self {
            receiver.abort();
            let _ = receiver.await; // Aborted, or done.
        }
    }
}
