//! Everything at once, from a seed: every request ends once, and no effect happens twice, whichever era either side speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regrow::core::Fault;
use regrow_testkit::chance::Chance;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};

use crate::client::*;

/// Asks during its calls, and goes on whether it is answered or not.
fn legacy() -> Plan {
    legacy_server().on("tools/call", |message| {
        let arguments = &message["params"]["arguments"];
        let mut acts = vec![Act::Effect(arguments["effect"].to_string())];
        if arguments["ask"] == true {
            let id = json!(format!("e{}", arguments["effect"]));
            acts.push(Act::Say(
                json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {} }),
            ));
        }
        acts.push(Act::Wait(Duration::from_millis(arguments["ms"].as_u64().unwrap())));
        acts.push(Act::Say(answer(&message["id"], json!({ "content": [] }))));
        acts
    })
}

/// Asks before it does anything.
fn modern() -> Plan {
    modern_server().on("tools/call", |message| {
        let params = &message["params"];
        let arguments = &params["arguments"];
        let asks = arguments["ask"] == true && params["inputResponses"].is_null();
        let mut acts = vec![Act::Wait(Duration::from_millis(arguments["ms"].as_u64().unwrap()))];
        if asks {
            let input = json!({ "method": "elicitation/create", "params": {} });
            let result = json!({ "resultType": "input_required", "inputRequests": { "k": input }, "requestState": "s" });
            acts.push(Act::Say(answer(&message["id"], result)));
        } else {
            acts.push(Act::Effect(arguments["effect"].to_string()));
            acts.push(Act::Say(answer(&message["id"], json!({ "resultType": "complete", "content": [] }))));
        }
        acts
    })
}

struct Storm {
    client: Client,
    random: Chance,
    is_modern: bool,
    /// Never leaves a question unanswered.
    is_diligent: bool,
    last: u64,
    /// Calls by id, so that they can be repeated.
    calls: BTreeMap<u64, Value>,
    cancelled: BTreeSet<u64>,
    ends: BTreeMap<u64, u32>,
}

impl Storm {
    async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.ends.insert(id, 0);
        self.client
            .send(match self.is_modern {
                true => crate::client::modern(id, method, params),
                false => json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
            })
            .await;
        id
    }

    async fn act(&mut self) {
        let uri = format!("u://{}", self.random.below(4));
        match (self.random.below(10), self.is_modern) {
            (0, _) => drop(self.request("tools/list", json!({})).await),
            (1, true) => {
                let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": [uri] });
                let id = self.request("subscriptions/listen", json!({ "notifications": filter })).await;
                self.cancelled.insert(id); // It has no end, or one.
                if self.random.one_in(2) {
                    self.client.cancel(json!(id)).await;
                }
            }
            (1, false) => drop(self.request("resources/subscribe", json!({ "uri": uri })).await),
            (2, false) => drop(self.request("resources/unsubscribe", json!({ "uri": uri })).await),
            (3, _) => {
                let ids: Vec<u64> = self.calls.keys().copied().collect();
                if let Some(&id) = ids.get(self.random.below(ids.len().max(1) as u64) as usize) {
                    self.cancelled.insert(id);
                    self.client.cancel(json!(id)).await;
                }
            }
            _ => {
                let (ms, ask) = (self.random.below(400), self.random.one_in(3));
                let arguments = json!({ "effect": self.last + 1, "ms": ms, "ask": ask });
                let params = json!({ "name": "work", "arguments": arguments });
                let id = self.request("tools/call", params.clone()).await;
                self.calls.insert(id, params);
            }
        }
    }

    async fn hear(&mut self, message: Value) {
        let Some(id) = message["id"].as_u64() else { return };
        if message["method"].is_string() {
            if self.is_diligent || !self.random.one_in(4) {
                self.client
                    .send(json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } }))
                    .await;
            }
            return;
        }
        *self.ends.get_mut(&id).expect("it was asked") += 1;
        let call = self.calls.remove(&id);
        if message["result"]["resultType"] == "input_required" && (self.is_diligent || !self.random.one_in(4))
        {
            assert!(self.is_modern, "{message}");
            let mut params = call.expect("only calls require input");
            params["requestState"] = message["result"]["requestState"].clone();
            let keys = message["result"]["inputRequests"].as_object().unwrap().keys();
            params["inputResponses"] = keys.map(|key| (key.clone(), json!({ "action": "accept" }))).collect();
            let id = self.request("tools/call", params.clone()).await;
            self.calls.insert(id, params);
        }
    }

    /// Hears what is said until nothing is for so long.
    async fn hear_until_quiet(&mut self, length: Duration) {
        while let Some(message) = self.client.next_within(length).await {
            self.hear(message).await;
        }
    }
}

