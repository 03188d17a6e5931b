//! Clients of both eras that use the same ids at the same time, round after round: no answer crosses.

use fastrand::Rng;
use regrow_protocol::frame::RawId;
use serde_json::{Value, json};

use crate::world::{World, headers, modern};

/// As many as one can wait for; in a long run (`REGROW_SOAK`) a hundred thousand.
fn rounds() -> usize {
    if std::env::var_os("REGROW_SOAK").is_some() { 100_000 } else { 500 }
}

/// Two legacy clients in sessions of their own, and two modern ones that share a guest.
#[tokio::test]
async fn no_answer_crosses_between_clients_with_equal_ids() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let world = World::new().await;
    let sessions = [world.session().await, world.session().await];
    let mut wires = vec![];
    for _ in 0..4 {
        wires.push(world.wire().await);
    }
    for round in 0..rounds() {
        let id = [json!(1), json!("1"), json!(round % 3)][random.usize(..3)].clone();
        let mut waiting = vec![];
        for (client, wire) in wires.iter_mut().enumerate() {
            let params = json!({ "name": "slow", "arguments": { "client": client, "round": round } });
            if let Some(session) = sessions.get(client) {
                let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                wire.send("POST", "/mcp", &[("Mcp-Session-Id", session)], &body.to_string()).await;
            } else {
                let body = modern(id.clone(), "tools/call", params);
                wire.send("POST", "/mcp", &headers("tools/call", "slow"), &body).await;
            }
            waiting.push(loop {
                let request = world.house.request().await;
                if request["method"] == "tools/call" {
                    break request;
                }
            });
        }
        random.shuffle(&mut waiting);
        for request in waiting {
            let guest =
                world.house.guest(request["params"]["arguments"]["client"].as_u64().unwrap().min(2) as usize);
            let raw = RawId::parse(request["id"].to_string().as_bytes()).unwrap();
            guest.answer(&raw, &request["params"]["arguments"]);
        }
        for (client, wire) in wires.iter_mut().enumerate() {
            let answer = wire.answer().await;
            let expected: Value = json!({ "client": client, "round": round });
            assert_eq!((&answer["id"], &answer["result"]), (&id, &expected), "seed {seed}");
        }
    }
    assert_eq!((world.face_stats.counts().calls, world.face_stats.counts().strays), (0, 0));
}
