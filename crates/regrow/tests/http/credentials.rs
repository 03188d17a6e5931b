//! Credentials that are refused, renewed once for all, and seen by nobody.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use regrow::core::Fault;
use regrow::transport::http::{BearerEnv, Credential, HeaderFile, Headers, Http, Rejected};
use regrow::transport::{BoxFuture, Transport};
use tokio::sync::watch;

use crate::ear::{ANSWER, CALL, Carried, Heard, LIMIT, frame, http, open};
use crate::server::Server;

/// A token that becomes `good` when it may be renewed.
struct Token {
    value: Arc<Mutex<&'static str>>,
    next: &'static str,
    refreshes: Arc<AtomicUsize>,
    /// Renewing waits for this.
    gate: watch::Receiver<bool>,
}

impl Token {
    fn new(next: &'static str) -> (Arc<Token>, watch::Sender<bool>) {
        let (open, gate) = watch::channel(false);
        let token = Token { value: Arc::new(Mutex::new("old")), next, refreshes: Arc::default(), gate };
        (Arc::new(token), open)
    }

    fn refreshes(&self) -> usize {
        self.refreshes.load(Ordering::SeqCst)
    }
}

impl Credential for Token {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let value = format!("Bearer {}", self.value.lock().unwrap());
        vec![(AUTHORIZATION, HeaderValue::try_from(value).unwrap())]
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        self.refreshes.fetch_add(1, Ordering::SeqCst);
        let (value, next, mut gate) = (self.value.clone(), self.next, self.gate.clone());
        Box::pin(async move {
            assert_eq!(rejected.code, 401);
            assert_eq!(rejected.headers[0].1, "Bearer old");
            assert_eq!(rejected.challenges, ["Basic", "Bearer realm=x"]);
            let _ = gate.wait_for(|open| *open).await;
            *value.lock().unwrap() = next;
            next != "old"
        })
    }
}

fn guarded() -> Server {
    Server::new(|request, talk| {
        if request.header("authorization") == Some("Bearer good") {
            talk.json(ANSWER);
        } else {
            talk.reply(401, "WWW-Authenticate: Basic\r\nWWW-Authenticate: Bearer realm=x\r\n", "");
        }
    })
}

#[tokio::test]
async fn ten_refusals_at_once_cause_one_renewal() {
    let server = guarded();
    let (token, gate) = Token::new("good");
    let link = open(&http(&server.url()).credential(token.clone())).await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let ear = Heard::new(Some(7.into()));
            (tokio::spawn(link.exchanges.clone().carry(frame(CALL), ear.clone())), ear)
        })
        .collect();
    server.until(10).await;
    gate.send_replace(true);
    for (call, ear) in calls {
        call.await.unwrap().unwrap();
        assert_eq!((ear.texts(), ear.sent()), (vec![ANSWER.to_owned()], 2));
    }
    assert_eq!((token.refreshes(), server.requests().len()), (1, 20));
}

#[tokio::test]
async fn a_renewal_goes_on_when_whoever_began_it_leaves() {
    let server = guarded();
    let (token, gate) = Token::new("good");
    let link = open(&http(&server.url()).credential(token.clone())).await;
    let first = tokio::spawn(link.exchanges.clone().carry(frame(CALL), Heard::new(Some(7.into()))));
    let begun = async {
        while token.refreshes() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, begun).await.unwrap();
    let second = tokio::spawn(link.exchanges.clone().carry(frame(CALL), Heard::new(Some(7.into()))));
    server.until(2).await;
    first.abort();
    gate.send_replace(true);
    second.await.unwrap().unwrap();
    assert_eq!(token.refreshes(), 1);
}

#[tokio::test]
async fn what_stays_refused_is_told() {
    let unauthorized = Fault::Unauthorized { code: 401 };
    for next in ["old", "bad"] {
        let server = guarded();
        let (token, gate) = Token::new(next);
        gate.send_replace(true);
        let link = open(&http(&server.url()).credential(token.clone())).await;
        assert_eq!(link.carry(CALL).await.fault(), unauthorized);
        assert_eq!(token.refreshes(), 1);
        // A value that is no other is not sent again.
        assert_eq!(server.requests().len(), if next == "bad" { 2 } else { 1 });
    }
    let server = guarded();
    assert_eq!(open(&http(&server.url())).await.carry(CALL).await.fault(), unauthorized);
    let fixed = Headers::new([("Authorization", "Bearer wrong")]).unwrap();
    let link = open(&http(&server.url()).credential(Arc::new(fixed))).await;
    assert_eq!(link.carry(CALL).await.fault(), unauthorized);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn forbidden_without_an_answer_is_about_credentials() {
    for body in ["go away", r#"{"error":"insufficient_scope","error_description":"go away"}"#] {
        let server = Server::new(move |_, talk| talk.reply(403, "Content-Type: application/json\r\n", body));
        let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
        assert_eq!(fault, Fault::Unauthorized { code: 403 });
    }
}

/// It has as many scopes as it was asked for, up to a limit.
struct Wider {
    scopes: Arc<AtomicUsize>,
    most: usize,
}

impl Credential for Wider {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        vec![(AUTHORIZATION, self.scopes.load(Ordering::SeqCst).into())]
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let wider = self.scopes.load(Ordering::SeqCst) < self.most;
        self.scopes.fetch_add(wider.into(), Ordering::SeqCst);
        assert_eq!(rejected.code == 401, rejected.challenges.is_empty());
        Box::pin(std::future::ready(wider))
    }
}

