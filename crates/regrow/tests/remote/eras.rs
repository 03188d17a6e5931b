//! Which era does a server speak? Found out by one exchange, remembered over starts, and found anew where that proves wrong.

use regrow::core::Fault;
use regrow::{Builder, Connection, Era, EraFile, Status};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::{Act, Speaks, refusal, status};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

const HANDSHAKE: [&str; 2] = ["initialize", "notifications/initialized"];

fn finding_out(server: &Remote) -> Builder {
    to(server).era(Era::Auto)
}

/// A greeting in this era, and a call.
fn told(modern: bool) -> Vec<&'static str> {
    let greeting = if modern { vec!["server/discover"] } else { HANDSHAKE.to_vec() };
    [greeting, vec!["tools/call"]].concat()
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_asked_once_and_its_requests_carry_the_envelope() {
    let server = Remote::modern();
    let connection = finding_out(&server).build();
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.told(1), told(true));
    for heard in server.heard().iter() {
        let meta = &heard.message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    }
    assert!(connection.is_modern());
}

#[tokio::test(start_paused = true)]
async fn an_error_in_words_of_the_modern_era_is_a_modern_answer() {
    for code in [-32020, -32021, -32022] {
        let server = Remote::modern().on("server/discover", {
            move |message| Some(vec![Act::Say(refusal(&message["id"], code, "not so"))])
        });
        let connection = finding_out(&server).build();
        work(&connection, json!({})).await.unwrap();
        assert!(connection.is_modern(), "{code}");
        assert_eq!(server.starts().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_at_first_and_knows_no_handshake_is_asked_again() {
    let server = Remote::modern()
        .on("initialize", |message| Some(vec![Act::Say(refusal(&message["id"], -32601, "what?"))]));
    server.set_path(Path::Partitioned);
    let connection = finding_out(&server).build();
    connection.start();
    sleep(secs(50)).await;
    assert!(server.starts().len() > 1, "its silence was taken for an answer");
    server.revive();
    until(&connection, Status::is_ready).await;
    assert!(connection.is_modern());
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_known_by_its_error_its_status_or_its_silence() {
    let speaks = [
        Speaks::Legacy,
        Speaks::LegacyAndStatus(400),
        Speaks::LegacyAndStatus(404),
        Speaks::LegacyAndStatus(405),
        Speaks::LegacySilent,
    ];
    for speaks in speaks {
        let server = Remote::new(speaks);
        let connection = finding_out(&server).build();
        work(&connection, json!({})).await.unwrap();
        let silent = speaks == Speaks::LegacySilent;
        // Silence is no answer: it is asked again, and once more when it has shaken hands.
        assert_eq!(server.told(1), ["server/discover"].repeat(if silent { 2 } else { 1 }), "{speaks:?}");
        let mut greeted = server.told(2);
        greeted.retain(|method| !(silent && method == "server/discover"));
        assert_eq!(greeted, told(false), "{speaks:?}");
        let limit = if silent { secs(32) } else { millis(100) };
        assert!(server.elapsed() <= limit, "{speaks:?}: {:?}", server.elapsed());
        assert_eq!(connection.status().borrow().budget_left, 5, "{speaks:?}");
        assert!(!connection.is_modern());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_tells_nothing_about_the_era_and_the_question_is_asked_again() {
    for fault in [Some(status(500)), Some(status(503)), Some(Fault::AnswerCut), None] {
        let server = Remote::modern();
        match fault.clone() {
            Some(fault) => server.world().refuses = Some(fault),
            None => server.set_path(Path::Down),
        }
        let connection = finding_out(&server).build();
        connection.start();
        sleep(millis(800)).await;
        server.world().refuses = None;
        server.revive();
        work(&connection, json!({})).await.unwrap();
        assert!(connection.is_modern(), "{fault:?}");
        assert_eq!(server.count("initialize"), 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_we_ended_ourselves_tells_nothing() {
    let server = Remote::modern();
    server.set_path(Path::Partitioned);
    let connection = finding_out(&server).build();
    connection.start();
    sleep(secs(5)).await;
    connection.reconnect(regrow::core::Requester::Person);
    server.set_path(Path::Up);
    until(&connection, Status::is_ready).await;
    assert!(connection.is_modern());
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_was_slow_to_say_so_is_found_all_the_same() {
    let server = Remote::modern();
    server.set_path(Path::Partitioned);
    let connection = finding_out(&server).build();
    connection.start();
    sleep(secs(25)).await;
    server.set_path(Path::Up);
    work(&connection, json!({})).await.unwrap();
    assert!(connection.is_modern());
}

#[tokio::test(start_paused = true)]
async fn the_era_is_remembered_over_sessions() {
    for server in [Remote::legacy(), Remote::modern()] {
        let connection = finding_out(&server).build();
        work(&connection, json!({})).await.unwrap();
        let modern = connection.is_modern();
        let links = server.starts().len();
        server.kill();
        work(&connection, json!({})).await.unwrap_err();
        sleep(secs(1)).await;
        server.revive();
        work(&connection, json!({})).await.unwrap();
        assert_eq!(server.told(server.starts().len()), told(modern));
        assert_eq!(server.count("server/discover"), if modern { links + 1 } else { 1 });
    }
}

/// Starts anew with what an earlier start has written down.
async fn restarted(server: &Remote, file: &EraFile) -> Connection {
    let connection = finding_out(server).era_file(file.clone(), "http://fake/").build();
    work(&connection, json!({})).await.unwrap();
    connection
}

#[tokio::test(start_paused = true)]
async fn the_era_is_remembered_over_starts() {
    for server in [Remote::legacy(), Remote::modern()] {
        let folder = tempfile::tempdir().unwrap();
        let file = EraFile::at(folder.path().join("eras.json"));
        let first = restarted(&server, &file).await;
        let links = server.starts().len();
        let again = restarted(&server, &file).await;
        assert_eq!(server.starts().len(), links + 1);
        assert_eq!(server.told(links + 1), told(first.is_modern()));
        assert_eq!(again.is_modern(), first.is_modern());
    }
}

#[tokio::test(start_paused = true)]
async fn an_era_that_proves_wrong_is_forgotten_and_found_anew() {
    let all = [
        Speaks::Modern,
        Speaks::Legacy,
        Speaks::LegacyAndStatus(400),
        Speaks::Modern,
        Speaks::LegacyAndStatus(404),
        Speaks::LegacyAndStatus(405),
        Speaks::Modern,
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = EraFile::at(folder.path().join("eras.json"));
    for speaks in all {
        let server = Remote::new(speaks);
        let connection = restarted(&server, &file).await;
        assert_eq!(connection.is_modern(), speaks == Speaks::Modern, "{speaks:?}");
        assert_eq!(connection.status().borrow().budget_left, 5, "{speaks:?}: that is no fault");
        let links = server.starts().len();
        assert!(links <= 3, "{speaks:?}: {links} attempts");
        restarted(&server, &file).await;
        assert_eq!(server.starts().len(), links + 1, "{speaks:?}: now it is known");
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_does_not_know_the_legacy_handshake_is_found_anew() {
    for code in [-32601, -32600, -32022] {
        let folder = tempfile::tempdir().unwrap();
        let file = EraFile::at(folder.path().join("eras.json"));
        restarted(&Remote::legacy(), &file).await;
        let server = Remote::modern().on("initialize", move |message| {
            Some(vec![Act::Say(refusal(&message["id"], code, "no such method"))])
        });
        let connection = restarted(&server, &file).await;
        assert!(connection.is_modern(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_era_that_the_operator_insists_on_is_not_left() {
    let server = Remote::modern()
        .on("initialize", |message| Some(vec![Act::Say(refusal(&message["id"], -32022, "no"))]));
    let connection = to(&server).era(Era::Legacy).build();
    let error = work(&connection, json!({})).await.unwrap_err();
    assert!(matches!(error.fault.as_deref(), Some(Fault::HandshakeRefused { code: -32022, .. })), "{error}");
    assert_eq!(server.count("server/discover"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_comes_back_as_a_modern_one_is_another_server() {
    let server = Remote::legacy();
    let connection = to(&server).era(Era::Auto).build();
    work(&connection, json!({})).await.unwrap();
    let server =
        server.on("initialize", |message| Some(vec![Act::Say(refusal(&message["id"], -32022, "no"))]));
    server.forget();
    let error = work(&connection, json!({})).await.unwrap_err();
    assert!(matches!(error.fault.as_deref(), Some(Fault::VersionChanged { .. })), "{error}");
    assert_eq!(connection.status().borrow().state.name(), "parked");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_comes_back_as_a_legacy_one_is_another_server() {
    let server = Remote::modern();
    let connection = to(&server).era(Era::Auto).build();
    work(&connection, json!({})).await.unwrap();
    let _server = server
        .on("server/discover", |message| Some(vec![Act::Say(refusal(&message["id"], -32000, "no session"))]));
    connection.reconnect(regrow::core::Requester::Person);
    until(&connection, |status| status.state.name() == "parked").await;
    let error = work(&connection, json!({})).await.unwrap_err();
    assert!(matches!(error.fault.as_deref(), Some(Fault::VersionChanged { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_at_the_start_forgets_no_era() {
    let folder = tempfile::tempdir().unwrap();
    let file = EraFile::at(folder.path().join("eras.json"));
    let server = Remote::modern();
    restarted(&server, &file).await;
    server.set_path(Path::Down);
    let connection = finding_out(&server).era_file(file.clone(), "http://fake/").build();
    connection.start();
    sleep(millis(900)).await;
    server.revive();
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_life_over_the_network_can_be_told() {
    let server = Remote::legacy();
    let connection = finding_out(&server).build();
    let life = Life::of(&connection);
    work(&connection, json!({})).await.unwrap();
    sleep(secs(1)).await;
    server.kill();
    sleep(millis(100)).await;
    server.revive();
    until(&connection, |status| status.sessions == 2).await;
    connection.close().await;
    settle().await;
    life.check(
        "0.0s connecting (session 1)
         0.0s the server speaks the other protocol era; not counted against the restart budget
         0.0s connecting (session 2)
         0.0s ready (session 2)
         1.0s the connection has a problem; probing the server
         1.0s fake:80 cannot be reached: connection refused
         1.0s connecting (session 3)
         1.0s fake:80 cannot be reached: connection refused
         1.0s next attempt in 0.25 s
         1.2s connecting (session 4)
         1.2s ready (session 4); state that the server kept for the old session may be lost
         1.2s ending the session as requested
         1.2s closed",
    );
}

#[tokio::test(start_paused = true)]
async fn who_answers_the_question_with_nonsense_is_a_legacy_server() {
    let server = Remote::legacy().on("server/discover", |message: &Value| {
        Some(vec![Act::Say(json!({ "jsonrpc": "2.0", "id": message["id"], "error": "nonsense" }))])
    });
    let connection = finding_out(&server).build();
    work(&connection, json!({})).await.unwrap();
    assert!(!connection.is_modern());
}
