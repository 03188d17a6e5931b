//! Connections on several threads.

use std::collections::BTreeMap;
use std::thread;

use serde_json::json;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::wire::Wire;
use crate::world::{World, call, value};

/// A runtime on a thread of its own, for as long as the other end is held.
fn start() -> (Handle, oneshot::Sender<()>) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (handle, (held, released)) = (runtime.handle().clone(), oneshot::channel::<()>());
    thread::spawn(move || runtime.block_on(released));
    (handle, held)
}

async fn thread_of(wire: &mut Wire) -> String {
    let (head, thread) = wire.ask("GET", "/thread", &[], "").await;
    assert_eq!(head.status, 200);
    thread
}

#[tokio::test]
async fn the_thread_with_the_fewest_connections_serves_the_next_and_keeps_it() {
    let ((second, _held_2), (third, _held_3)) = (start(), start());
    let world = World::on(vec![second, third], |_| {}).await;
    let mut wires = vec![];
    let mut served = BTreeMap::<String, usize>::new();
    for _ in 0..6 {
        let mut wire = world.wire().await;
        let thread = thread_of(&mut wire).await;
        assert_eq!(thread_of(&mut wire).await, thread);
        *served.entry(thread.clone()).or_default() += 1;
        wires.push((wire, thread));
    }
    assert_eq!(served.into_values().collect::<Vec<_>>(), [2, 2, 2]);

    // A session is at home on all of them.
    let session = world.session().await;
    for (id, (wire, _)) in wires.iter_mut().enumerate() {
        let (_, answer) = wire.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(id, "echo")).await;
        assert_eq!(value(&answer)["id"], json!(id));
    }
}