const FORBIDDEN: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"not with this token"}}"#;

/// It wants to know who we are (1), and then so many scopes. It says so under an answer.
async fn stepped_up(needed: usize, most: usize) -> (Carried, usize) {
    let server = Server::new(move |request, talk| match request.header("authorization") {
        Some("0") => talk.reply(401, "", ""),
        Some(scopes) if scopes.parse::<usize>().unwrap() >= needed => talk.json(ANSWER),
        _ => {
            let challenge = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"more\"\r\n";
            talk.reply(403, &format!("{challenge}Content-Type: application/json\r\n"), FORBIDDEN);
        }
    });
    let wider = Wider { scopes: Arc::default(), most };
    let carried = open(&http(&server.url()).credential(Arc::new(wider))).await.carry(CALL).await;
    (carried, server.requests().len())
}

#[tokio::test]
async fn a_message_is_sent_again_with_the_scopes_that_it_needs() {
    let (carried, sent) = stepped_up(4, 100).await;
    assert_eq!((carried.texts(), sent), (vec![ANSWER.to_owned()], 5));
}

#[tokio::test]
async fn scopes_that_do_not_suffice_are_widened_a_few_times() {
    let (carried, sent) = stepped_up(100, 100).await;
    assert_eq!((carried.texts(), sent), (vec![FORBIDDEN.to_owned()], 5));
    let (carried, sent) = stepped_up(3, 2).await;
    assert_eq!((carried.texts(), sent), (vec![FORBIDDEN.to_owned()], 3));
}

/// Has a good token only for a client. For others it has one that is refused as well, when a client has begun to wait.
#[derive(Clone, Default)]
struct ForClients {
    shown: Arc<Mutex<Vec<&'static str>>>,
    ear: Arc<Heard>,
    next: &'static str,
}

impl Credential for ForClients {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let token = self
            .shown
            .lock()
            .unwrap()
            .last()
            .map_or_else(|| "Bearer old".into(), |token| format!("Bearer {token}"));
        vec![(AUTHORIZATION, HeaderValue::try_from(token).unwrap())]
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        self.shown.lock().unwrap().push(if rejected.is_awaited { "good" } else { self.next });
        self.ear.is_awaited.store(true, Ordering::SeqCst);
        Box::pin(std::future::ready(true))
    }
}

#[tokio::test]
async fn a_client_that_begins_to_wait_has_a_renewal_of_its_own() {
    for next in ["old", "useless"] {
        let server = guarded();
        let ear = Heard::new(Some(7.into()));
        let token = ForClients { ear: ear.clone(), next, ..ForClients::default() };
        let link = open(&http(&server.url()).credential(Arc::new(token.clone()))).await;
        link.exchanges.clone().carry(frame(CALL), ear.clone()).await.unwrap();
        assert_eq!(ear.texts(), [ANSWER]);
        assert_eq!(*token.shown.lock().unwrap(), [next, "good"]);
    }
}

#[tokio::test]
async fn a_renewal_that_panics_is_a_refusal() {
    struct Broken;
    impl Credential for Broken {
        fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
            vec![]
        }
        fn refresh(&self, _: Rejected) -> BoxFuture<bool> {
            Box::pin(async { panic!("the test wants this") })
        }
    }
    let server = guarded();
    let link = open(&http(&server.url()).credential(Arc::new(Broken))).await;
    for _ in 0..2 {
        assert_eq!(link.carry(CALL).await.fault(), Fault::Unauthorized { code: 401 });
    }
}

