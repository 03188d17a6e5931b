//! SECURITY 16: what a server gets of our surroundings is what the configuration names, and what every program needs.

use serde_json::json;

use crate::client::{fault, is_failure, text};
use crate::guest::{Era, Guest};
use crate::house::{Place, REGROW, chaos};

/// What a program needs to find its way; `LC_*` and `XDG_*` beside it.
#[cfg(target_os = "linux")]
const USUAL: &str = "HOME LANG LANGUAGE LOGNAME PATH SHELL TEMP TERM TMP TMPDIR TZ USER \
    ALL_PROXY HTTPS_PROXY HTTP_PROXY NO_PROXY NODE_USE_ENV_PROXY all_proxy http_proxy https_proxy no_proxy \
    AWS_CA_BUNDLE CURL_CA_BUNDLE DENO_CERT DENO_TLS_CA_STORE GIT_SSL_CAINFO GIT_SSL_CAPATH NODE_EXTRA_CA_CERTS \
    NODE_USE_SYSTEM_CA REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE \
    NPM_CONFIG_CAFILE NPM_CONFIG_CACHE NPM_CONFIG_GLOBALCONFIG NPM_CONFIG_REGISTRY NPM_CONFIG_USERCONFIG \
    npm_config_cafile npm_config_cache npm_config_globalconfig npm_config_registry npm_config_userconfig \
    PIP_CERT PIP_CONFIG_FILE PIP_EXTRA_INDEX_URL PIP_INDEX_URL PIP_TRUSTED_HOST \
    UV_CACHE_DIR UV_CONFIG_FILE UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_INDEX UV_INDEX_URL UV_INSECURE_HOST \
    UV_NATIVE_TLS UV_SYSTEM_CERTS \
    DOCKER_CERT_PATH DOCKER_CONFIG DOCKER_CONTEXT DOCKER_HOST DOCKER_TLS_VERIFY KUBECONFIG SSH_AUTH_SOCK";

#[test]
fn security_16_a_server_gets_an_allow_list_and_what_the_configuration_names() {
    let place = Place::new([
        ("one", chaos("").variable("NAMED", "for one").variable("COPIED", "${OURS}")),
        ("two", chaos("")),
        ("open", chaos("").option("cleanEnv", false)),
    ])
    .variable("OURS", "our own")
    .variable("AWS_SECRET_ACCESS_KEY", "not-for-servers")
    .variable("TOKEN", "client-token")
    .variable("LC_ALL", "C")
    .variable("https_proxy", "http://proxy.example:1")
    .variable("KUBECONFIG", "/k")
    .options(&["--token-env", "TOKEN"]);
    let house = place.start();
    let mut guest = Guest::new(&house, Era::Modern).token("client-token");
    guest.tools();
    assert_eq!(guest.call("one__env", json!({ "name": "NAMED" })), "for one");
    assert_eq!(guest.call("one__env", json!({ "name": "COPIED" })), "our own");
    for server in ["one", "two"] {
        assert_eq!(guest.call(&format!("{server}__env"), json!({ "name": "LC_ALL" })), "C");
        for name in ["PATH", "https_proxy", "KUBECONFIG"] {
            assert!(!guest.call(&format!("{server}__env"), json!({ "name": name })).is_empty());
        }
        for name in ["OURS", "AWS_SECRET_ACCESS_KEY", "TOKEN", "CARGO_MANIFEST_DIR"] {
            let params = json!({ "name": format!("{server}__env"), "arguments": { "name": name } });
            let answer = guest.request("tools/call", params);
            assert!(is_failure(&answer) && fault(&answer).is_null(), "{server} {name}: {answer}");
            assert_eq!(text(&answer), "not set", "{server} {name}");
        }
    }
    // Nothing else, whatever it is called.
    #[cfg(target_os = "linux")]
    {
        let environment = std::fs::read(format!("/proc/{}/environ", place.pid("two"))).unwrap();
        let names = environment.split(|byte| *byte == 0).filter(|variable| !variable.is_empty());
        for name in names.map(|variable| String::from_utf8_lossy(variable).into_owned()) {
            let name = name.split('=').next().unwrap_or_default();
            let is_usual = USUAL.split(' ').any(|usual| usual == name)
                || ["LC_", "XDG_"].iter().any(|start| name.starts_with(start));
            // What the test's own configuration names, and the mark of the server's processes.
            let is_named = name.starts_with("CHAOS") || ["REGROW_SCENARIO", "REGROW_MARK"].contains(&name);
            assert!(is_usual || is_named, "{name}");
        }
    }
    let (said, _) = guest.failing_call("two__env", json!({ "name": "NAMED" }));
    assert_eq!(said, "not set", "what is for one server is for that one only");
    assert_eq!(guest.call("open__env", json!({ "name": "OURS" })), "our own", "where the operator wants it");
}

#[test]
fn security_16_a_server_has_no_file_of_ours_open_however_many_clients_there_are() {
    let place = Place::new([
        ("one", chaos("refuse-discover")),
        ("private", chaos("refuse-discover").option("sessions", "private")),
    ]);
    let house = place.start_after("exec 7</dev/null 9>&2");
    house.wait_for_tools("one");
    house.wait_for_tools("private");
    let mut guests: Vec<Guest> = (0..5).map(|_| Guest::of(&house, Era::Legacy)).collect();
    let _streams: Vec<_> = guests.iter_mut().map(Guest::listen).collect();
    guests[0].failing_call("one__die", json!({}));
    for server in ["one", "private"] {
        assert_eq!(guests[1].call(&format!("{server}__fds"), json!({})), "", "{server}: nothing above 2");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn security_16_no_program_that_a_server_starts_has_more_rights_than_it_unless_that_is_allowed() {
    let script = "grep NoNewPrivs /proc/self/status >> \"$CHAOS_DIR/flag\"; exec \"$0\" chaos-server";
    let server = chaos("").member("command", "sh").member("args", json!(["-c", script, REGROW]));
    let place = Place::new([("kept", server.clone()), ("free", server.option("noNewPrivileges", false))]);
    let house = place.start();
    for (name, flag) in [("kept", "1"), ("free", "0")] {
        house.wait_for_tools(name);
        let said = std::fs::read_to_string(place.journal(name).dir().join("flag")).unwrap();
        assert!(said.lines().all(|line| line.split_whitespace().eq(["NoNewPrivs:", flag])), "{name}: {said}");
    }
}
