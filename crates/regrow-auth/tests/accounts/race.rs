//! Many processes with one expired token, some of which are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use regrow::transport::http::{Credential, Rejected};
use regrow_auth::store::Store;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::child;
use crate::fixture::{Issuer, LIMIT, expired, read, store};

const PROCESSES: usize = 20;
const GENERATIONS: u64 = 6;
/// A token is accepted this many times.
const USES: u32 = 40;

/// The MCP server and its authorization server, which revokes everything when a refresh token is used twice.
#[derive(Default)]
struct World {
    processes: BTreeMap<String, Child>,
    killed: BTreeSet<String>,
    /// Which tokens are valid. Those of the first generation have expired.
    generation: u64,
    uses: u32,
    /// How often each refresh token was presented.
    refreshes: BTreeMap<String, u32>,
    /// Who has a response and may not have stored it.
    refreshing: Option<String>,
    lost: Vec<String>,
}

impl World {
    fn answer(&mut self, name: &str, asked: &str) -> &'static str {
        if self.refreshing.as_deref() == Some(name) {
            self.refreshing = None;
        }
        match asked.split_once(' ').unwrap() {
            ("use", token) => self.accept(name, token),
            ("refresh", token) => {
                *self.refreshes.entry(token.to_owned()).or_default() += 1;
                if token != format!("refresh-{}", self.generation) {
                    return "rejected";
                }
                self.generation += 1;
                self.uses = 0;
                self.refreshing = Some(name.to_owned());
                "renewed"
            }
            (_, reason) => {
                self.lost.push(format!("{name}: {reason}"));
                "bye"
            }
        }
    }

    fn accept(&mut self, name: &str, token: &str) -> &'static str {
        if token != format!("access-{}", self.generation) || self.generation == 1 {
            return "refused";
        }
        self.uses += 1;
        match self.uses {
            uses if uses < USES => "ok",
            _ if self.generation == GENERATIONS => "bye",
            USES => {
                self.kill_another(name);
                "refused"
            }
            _ => "refused",
        }
    }

    /// Somebody who uses, waits or is about to refresh: the token expires at this moment.
    fn kill_another(&mut self, name: &str) {
        let may_die = |other: &&String| {
            *other != name && !self.killed.contains(*other) && self.refreshing.as_ref() != Some(*other)
        };
        let alive: Vec<String> = self.processes.keys().filter(may_die).cloned().collect();
        let victim = alive[fastrand::usize(..alive.len())].clone();
        self.processes.get_mut(&victim).unwrap().kill().unwrap();
        self.killed.insert(victim);
    }
}

fn serve(stream: TcpStream, world: &Mutex<World>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let say = |text: &str| (&stream).write_all(format!("{text}\n").as_bytes());
    // A process that was killed may leave half a line, or nobody to answer to.
    let Some(Ok(hello)) = lines.next() else { return };
    let name = hello.strip_prefix("hello ").unwrap().to_owned();
    let mut answer = Ok("go");
    while let Ok(text) = answer {
        if say(text).is_err() {
            return;
        }
        let Some(Ok(asked)) = lines.next() else { return };
        let mut world = world.lock().unwrap();
        // What a process sent before it was killed counts as never sent: nobody is there for the response.
        answer = if world.killed.contains(&name) { Err(()) } else { Ok(world.answer(&name, &asked)) };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_processes_refresh_an_expired_token_once_and_nobody_is_signed_out() {
    let (_folder, store) = store(&expired()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let world = Arc::new(Mutex::new(World { generation: 1, ..World::default() }));
    // All are there before the first is answered.
    let names: Vec<String> = (0..PROCESSES).map(|number| format!("process-{number}")).collect();
    for name in &names {
        let child = child::command(&[], name, &store, &address).stdout(Stdio::null()).spawn().unwrap();
        world.lock().unwrap().processes.insert(name.clone(), child);
    }
    let mut streams = vec![];
    for _ in 0..PROCESSES {
        let (stream, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        streams.push(stream);
    }
    let served: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let world = world.clone();
            std::thread::spawn(move || serve(stream, &world))
        })
        .collect();
    for thread in served {
        thread.join().unwrap();
    }
    let mut world = world.lock().unwrap();
    let killed = world.killed.clone();
    for (name, child) in &mut world.processes {
        assert_eq!(child.wait().unwrap().success(), !killed.contains(name), "{name}");
    }
    assert_eq!(world.lost, Vec::<String>::new());
    let once: BTreeMap<String, u32> =
        (1..GENERATIONS).map(|number| (format!("refresh-{number}"), 1)).collect();
    assert_eq!(world.refreshes, once);
    assert_eq!(
        killed.len() as u64,
        GENERATIONS - 2,
        "one at each end of a generation but the first and the last"
    );
    assert_eq!(read(&store).generation, GENERATIONS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_handles_in_one_process_share_a_refresh_too() {
    let (_folder, store) = store(&expired()).await;
    let issuer = Issuer::default();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let own = Store::at(AsRef::<std::path::Path>::as_ref(&store));
            let credential = issuer.credential(&own);
            // All have seen that the first token is refused, however late they come.
            let shown = vec![(AUTHORIZATION, HeaderValue::from_static("Bearer access-1"))];
            tokio::spawn(credential.refresh(Rejected::new(shown, 401, vec![])))
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert_eq!((issuer.requests().len(), read(&store).generation), (1, 2));
}