#[tokio::test]
async fn a_file_of_headers_is_read_again_when_it_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("headers");
    fs::write(&path, "# ours\n\nAuthorization: Bearer old\nX-Team:  blue \n").unwrap();
    let file = HeaderFile::new(&path).unwrap();
    let server = guarded();
    let link = open(&http(&server.url()).credential(Arc::new(file))).await;
    assert_eq!(link.carry(CALL).await.fault(), Fault::Unauthorized { code: 401 });
    fs::write(&path, "Authorization: Bearer good\n").unwrap();
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
    assert_eq!(server.requests()[0].header("x-team"), Some("blue"));
}

#[tokio::test]
async fn a_file_of_headers_that_changes_mends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("headers");
    fs::write(&path, "Authorization: Bearer old\n").unwrap();
    let http = http("http://127.0.0.1:1/").credential(Arc::new(HeaderFile::new(&path).unwrap()));
    let mended = http.mended();
    fs::write(&path, "Authorization: Bearer new\n").unwrap();
    tokio::time::timeout(LIMIT, mended).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(1500), http.mended()).await;
    assert!(nothing.is_err(), "it did not change again");
}

#[test]
fn a_file_that_is_no_file_of_headers_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("headers");
    let name = format!("{:?}", path.display().to_string());
    for (text, reason) in [
        ("Authorization hunter2", "line 1: it is not `Name: value`"),
        ("\nA: b\nB d: hunter2", "line 3: it cannot be sent as a header"),
        (&"A: hunter2\n".repeat(10_000), "it is larger than 64 KiB"),
    ] {
        fs::write(&path, text).unwrap();
        let said = HeaderFile::new(&path).unwrap_err().to_string();
        assert_eq!(said, format!("the file {name} cannot be used: {reason}"));
    }
    fs::remove_file(&path).unwrap();
    assert!(HeaderFile::new(&path).unwrap_err().to_string().contains("No such file"));
    assert_eq!(
        BearerEnv::new("REGROW_NO_SUCH_VARIABLE").unwrap_err().to_string(),
        "the environment variable \"REGROW_NO_SUCH_VARIABLE\" is not set"
    );
}

#[tokio::test]
async fn user_and_password_of_an_address_are_basic_authorization() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    let url = format!("http://ann%40x:p%C3%A4ss@{}/mcp?key=k", server.address);
    assert_eq!(open(&http(&url)).await.carry(CALL).await.texts(), [ANSWER]);
    let request = &server.requests()[0];
    assert_eq!(
        (request.header("authorization"), &request.path[..]),
        (Some("Basic YW5uQHg6cMOkc3M="), "/mcp?key=k")
    );
}

#[tokio::test]
async fn headers_of_the_operator_go_along_but_not_in_place_of_ours() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    let given =
        [("x-team", "blue"), ("accept", "text/html"), ("mcp-session-id", "stolen"), ("mcp-param-a", "b")];
    let given = given.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    open(&http(&server.url()).headers(given)).await.carry(CALL).await.texts();
    let request = &server.requests()[0];
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!((request.header("mcp-session-id"), request.header("mcp-param-a")), (None, None));
}

#[test]
fn no_secret_is_shown() {
    let secret = "hunter2-hunter2";
    let value = HeaderValue::from_static("Bearer hunter2-hunter2");
    let headers = Headers::new([("X-Key", secret)]).unwrap();
    let http = Http::new(&format!("https://ann:{secret}@mcp.example/mcp?key={secret}"))
        .unwrap()
        .headers([(HeaderName::from_static("x-other"), value)])
        .credential(Arc::new(headers.clone()));
    let shown = format!("{http:?} {headers:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("aHVud"), "{shown}");
    assert!(shown.contains("https://mcp.example/mcp") && shown.contains("x-other"), "{shown}");
    let secrets = http.secrets();
    assert!(secrets.iter().filter(|known| known.contains(secret)).count() >= 4, "{secrets:?}");
    let known = Http::new("https://ann:p%C3%A4ssw%C3%B6rd@mcp.example/").unwrap().secrets();
    assert!(known.contains(&"pässwörd".to_owned()), "{known:?}");
}

#[tokio::test]
async fn a_server_that_repeats_a_secret_does_not_make_us_tell_it() {
    let server = crate::carry::legacy(|request, talk| {
        let words = request.header("authorization").unwrap_or_default();
        talk.reply(502, "", &format!("no {words} for {}", request.path));
    });
    let url = format!("{}?key=hunter2-key", server.url());
    let headers = Headers::new([("Authorization", "Bearer hunter2-token")]).unwrap();
    let link = open(&http(&url).credential(Arc::new(headers))).await;
    link.greet().await;
    let fault = link.carry(CALL).await.fault();
    assert_eq!(fault.to_string(), "the server responded with HTTP 502: no *** for /mcp?***");
}
