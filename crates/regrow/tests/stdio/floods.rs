//! Servers that write without end: others get their turns.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use regrow::Connection;
use regrow_core::Manner;
use tokio::runtime::Builder;

use super::{PATIENCE, shell};

const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;

/// Whether another task gets its turn beside a server that runs this script.
fn others_run_beside(script: &str) -> bool {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let connection = {
        let _inside = runtime.enter();
        Connection::builder("endless", shell(script)).build()
    };
    connection.start();
    thread::sleep(Duration::from_millis(300)); // It is at it.
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move { tell.send(()) });
    let told = told.recv_timeout(PATIENCE).is_ok();
    if told {
        runtime.block_on(connection.close_in(Manner::Failed));
    }
    runtime.shutdown_background();
    told
}

#[test]
fn lines_without_end_stop_nobody() {
    for line in ["", "garbage", NOTIFICATION] {
        assert!(others_run_beside(&format!("exec yes '{line}'")), "{line:?}");
    }
}

#[test]
fn a_line_without_end_stops_nobody() {
    assert!(others_run_beside("exec tr '\\0' x < /dev/zero"));
}