impl Storm {
    fn check(&self, server: &Server, pair: &str) {
        for (id, ends) in &self.ends {
            match self.cancelled.contains(id) {
                true => assert!(*ends <= 1, "{pair}: {id} ended {ends} times"),
                false => assert_eq!(*ends, 1, "{pair}: {id}"),
            }
        }
        for (key, count) in server.all_effects() {
            assert_eq!(count, 1, "{pair}: {key} happened {count} times");
        }
    }

    fn is_over(&self) -> bool {
        self.ends.iter().all(|(id, ends)| *ends > 0 || self.cancelled.contains(id))
    }
}

/// Whether client and server are modern.
const PAIRS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

async fn begin(seed: u64, server: &Server, is_modern: bool) -> Storm {
    let client = match is_modern {
        true => Client::modern(server).await,
        false => Client::legacy(server).await,
    };
    Storm {
        client,
        random: Chance(seed),
        is_modern,
        is_diligent: false,
        last: 1000,
        calls: BTreeMap::new(),
        cancelled: BTreeSet::new(),
        ends: BTreeMap::new(),
    }
}

async fn storm(seed: u64, client_is_modern: bool, server_is_modern: bool) {
    let server = Server::always(if server_is_modern { modern() } else { legacy() });
    let mut storm = begin(seed, &server, client_is_modern).await;
    for _ in 0..60 {
        for _ in 0..storm.random.below(4) {
            storm.act().await;
        }
        if storm.random.one_in(12) {
            server.die(Fault::Killed { signal: 9 });
        }
        let pause = millis(storm.random.below(300));
        storm.hear_until_quiet(pause).await;
    }
    // Whoever was asked and did not answer has an hour.
    storm.hear_until_quiet(secs(3 * 3600)).await;
    let pair = format!("seed {seed}, client modern {client_is_modern}, server modern {server_is_modern}");
    storm.check(&server, &pair);
    assert_eq!(server.most_alive(), 1, "{pair}");
}

#[tokio::test(start_paused = true)]
async fn every_request_ends_once_and_nothing_happens_twice() {
    for seed in 0..8 {
        for (client, server) in PAIRS {
            storm(seed, client, server).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_on_several_threads_in_real_time() {
    for (seed, (client, server_is_modern)) in PAIRS.into_iter().cycle().take(12).enumerate() {
        let server = Server::always(if server_is_modern { modern() } else { legacy() });
        let mut storm = begin(seed as u64, &server, client).await;
        storm.is_diligent = true;
        for _ in 0..40 {
            for _ in 0..storm.random.below(8) {
                storm.act().await;
            }
            if storm.random.one_in(20) {
                server.die(Fault::Killed { signal: 9 });
            }
            storm.hear_until_quiet(millis(1)).await;
        }
        while !storm.is_over() {
            let message = storm.client.next_within(secs(20)).await.expect("every request ends");
            storm.hear(message).await;
        }
        storm.check(
            &server,
            &format!("seed {seed}, client modern {client}, server modern {server_is_modern}"),
        );
        tokio::time::timeout(secs(20), storm.client.connection.close()).await.expect("it closes");
    }
}
