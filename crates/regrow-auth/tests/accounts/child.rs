//! What the tests run in a process of its own: this executable, with one test and a task in its environment.

use std::process::{Command, exit};
use std::sync::Arc;

use regrow::transport::http::Credential;
use regrow_auth::store::Store;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::fixture::{Issuer, LIMIT, credential, refuse, rejected, token, tokens};

const TASK: &str = "REGROW_AUTH_TEST_TASK";
const STORE: &str = "REGROW_AUTH_TEST_STORE";
const ADDRESS: &str = "REGROW_AUTH_TEST_ADDRESS";

/// A process that does this with this store. The program in front may change what it is allowed to do.
pub(crate) fn command(front: &[&str], task: &str, store: &Store, address: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let mut words = front.iter().map(|word| std::ffi::OsString::from(*word)).chain([own.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", "child::child", "--nocapture"]);
    let folder: &std::path::Path = store.as_ref();
    command.env(TASK, task).env(STORE, folder).env(ADDRESS, address);
    command
}

#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return }; // Not for people.
    let store = Store::at(std::env::var_os(STORE).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let work = async {
        match &*task {
            "refuse" => refused(&store).await,
            "die" => die(&store).await,
            name => client(name, &store).await,
        }
    };
    // One that hangs must not make the test hang.
    let done = runtime.block_on(async { tokio::time::timeout(2 * LIMIT, work).await });
    exit(done.unwrap_or(3));
}

/// The server refuses the token. Says what is reported, and how many requests that took.
async fn refused(store: &Store) -> i32 {
    let issuer = Issuer::default();
    let credential = issuer.credential(store);
    let renewed = refuse(&credential).await;
    eprintln!("{renewed} {}: {}", issuer.requests().len(), credential.fault(401));
    0
}

/// It is killed when it has new tokens and has not stored them.
async fn die(store: &Store) -> i32 {
    let credential = credential(store, Arc::new(|_| Box::pin(async { std::process::abort() })));
    refuse(&credential).await;
    0
}

/// Uses its token until it is told to leave. All that it asks, it asks on one connection.
async fn client(name: &str, store: &Store) -> i32 {
    let stream = TcpStream::connect(std::env::var(ADDRESS).unwrap()).await.unwrap();
    let wire = Arc::new(Mutex::new(BufReader::new(stream)));
    assert_eq!(ask(&wire, &format!("hello {name}")).await, "go");
    let request = {
        let wire = wire.clone();
        Arc::new(move |account: regrow_auth::account::Account| {
            let wire = wire.clone();
            let shown = account.tokens.unwrap().refresh_token.unwrap();
            let next = account.generation + 1;
            let asked = async move {
                match &*ask(&wire, &format!("refresh {}", shown.expose())).await {
                    "renewed" => Ok(tokens(next)),
                    _ => Err(rejected()),
                }
            };
            Box::pin(asked) as regrow::transport::BoxFuture<_>
        })
    };
    let credential = credential(store, request);
    loop {
        let shown = token(&credential).unwrap();
        match &*ask(&wire, &format!("use {shown}")).await {
            "ok" => {}
            "refused" if refuse(&credential).await => {}
            "refused" => {
                ask(&wire, &format!("lost {}", credential.fault(401))).await;
                return 1;
            }
            _ => return 0,
        }
    }
}

async fn ask(wire: &Mutex<BufReader<TcpStream>>, line: &str) -> String {
    let mut wire = wire.lock().await;
    wire.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    wire.read_line(&mut answer).await.unwrap();
    answer.trim().to_owned()
}
