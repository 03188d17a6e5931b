//! Scenario 36: there is something else at the address.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Setup, fault, text};
use crate::far;
use crate::site::{ERAS, Era, Peer, Site};

/// Greets whatever is there, and returns how that was told.
fn told(setup: Setup, era: Era) -> (Peer, Value) {
    let mut peer = Peer { client: setup.start(), era };
    let id = peer.ask_greeting();
    let answer = peer.client.answer_within(id, Duration::from_secs(10));
    assert!(answer.get("error").is_some(), "{answer}");
    (peer, answer)
}

fn assert_one_attempt(site: &Site, peer: &Peer, most: usize) {
    peer.client.wait_for_log(0, "parked");
    let connections = site.journal.connections();
    assert!(connections <= most, "{connections} connections\n{}", peer.log());
    let more = site.journal.wait(Duration::from_millis(700), |journal| journal.connections() > connections);
    assert!(!more, "it is left alone");
}

#[test]
fn scenario_36_a_page_of_html_is_no_server() {
    for era in ERAS {
        let site = Site::new(era, "status=200 body=html");
        let (peer, answer) = told(site.setup(), era);
        assert_eq!(fault(&answer)["cause"], "not-mcp", "{answer}");
        assert!(text(&answer).contains("HTML"), "{answer}");
        assert_one_attempt(&site, &peer, 3);
    }
}

#[test]
fn scenario_36_a_wrong_path_is_told_with_what_was_found() {
    for era in ERAS {
        let site = Site::new(era, "");
        let (peer, answer) = told(Setup::remote(&site.url().replace("/mcp", "/nowhere"), &site.journal), era);
        assert!(["not-mcp", "status"].contains(&fault(&answer)["cause"].as_str().unwrap()), "{answer}");
        assert!(text(&answer).contains("404"), "{answer}");
        assert_one_attempt(&site, &peer, 4);
    }
}

#[test]
fn scenario_36_a_redirect_to_another_origin_is_told_and_not_followed() {
    for era in ERAS {
        let elsewhere = Site::new(era, "");
        let site = Site::new(era, &format!("redirect={}", elsewhere.address().port()));
        let (peer, answer) = told(site.setup().options(&["-H", "Authorization: Bearer x"]), era);
        assert_eq!(fault(&answer)["cause"], "redirected", "{answer}");
        assert!(text(&answer).contains(&elsewhere.url()), "{answer}");
        assert_eq!(elsewhere.journal.connections(), 0);
        assert_one_attempt(&site, &peer, 3);
    }
}

#[test]
fn scenario_36_a_redirect_on_the_same_server_is_followed() {
    for era in ERAS {
        let site = Site::new(era, "redirect");
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({})), "1", "{era:?}");
        assert_eq!(site.journal.runs("count"), 1);
        peer.leave();
    }
}

#[test]
fn scenario_36_no_tls_where_tls_is_expected() {
    for era in ERAS {
        let site = Site::new(era, "");
        let (peer, answer) = told(Setup::remote(&site.url().replace("http:", "https:"), &site.journal), era);
        assert_eq!(fault(&answer)["cause"], "untrusted", "{answer}");
        assert!(text(&answer).contains("TLS connection"), "{answer}");
        assert_one_attempt(&site, &peer, 3);
    }
}

#[test]
fn scenario_36_something_that_speaks_no_http() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            // It may leave at once.
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(b"502 5.5.2 Error: command not recognized\r\n");
        }
    });
    let journal = regrow_chaos::Journal::new("/nonexistent");
    let (peer, answer) = told(Setup::remote(&format!("http://{address}/mcp"), &journal), Era::Legacy);
    assert_eq!(fault(&answer)["cause"], "not-mcp", "{answer}");
    peer.client.wait_for_log(0, "parked");
}

#[test]
fn scenario_36_a_host_that_does_not_exist() {
    let journal = regrow_chaos::Journal::new("/nonexistent");
    let setup =
        Setup::remote("http://no-such-host.invalid/mcp", &journal).options(&["--connect-timeout", "20s"]);
    let (_, answer) = told(setup, Era::Legacy);
    assert_eq!(fault(&answer)["cause"], "unknown-host", "{answer}");
    assert!(text(&answer).contains("no-such-host.invalid"), "{answer}");
}

#[test]
fn scenario_36_a_page_in_the_middle_of_a_life_fails_one_call() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect();
        let greeted = peer.sessions();
        site.control("status=200 body=html on=tools/call");
        let (said, told) = peer.failing_call("count", json!({}));
        assert_eq!(told["cause"], "not-mcp", "{told}");
        assert!(said.contains("HTML"), "{said}");
        site.control("");
        assert_eq!(peer.call("count", json!({})), "1");
        assert_eq!((site.journal.runs("count"), peer.sessions()), (1, greeted));
        peer.leave();
    }
}

#[test]
fn the_proxy_that_the_environment_names_is_used_for_everything() {
    let proxy = far::start(); // It answers whomever it is asked for.
    let site = Site::new(Era::Legacy, "");
    let setup = Setup::remote("http://mcp.example/mcp", &site.journal)
        .variable("http_proxy", proxy.trim_end_matches("/mcp"))
        .variable("no_proxy", "")
        .options(&["-H", &format!("X-Key: {}", far::KEY)]);
    let mut peer = Peer::greet(setup, Era::Legacy);
    let answer = peer.request("tools/list", json!({}));
    assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(
        peer.client.logged("warning"),
        0,
        "nothing went straight to a host that nobody knows: {}",
        peer.log()
    );
    peer.leave();
}
