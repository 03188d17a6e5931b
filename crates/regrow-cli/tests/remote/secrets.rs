//! Secrets of remote servers: in headers, in the address, in what a server says. They go to the server and nowhere else.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::client::{PATIENCE, Setup};
use crate::evidence::{children_of, command_line};
use crate::site::{ERAS, Peer, Site, in_both_eras};

const SECRET: &str = "s3cr3t-Qx7vLm2p";

/// The secret is in nothing that we wrote.
fn assert_unseen(peer: &mut Peer, answers: &[String]) {
    let log = peer.log();
    assert!(!log.contains(SECRET), "in the log: {log}");
    for answer in answers {
        assert!(!answer.contains(SECRET), "in an answer: {answer}");
    }
}

/// Makes everything happen that is logged or told, and collects what was told.
fn provoke(site: &mut Site, peer: &mut Peer) -> Vec<String> {
    let mut told = vec![];
    let mut note = |(text, fault): (String, serde_json::Value)| told.push(format!("{text} {fault}"));
    site.control("status=500 on=tools/call");
    note(peer.failing_call("count", json!({})));
    site.control("status=200 body=html on=tools/call");
    note(peer.failing_call("count", json!({})));
    site.control("drop-answer on=tools/call");
    note(peer.failing_call("count", json!({})));
    site.control("redirect=9 on=tools/call");
    note(peer.failing_call("count", json!({})));
    site.control("");
    site.kill();
    note(peer.failing_call("count", json!({})));
    site.start();
    told
}

#[test]
fn a_secret_in_a_header_reaches_the_server_and_nobody_else() {
    in_both_eras(|era| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("headers");
        fs::write(&file, format!("Authorization: Bearer {SECRET}\n")).unwrap();
        let file = ["--header-file", file.to_str().unwrap()];
        for options in [&file[..], &["--bearer-env", "MY_TOKEN"]] {
            let mut site = Site::new(era, &format!("need-token={SECRET}"));
            let setup = site.setup().variable("MY_TOKEN", SECRET).options(options).options(&[
                "--log-level",
                "debug",
                "--call-timeout",
                "3s",
            ]);
            let mut peer = Peer::greet(setup, era);
            assert_eq!(peer.call("count", json!({})), "1");
            assert!(
                site.journal.authorizations().iter().all(|line| line.ends_with(&format!("Bearer {SECRET}")))
            );
            for pid in children_of(peer.client.pid()).into_iter().chain([peer.client.pid()]) {
                assert!(!command_line(pid).contains(SECRET), "{}", command_line(pid));
            }
            let told = provoke(&mut site, &mut peer);
            assert_unseen(&mut peer, &told);
            // Refused for good, too.
            site.control("need-token=other");
            let (text, fault) = peer.failing_call("count", json!({}));
            assert_unseen(&mut peer, &[text, fault.to_string()]);
            peer.client.leave();
            assert_unseen(&mut peer, &[]);
        }
    });
}

#[test]
fn a_secret_in_the_address_is_told_to_nobody() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let address = site.address();
        let url = format!("http://user:{SECRET}@{address}/mcp?key={SECRET}&x=1#{SECRET}");
        let setup = Setup::remote("env:MY_URL", &site.journal).variable("MY_URL", &url).options(&[
            "--log-level",
            "debug",
            "--call-timeout",
            "3s",
        ]);
        let mut peer = Peer::greet(setup, era);
        assert_eq!(peer.call("count", json!({})), "1");
        let basic = site.journal.authorizations();
        assert!(basic.iter().all(|line| line.contains(" Basic ")), "{basic:?}");
        let encoded = basic[0].rsplit(' ').next().unwrap().to_owned();
        let told = provoke(&mut site, &mut peer);
        assert_unseen(&mut peer, &told);
        assert!(!peer.log().contains(&encoded) && !told.concat().contains(&encoded), "in its other form");
        assert!(!command_line(peer.client.pid()).contains(SECRET));
        peer.client.leave();
        assert_unseen(&mut peer, &[]);
    }
}

#[test]
fn a_secret_in_an_address_that_is_down_or_wrong_is_told_to_nobody() {
    for era in ERAS {
        let site = Site::down(era, "");
        for url in [
            format!("http://user:{SECRET}@{}/mcp?key={SECRET}", site.address()),
            format!("http://user:{SECRET}@no-such-host.invalid/mcp?key={SECRET}"),
            format!("https://user:{SECRET}@{}/mcp?key={SECRET}", site.address()),
        ] {
            let setup = Setup::remote("env:MY_URL", &site.journal).variable("MY_URL", &url).options(&[
                "--log-level",
                "debug",
                "--connect-timeout",
                "1s",
            ]);
            let mut peer = Peer { client: setup.start(), era };
            let id = peer.ask_greeting();
            let answer = peer.client.answer_within(id, PATIENCE);
            assert_unseen(&mut peer, &[answer.to_string()]);
        }
    }
}

#[test]
fn a_mistake_in_the_command_line_quotes_no_secret() {
    let site = Site::down(ERAS[0], "");
    for (url, options) in [
        (format!("ftp://user:{SECRET}@host/{SECRET}"), vec![]),
        (format!("http://user:{SECRET}@[bad/{SECRET}"), vec![]),
        (site.url(), vec![format!("-HX-Key {SECRET}")]),
        (site.url(), vec![format!("-HX-Key: {SECRET}\r\nX: y")]),
    ] {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut client =
            Setup::remote("env:MY_URL", &site.journal).variable("MY_URL", &url).options(&options).start();
        let (code, _) = client.wait_for_exit();
        assert_eq!(code, Some(64));
        client.wait_for_log(0, "regrow");
        assert!(!client.log().join("\n").contains(SECRET), "{:?}", client.log());
    }
}

#[test]
fn credentials_do_not_follow_a_redirect_to_another_origin() {
    for era in ERAS {
        let elsewhere = Site::new(era, "");
        let site = Site::new(era, "");
        let setup = site.setup().variable("MY_TOKEN", SECRET).options(&["--bearer-env", "MY_TOKEN"]);
        let mut peer = Peer::greet(setup, era);
        site.control(&format!("redirect={}", elsewhere.address().port()));
        let (text, told) = peer.failing_call("count", json!({}));
        assert_eq!((&told["cause"], &told["delivery"]), (&json!("redirected"), &json!("not-sent")), "{told}");
        assert_unseen(&mut peer, &[text]);
        assert_eq!(elsewhere.journal.connections(), 0);
        site.control("");
        assert_eq!(peer.call("count", json!({})), "1");
        peer.leave();
    }
}

#[test]
fn an_endpoint_of_another_origin_is_not_used() {
    let elsewhere = Site::new(ERAS[0], "");
    let site = Site::new(ERAS[0], &format!("foreign-endpoint={}", elsewhere.address().port()));
    let url = format!("http://{}/sse", site.address());
    let setup = Setup::remote(&url, &site.journal).variable("MY_TOKEN", SECRET).options(&[
        "--bearer-env",
        "MY_TOKEN",
        "--connect-timeout",
        "2s",
    ]);
    let mut peer = Peer { client: setup.start(), era: ERAS[0] };
    let id = peer.ask_greeting();
    let answer = peer.client.answer_within(id, PATIENCE);
    assert!(answer.get("error").is_some(), "{answer}");
    assert_unseen(&mut peer, &[answer.to_string()]);
    assert_eq!(elsewhere.journal.connections(), 0);
}
