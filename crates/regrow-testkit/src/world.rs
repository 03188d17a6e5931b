//! A connection to a fake server, and its life as a log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Policy, State};
use regrow::transport::Transport;
use regrow::{Answer, Builder, CallError, Connection, Status};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The defaults, without jitter, so that lives can be told to the millisecond.
pub fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.backoff.jitter_percent = 0;
    policy
}

/// A connection to be made, in the legacy era unless told otherwise.
pub fn to(server: &(impl Transport + Clone)) -> Builder {
    Connection::builder("fake", server.clone()).policy(policy()).seed(1).era(regrow::Era::Legacy)
}

/// A connection to this server that is ready.
pub async fn ready(server: &(impl Transport + Clone)) -> Connection {
    let connection = to(server).build();
    start(&connection).await;
    connection
}

pub async fn start(connection: &Connection) {
    connection.start();
    until(connection, Status::is_ready).await;
}

/// Waits until the status is so; fails after a simulated day.
pub async fn until(connection: &Connection, is_so: impl Fn(&Status) -> bool) {
    let mut status = connection.status();
    let seen = timeout(secs(86_400), status.wait_for(|status| is_so(status))).await;
    assert!(seen.is_ok(), "it never came to that; it is {:?}", connection.status().borrow());
    seen.unwrap().unwrap();
}

pub fn state(connection: &Connection) -> State {
    connection.status().borrow().state.clone()
}

/// Lets everything happen that is due now.
pub async fn settle() {
    sleep(millis(1)).await;
}

/// Calls the tool `work` with these arguments.
pub async fn work(connection: &Connection, arguments: Value) -> Result<Answer, CallError> {
    connection.request("tools/call", Some(json!({ "name": "work", "arguments": arguments }))).await
}

/// The same beside us.
pub fn begin(connection: &Connection, arguments: Value) -> JoinHandle<Result<Answer, CallError>> {
    let connection = connection.clone();
    tokio::spawn(async move { work(&connection, arguments).await })
}

/// What the server echoed.
pub fn said(answer: &Answer) -> Value {
    answer.value().unwrap()["got"].clone()
}

/// The life of a connection, told by its notices.
pub struct Life(Arc<Mutex<Vec<String>>>);

impl Life {
    pub fn of(connection: &Connection) -> Life {
        let log = Arc::new(Mutex::new(vec![]));
        let (mut notices, written) = (connection.notices(), log.clone());
        tokio::spawn(async move {
            while let Some(notice) = notices.next().await {
                let line = format!("{:.1}s {}", notice.at.as_secs_f64(), notice.text());
                written.lock().unwrap().push(line);
            }
        });
        Life(log)
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }

    /// Compares with the expected log, a line each.
    #[track_caller]
    pub fn check(&self, expected: &str) {
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
        };
        let (is, expected) = (lines(&self.text()), lines(expected));
        assert_eq!(is, expected, "\nthe life was:\n{}\n", is.join("\n"));
    }
}

/// How many tasks live in this runtime. The test itself is none of them.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
