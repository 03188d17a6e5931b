//! Our own client, in both eras, through the face.

use std::sync::Arc;

use regrow::core::Policy;
use regrow::transport::http::{Http, HttpClient};
use regrow::{Connection, Era};
use serde_json::json;

use crate::world::World;

fn connection(world: &World, era: Era) -> Connection {
    let client = HttpClient::builder().no_proxy().build().expect("a client");
    let http = Http::new(&format!("http://{}/mcp", world.address)).expect("a URL").client(client);
    Connection::builder("face", http).era(era).policy(Policy::default()).build()
}

#[tokio::test]
async fn our_own_client_calls_in_both_eras() {
    let world = World::new().await;
    for era in [Era::Legacy, Era::Modern] {
        let connection = connection(&world, era);
        let mut incoming = connection.incoming().expect("once");
        for tool in ["echo", "report"] {
            let params =
                json!({ "name": tool, "arguments": { "x": 1 }, "_meta": { "progressToken": "mine" } });
            let answer = connection.request("tools/call", Some(params)).await.expect("an answer");
            let value = answer.value().expect("a result");
            assert!(value["echo"]["x"] == 1 || value["told"] == true, "{era:?} {tool}: {value}");
        }
        let progress = incoming.next().await.expect("progress");
        assert_eq!(progress.frame.progress_token(), Some(&b"\"mine\""[..]), "{era:?}");
        assert!(!connection.close().await.abandoned);
    }
}

#[tokio::test]
async fn a_hundred_calls_at_once_each_get_their_own_answer() {
    let world = World::new().await;
    for era in [Era::Legacy, Era::Modern] {
        let connection = Arc::new(connection(&world, era));
        let calls: Vec<_> = (0..100)
            .map(|number| {
                let connection = connection.clone();
                tokio::spawn(async move {
                    let params = json!({ "name": "echo", "arguments": { "number": number } });
                    let answer = connection.request("tools/call", Some(params)).await.expect("an answer");
                    assert_eq!(answer.value().expect("a result")["echo"]["number"], number);
                })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic");
        }
        connection.close().await;
    }
}
