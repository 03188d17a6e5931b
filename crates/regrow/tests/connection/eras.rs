//! Which era does a server speak? Found out once, on a fresh process where the question spoils, and remembered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use regrow::core::{Fault, Requester};
use regrow::{ClientParams, Connection, Era, EraFile};
use regrow_testkit::script::{Act, Plan, Speaks, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tempfile::TempDir;

fn finding_out(server: &Server) -> Connection {
    to(server).era(Era::Auto).build()
}

fn speaks(speaks: Speaks) -> Plan {
    Plan { speaks, ..Plan::default() }
}

const HANDSHAKE: [&str; 2] = ["initialize", "notifications/initialized"];

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_asked_once_and_its_requests_carry_the_envelope() {
    for era in [Speaks::Modern, Speaks::Both] {
        let server = Server::always(speaks(era));
        let connection = finding_out(&server);
        work(&connection, json!({})).await.unwrap();
        assert_eq!(server.told(1), ["server/discover", "tools/call"]);
        for heard in server.heard() {
            let meta = &heard.message["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
            assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "regrow");
        }
        assert!(connection.is_modern());
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_refuses_the_question_is_started_afresh() {
    let server = Server::always(speaks(Speaks::Legacy));
    let connection = finding_out(&server);
    let life = Life::of(&connection);
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.told(1), ["server/discover"]);
    assert_eq!(server.told(2), [&HANDSHAKE[..], &["tools/call"]].concat());
    life.check(
        "0.0s starting the server (session 1)
         0.0s the server speaks the other protocol era; not counted against the restart budget
         0.0s starting the server (session 2)
         0.0s ready (session 2)",
    );
    assert_eq!(connection.status().borrow().budget_left, 5);
    assert!(!connection.is_modern());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_whatever_it_is_asked_is_a_legacy_one() {
    let only_legacy = json!({ "code": -32022, "message": "no", "data": { "supported": ["2025-11-25"] } });
    let answers = [
        json!({ "result": {} }),
        json!({ "result": { "supportedVersions": ["2025-11-25"] } }),
        json!({ "error": only_legacy }),
    ];
    for said in answers {
        let server = Server::always(speaks(Speaks::Legacy).on("server/discover", move |question| {
            let mut said = said.clone();
            said["jsonrpc"] = "2.0".into();
            said["id"] = question["id"].clone();
            vec![Act::Say(said)]
        }));
        let connection = finding_out(&server);
        work(&connection, json!({})).await.unwrap();
        assert_eq!(server.told(2), [&HANDSHAKE[..], &["tools/call"]].concat());
        assert!(!connection.is_modern());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_names_our_revision_is_asked_about_once_more() {
    let asked = Arc::new(AtomicU64::new(0));
    let plan = speaks(Speaks::Modern).on("server/discover", move |question| {
        let supported = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
        vec![Act::Say(match asked.fetch_add(1, Ordering::Relaxed) {
            0 => json!({ "jsonrpc": "2.0", "id": question["id"],
                "error": { "code": -32022, "message": "try again", "data": supported } }),
            _ => answer(&question["id"], json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} })),
        })]
    });
    let server = Server::always(plan);
    let connection = finding_out(&server);
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.told(1), ["server/discover", "server/discover", "tools/call"]);
    assert!(connection.welcome().is_some_and(|welcome| welcome.modern));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_agrees_to_the_modern_revision_in_a_handshake_is_a_modern_one() {
    let server = Server::always(Plan { version: "2026-07-28", ..speaks(Speaks::Both) });
    let hello = ClientParams {
        client_info: json!({ "name": "old" }),
        capabilities: json!({}),
        legacy_version: Some("2025-11-25".into()),
    };
    let connection = to(&server).era(Era::Auto).client_params(hello).build();
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.told(1), ["initialize"]);
    assert_eq!(server.told(2), ["server/discover", "tools/call"]);
    assert!(connection.is_modern());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_of_the_question_is_a_legacy_one() {
    let server = Server::always(speaks(Speaks::LegacyDiesOfDiscover));
    let connection = finding_out(&server);
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.told(1), ["server/discover"]);
    assert_eq!(server.told(2), [&HANDSHAKE[..], &["tools/call"]].concat());
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_to_the_question_is_a_legacy_one() {
    let server = Server::always(speaks(Speaks::LegacySilentOnDiscover));
    let connection = finding_out(&server);
    work(&connection, json!({})).await.unwrap();
    assert_eq!(server.told(1), ["server/discover", "server/discover"], "silence is no answer");
    assert_eq!(server.told(2), [&HANDSHAKE[..], &["server/discover", "tools/call"]].concat());
    assert_eq!(server.starts()[1].as_secs(), 30, "half of the connect timeout");
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_of_15_s_is_ready_in_both_eras() {
    for era in [Speaks::Modern, Speaks::Legacy, Speaks::LegacyDiesOfDiscover, Speaks::LegacySilentOnDiscover]
    {
        let server = Server::always(Plan { start_delay: secs(15), ..speaks(era) });
        let connection = finding_out(&server);
        work(&connection, json!({})).await.unwrap();
        assert_eq!(connection.is_modern(), era == Speaks::Modern, "{era:?}");
        let silent = era == Speaks::LegacySilentOnDiscover;
        assert!(server.heard().last().unwrap().at < secs(if silent { 54 } else { 36 }), "{era:?}");
        assert_eq!(connection.status().borrow().budget_left, 5, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn scenario_53_a_modern_server_that_takes_25_s_is_not_taken_for_a_legacy_one() {
    for era in [Speaks::Modern, Speaks::Both] {
        let slow = |question: &Value| {
            let found = json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} });
            vec![Act::Wait(secs(25)), Act::Say(answer(&question["id"], found))]
        };
        for plan in [Plan { start_delay: secs(25), ..speaks(era) }, speaks(era).on("server/discover", slow)] {
            let server = Server::always(plan);
            let connection = finding_out(&server);
            work(&connection, json!({})).await.unwrap();
            assert!(connection.is_modern());
            assert_eq!(server.starts().len(), 1);
            let told = server.told(1);
            assert_eq!(
                told,
                ["server/discover", "server/discover", "tools/call"],
                "asked again on the same session"
            );
        }
    }
}

/// Where an earlier start has written down what it found.
fn remembering(server: &Server, folder: &TempDir) -> Connection {
    let file = EraFile::at(folder.path().join("eras.json"));
    to(server).era(Era::Auto).era_file(file, "fake").build()
}

fn remembered(folder: &TempDir) -> String {
    std::fs::read_to_string(folder.path().join("eras.json")).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn scenario_53_a_first_start_slower_than_all_questions_does_not_decide_the_era() {
    let folder = TempDir::new().unwrap();
    let server = Server::new(|start| match start {
        1 => Plan { start_delay: secs(50), ..speaks(Speaks::Both) },
        _ => Plan { start_delay: secs(5), ..speaks(Speaks::Both) },
    });
    let connection = remembering(&server, &folder);
    work(&connection, json!({})).await.unwrap();
    assert!(connection.is_modern(), "asked again when it had shaken hands as a legacy server");
    assert_eq!(server.told(2), [&HANDSHAKE[..], &["server/discover"]].concat());
    assert_eq!(server.told(3), ["server/discover", "tools/call"]);
    assert_eq!(connection.status().borrow().budget_left, 5);
    assert!(remembered(&folder).contains("modern"));
}

#[tokio::test(start_paused = true)]
async fn scenario_53_an_answer_that_comes_later_than_everything_is_no_error_and_fixes_no_era() {
    let folder = TempDir::new().unwrap();
    let server = Server::always(speaks(Speaks::Both).on("server/discover", |question| {
        let found = json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} });
        vec![Act::Wait(secs(40)), Act::Say(answer(&question["id"], found))]
    }));
    let connection = remembering(&server, &folder);
    work(&connection, json!({})).await.unwrap();
    assert!(!connection.is_modern(), "served as a legacy server, provisionally");
    assert_eq!(remembered(&folder), "", "and nobody remembers that");
    tokio::time::sleep(secs(60)).await;
    work(&connection, json!({})).await.unwrap();
    let status = connection.status().borrow().clone();
    assert_eq!((status.budget_left, status.sessions, status.anomalies.stray), (5, 1, 0));
    assert!(remembered(&folder).contains("modern"), "the late answer counts for the next start");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_was_slow_says_so_when_it_is_asked_again() {
    let folder = TempDir::new().unwrap();
    for era in [Speaks::Legacy, Speaks::LegacyDiesOfDiscover] {
        let server = Server::new(move |start| match start {
            1 => Plan { start_delay: secs(50), ..speaks(era) },
            _ => speaks(era),
        });
        let connection = remembering(&server, &folder);
        work(&connection, json!({})).await.unwrap();
        assert!(!connection.is_modern());
        assert_eq!(connection.status().borrow().budget_left, 5, "{era:?}");
        assert!(remembered(&folder).contains("legacy"), "{era:?}");
        std::fs::remove_file(folder.path().join("eras.json")).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_starts_slower_than_the_question_waits_is_found_all_the_same() {
    let server = Server::new(|start| match start {
        1 => Plan { start_delay: secs(50), ..speaks(Speaks::Modern) },
        _ => Plan { start_delay: secs(25), ..speaks(Speaks::Modern) },
    });
    let connection = finding_out(&server);
    work(&connection, json!({})).await.unwrap();
    assert!(connection.is_modern());
    assert_eq!(server.told(2), ["initialize"], "refused in words of the modern era");
    assert_eq!(server.told(3), ["server/discover", "tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn the_era_is_remembered() {
    for era in [Speaks::Modern, Speaks::LegacyDiesOfDiscover] {
        let server = Server::always(speaks(era));
        let connection = finding_out(&server);
        work(&connection, json!({})).await.unwrap();
        let starts = server.starts().len();
        server.die(Fault::Killed { signal: 9 });
        settle().await;
        work(&connection, json!({})).await.unwrap();
        connection.reconnect(Requester::Person);
        settle().await;
        work(&connection, json!({})).await.unwrap();
        assert_eq!(server.starts().len(), starts + 2);
        for start in [starts + 1, starts + 2] {
            let greeting = if era == Speaks::Modern { vec!["server/discover"] } else { HANDSHAKE.to_vec() };
            assert_eq!(server.told(start), [greeting, vec!["tools/call"]].concat());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_the_question_is_no_error() {
    let server = Server::always(speaks(Speaks::Legacy).on("server/discover", |message| {
        let id = message["id"].clone();
        vec![
            Act::Wait(secs(40)),
            Act::Say(regrow_testkit::script::answer(&id, json!({ "supportedVersions": [] }))),
        ]
    }));
    let connection = finding_out(&server);
    work(&connection, json!({})).await.unwrap();
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crashes_whatever_it_is_asked_parks() {
    let server = Server::always(
        Plan::default()
            .on("server/discover", |_| vec![Act::Die(Fault::Exited { code: 1 })])
            .on("initialize", |_| vec![Act::Die(Fault::Exited { code: 1 })]),
    );
    let connection = finding_out(&server);
    connection.start();
    until(&connection, |status| status.state.name() == "parked").await;
    assert_eq!(server.starts().len(), 7, "the first question is free, and six faults are charged");
    assert_eq!(server.heard_of("server/discover").len(), 3, "its exit need not be due to the question");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_exits_at_its_first_start_is_reported_with_its_stderr() {
    let exits = || Plan {
        stderr: vec!["TOKEN missing".into()],
        ..Plan::default().dies_after(millis(50), Fault::Exited { code: 1 })
    };
    for era in [Era::Auto, Era::Legacy, Era::Modern] {
        let server = Server::always(Plan { start_delay: secs(9), ..exits() });
        let connection = to(&server).era(era).build();
        let error = work(&connection, json!({})).await.unwrap_err();
        assert!(matches!(error.fault.as_deref(), Some(Fault::Exited { code: 1 })), "{era:?}: {error}");
        assert_eq!(error.stderr, ["TOKEN missing"], "{era:?}");
        tokio::time::sleep(millis(4_500)).await;
        assert_eq!(server.starts().len(), 3, "{era:?}: no more than that within 5 s");
        // Then the usual rules hold: a call is worth an attempt.
        tokio::time::sleep(secs(60)).await;
        let starts = server.starts().len();
        work(&connection, json!({})).await.unwrap_err();
        assert_eq!(server.starts().len(), starts + 1, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_handshake_says_with_which_words() {
    let server = Server::always(Plan::default().on("initialize", |message| {
        vec![Act::Say(regrow_testkit::script::refusal(&message["id"], -32000, "no licence\u{1b}[2J"))]
    }));
    let connection = to(&server).build();
    let error = work(&connection, json!({})).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("refused the handshake with error -32000: no licence\\u{1b}[2J"), "{text}");
    assert!(text.contains("It did not run."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_while_the_question_is_open_does_not_decide_the_era() {
    let server = Server::new(|start| match start {
        1 => Plan { start_delay: secs(10), ..speaks(Speaks::Modern) },
        _ => speaks(Speaks::Both),
    });
    let connection = finding_out(&server);
    connection.start();
    tokio::time::sleep(secs(1)).await;
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.is_ready()).await;
    assert!(connection.is_modern());
}
