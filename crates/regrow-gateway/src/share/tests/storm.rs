//! A storm over shared sessions of both eras: whatever happens, no client sees a byte meant for another (P14), and each call ends once.
//!
//! All that a client asks bears its name, and the server writes it into all that it says about it. Ids and tokens are the same for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regrow::Era;
use regrow_testkit::script::answer;
use regrow_testkit::server::Server;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::SharedSession;
use super::client::*;
use super::server::{SUBSCRIPTION, killed, server};

const STEPS: usize = 400;

struct Guest {
    client: TestClient,
    name: String,
    /// Calls that have not ended, by id: what their answers must hold.
    open: BTreeMap<String, Vec<String>>,
    subscribed: BTreeSet<String>,
    serial: usize,
}

impl Guest {
    fn new(session: &Arc<SharedSession>, n: usize) -> Guest {
        let name = format!("<{n}>");
        Guest {
            client: TestClient::of(session),
            name,
            open: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            serial: 0,
        }
    }

    fn act(&mut self, random: &mut fastrand::Rng, modern: bool) {
        let ids = ["1", r#""1""#, "2", r#""\u00e9/""#];
        let id = ids[random.usize(..ids.len())];
        self.serial += 1;
        let tag = format!("{}{}", self.name, self.serial);
        let uri = ["all".to_owned(), format!("own{}", self.name)][random.usize(..2)].clone();
        match random.u32(..10) {
            0..=4 => {
                let meta = match random.bool() {
                    true => format!(r#","_meta":{{"progressToken":{id}}}"#),
                    false => String::new(),
                };
                let ms = random.u32(..400);
                let params = format!(r#"{{"name":"work","arguments":{{"tag":"{tag}","ms":{ms}}}{meta}}}"#);
                let line =
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
                self.open.entry(id.to_owned()).or_default().push(tag);
                self.client.send(line, raw(id));
            }
            5 => {
                let params = json!({ "notifications": { "tag": tag } });
                if modern && !self.open.contains_key(r#""s""#) {
                    self.open.insert(r#""s""#.into(), vec![tag]);
                    self.client.ask(r#""s""#, "subscriptions/listen", &params);
                }
            }
            6 if !modern => {
                let subscribes = random.bool();
                let method = if subscribes { "resources/subscribe" } else { "resources/unsubscribe" };
                // Never taken out: updates that are on their way may still come.
                self.subscribed.extend(subscribes.then(|| uri.clone()));
                self.open.entry("9".into()).or_default().push(String::new());
                self.client.ask("9", method, &json!({ "uri": uri }));
            }
            7 if !modern => {
                let level = ["debug", "info", "error"][random.usize(..3)];
                self.open.entry("9".into()).or_default().push(String::new());
                self.client.ask("9", "logging/setLevel", &json!({ "level": level }));
            }
            _ => {
                let known = self.client.cancel(id);
                // The newest of that id; an answer may have come before.
                if known {
                    self.check(&["before a cancellation"]);
                    drop(self.open.get_mut(id).and_then(Vec::pop));
                }
            }
        }
    }

    /// Looks at all that it was told.
    fn check(&mut self, context: &[&str]) {
        for line in self.client.lines() {
            let about = format!("{} {context:?}: {line}", self.name);
            let foreign = line.match_indices('<').find(|(at, _)| !line[*at..].starts_with(&self.name));
            assert!(foreign.is_none(), "a byte of another: {about}");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            match message["method"].as_str() {
                Some("notifications/progress") => {
                    assert!(
                        message["params"]["message"].as_str().is_some_and(|tag| tag.starts_with(&self.name)),
                        "{about}"
                    );
                    assert!(
                        !message["params"]["progressToken"]
                            .as_str()
                            .is_some_and(|token| token.contains(['.', ':', '~'])),
                        "{about}"
                    );
                }
                Some("notifications/resources/updated") if message["params"]["_meta"].is_null() => {
                    assert!(
                        self.subscribed.contains(message["params"]["uri"].as_str().expect("a URI")),
                        "{about}"
                    );
                }
                Some(_) => assert_eq!(message["params"]["_meta"][SUBSCRIPTION], "s", "{about}"),
                None => self.ended(&message, &about),
            }
        }
    }

    fn ended(&mut self, message: &Value, about: &str) {
        // The id as the client wrote it.
        let id = match message["id"].as_str() {
            Some("é/") => r#""\u00e9/""#.to_owned(),
            _ => message["id"].to_string(),
        };
        let tags = self.open.get_mut(&id).unwrap_or_else(|| panic!("it was not asked: {about}"));
        let got = message["result"]["got"].as_str();
        let at = match got {
            Some(got) => tags.iter().position(|tag| tag == got),
            None => (!tags.is_empty()).then_some(0),
        };
        let at = at.unwrap_or_else(|| panic!("it ended already: {about}"));
        tags.remove(at);
        if tags.is_empty() {
            self.open.remove(&id);
        }
    }
}

/// Writes whose it is into all that it says, and takes its time.
fn gossip(modern: bool) -> Server {
    server(modern, move |message| {
        let (id, params) = (&message["id"], &message["params"]);
        let say =
            |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
        match message["method"].as_str()? {
            "tools/call" => {
                let tag = &params["arguments"]["tag"];
                let end = Duration::from_millis(params["arguments"]["ms"].as_u64()?);
                let mut said = vec![(end / 3, say("notifications/message", json!({ "data": tag })))];
                if let Some(token) = params["_meta"].get("progressToken") {
                    let progress = json!({ "progressToken": token, "progress": 1, "message": tag });
                    said.push((end / 2, say("notifications/progress", progress.clone())));
                    said.push((end * 2, say("notifications/progress", progress))); // After its answer.
                }
                said.push((end, answer(id, json!({ "got": tag }))));
                Some(said)
            }
            "resources/subscribe" => {
                let update = say("notifications/resources/updated", json!({ "uri": params["uri"] }));
                let again = Duration::from_millis(300);
                Some(vec![(again / 3, answer(id, json!({}))), (again, update.clone()), (again * 4, update)])
            }
            "subscriptions/listen" => {
                let tag = &params["notifications"]["tag"];
                let meta = json!({ SUBSCRIPTION: id });
                let acknowledged = json!({ "_meta": meta, "notifications": { "tag": tag } });
                let update = say("notifications/resources/updated", json!({ "uri": tag, "_meta": meta }));
                let end = answer(id, json!({ "resultType": "complete", "got": tag, "_meta": meta }));
                Some(vec![
                    (Duration::ZERO, say("notifications/subscriptions/acknowledged", acknowledged)),
                    (Duration::from_millis(200), update),
                    (Duration::from_millis(900), end),
                ])
            }
            _ => None,
        }
    })
}

async fn storm(seed: u64, modern: bool) {
    let random = &mut fastrand::Rng::with_seed(seed);
    let server = gossip(modern);
    let (session, keeper) = shared(&server, if modern { Era::Modern } else { Era::Legacy });
    session.connection().start();
    settle().await;
    let mut guests: Vec<Guest> = (0..4).map(|n| Guest::new(&session, n)).collect();
    let mut last = guests.len();
    for step in 0..STEPS {
        let context = [&*format!("seed {seed}"), &format!("modern {modern}"), &format!("step {step}")];
        match random.u32(..100) {
            0 => server.die(killed()),
            1..=3 => {
                let at = random.usize(..guests.len());
                guests[at].check(&context);
                guests[at] = Guest::new(&session, last);
                last += 1;
            }
            _ => {
                let at = random.usize(..guests.len());
                guests[at].act(random, modern);
            }
        }
        if random.bool() {
            sleep(Duration::from_millis(random.u64(..60))).await;
        }
        guests.iter_mut().for_each(|guest| guest.check(&context));
    }
    // Beyond every deadline.
    sleep(Duration::from_secs(3600)).await;
    let context = [&*format!("seed {seed}"), &format!("modern {modern}"), "the end"];
    for guest in &mut guests {
        guest.check(&context);
        let left: Vec<_> = guest.open.iter().filter(|(_, tags)| !tags.is_empty()).collect();
        assert!(left.is_empty(), "{} {context:?}: {left:?} never ended", guest.name);
    }
    assert!(!keeper.logs.lock().expect("no panic").is_empty(), "{context:?}");
    assert_eq!(session.connection().status().borrow().pending, 0, "{context:?}");
    drop(guests);
    assert_eq!(session.shares(), 0);
    session.connection().close().await;
}

#[tokio::test(start_paused = true)]
async fn no_client_of_a_legacy_server_sees_a_byte_meant_for_another() {
    for seed in 0..8 {
        storm(seed, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_client_of_a_modern_server_sees_a_byte_meant_for_another() {
    for seed in 0..8 {
        storm(seed, true).await;
    }
}
