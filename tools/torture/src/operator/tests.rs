//! What is read is what was said, from a gateway that lies.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use super::*;

#[test]
fn what_is_said_of_a_server_is_held_against_its_process() {
    let said = |pid: u32| {
        let restarts = json!({ "killed": 2, "planned": 1 });
        json!({ "state": "ready", "inStateMs": 1500.5, "epoch": 3, "pid": pid, "eager": true, "restarts": restarts })
    };
    let dead = standing(&said(0), Some("no mark like this"));
    let wanted = Standing {
        state: "ready",
        in_state: Duration::from_micros(1_500_500),
        epoch: 3,
        counts: true,
        restarts: 3,
        lives: false,
    };
    assert_eq!(dead, wanted);
    let other = standing(&said(std::process::id()), Some("no mark like this"));
    assert!(!other.lives, "a living process is not enough: it must be this server's");
    assert!(standing(&said(0), None).lives, "nobody knows of a remote one");
}

#[test]
fn a_gauge_must_be_one_for_one_state() {
    let line = |state, value| format!("regrow_server_state{{server=\"a\",state=\"{state}\"}} {value}\n");
    assert_eq!(gauge(&(line("ready", 0) + &line("backoff", 1)), "a"), "backoff");
    assert_eq!(gauge(&(line("ready", 1) + &line("backoff", 1)), "a"), "two states");
    assert_eq!(gauge(&line("ready", 1), "b"), "no state");
}

/// Answers with what it is given for each path, until the test is over.
fn say(pages: &'static [(&'static str, &'static str)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let length = socket.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]);
            let path = request.split(' ').nth(1).unwrap_or_default();
            let body = pages.iter().find(|(page, _)| *page == path).map_or("", |(_, body)| *body);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    address
}

/// A program that says where it serves, and does nothing else: the pages are ours.
fn impostor(folder: &Path, address: SocketAddr) -> Gateway {
    let program = folder.join("regrow");
    fs::write(&program, format!("#!/bin/sh\necho 'serving at http://{address}/mcp' >&2\nexec sleep 60\n"))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    loop {
        match Gateway::start(&program, folder, "an impostor", &json!({})) {
            // Another test has forked while we wrote the script, and holds it open for a moment.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
            started => return started.unwrap(),
        }
    }
}

#[test]
fn an_impostor_is_caught_whose_pages_contradict_each_other() {
    let address = say(&[
        ("/status", "{\"servers\":[{\"name\":\"a\",\"state\":\"backoff\",\"eager\":true,\"epoch\":2}]}"),
        ("/readyz", "{\"ready\":true}"),
        ("/metrics", "regrow_server_state{server=\"a\",state=\"ready\"} 1\n"),
        ("/livez", "alive\n"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(impostor(folder.path(), address));
    let watched = |name: &str| Watched { name: name.into(), mark: None, processes: 0 };
    let operator = Operator::new(gateway.clone(), vec![watched("a")], Instant::now());
    assert!(!operator.is_calm());
    operator.watch(&AtomicBool::new(true));
    let readings = &lock(&operator.told).readings;
    let lies: Vec<String> = judge_readings("serve", &["lane 6".to_owned()], readings, &[])
        .into_iter()
        .map(|broken| broken.what)
        .collect();
    assert!(
        lies.len() == 2 && lies[0].contains("/readyz says 200") && lies[1].contains("/metrics"),
        "{lies:?}"
    );
    let stranger = Operator::new(gateway, vec![watched("b")], Instant::now());
    stranger.watch(&AtomicBool::new(true));
    assert_eq!(lock(&stranger.told).failures.len(), 1, "a server that is not told of");
}
