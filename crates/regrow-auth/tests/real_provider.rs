//! Sign-in at a real authorization server (npm oidc-provider): registration, PKCE, resource indicators, rotation with revocation of
//! the family, device flow, revocation. Needs `tests/peers/install` once; says so where that has not been done, and fails in CI.

#![allow(clippy::unwrap_used)] // This is a test.

use std::collections::BTreeMap;
use std::future::pending;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use regrow_auth::authorize::CallbackError;
use regrow_auth::device::DeviceCode;
use regrow_auth::guarded::{Guarded, Network, Proxy};
use regrow_auth::login::{Flow, LoginError, Options, Person, SignedIn, login};
use regrow_auth::revoke::{Revoked, revoke};
use regrow_auth::token::{TokenError, refresh};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use url::form_urlencoded::Serializer;
use url::{Position, Url};

#[tokio::test]
async fn a_person_signs_in_at_a_real_provider() {
    let Some(provider) = Provider::start() else { return };
    let (http, person) = (provider.http(), Scripted::default());
    let signed_in = login(&http, &Options::new(provider.server()), &person).await.unwrap();
    let page = person.page().await;
    assert!(page.contains("You are signed in to 127.0.0.1."), "{page}");
    provider.accepts(&signed_in).await;
    assert_eq!(signed_in.tokens.scope.as_deref(), Some("read"));
    assert!(signed_in.tokens.expires_at.is_some());

    let (server, registration) = (&signed_in.server, &signed_in.registration);
    let resource = signed_in.resource.resource.as_deref();
    let old = signed_in.tokens.clone();
    let tokens = refresh(&http, server, registration, &old, resource).await.unwrap();
    assert_ne!(tokens.refresh_token, old.refresh_token, "it rotates");
    let renewed = SignedIn { tokens: tokens.clone(), ..signed_in.clone() };
    provider.accepts(&renewed).await;

    // Its use again ends all that came from it.
    let reused = refresh(&http, server, registration, &old, resource).await.unwrap_err();
    assert!(matches!(reused, TokenError::Rejected { .. }), "{reused:?}");
    let family = refresh(&http, server, registration, &tokens, resource).await.unwrap_err();
    assert!(matches!(family, TokenError::Rejected { .. }), "{family:?}");

    // A second sign-in uses the same client, where the port is still free, and its tokens can be revoked.
    let options = Options { known: Some(registration.clone()), ..Options::new(provider.server()) };
    let again = login(&http, &options, &Scripted::default()).await.unwrap();
    provider.accepts(&again).await;
    assert_eq!(revoke(&http, server, &again.registration, &again.tokens).await, Ok(Revoked::Done));
    assert_eq!(provider.show(&again).await.status, 401);
    let revoked = refresh(&http, server, &again.registration, &again.tokens, resource).await.unwrap_err();
    assert!(matches!(revoked, TokenError::Rejected { .. }), "{revoked:?}");
}

#[tokio::test]
async fn a_person_signs_in_on_another_device_at_a_real_provider() {
    let Some(provider) = Provider::start() else { return };
    let options = Options { flow: Flow::Device, ..Options::new(provider.server()) };
    let (http, accepts) = (provider.http(), Scripted::default());
    let refuses = Scripted { refuses: true, ..Scripted::default() };
    let (signed_in, refused) =
        tokio::join!(login(&http, &options, &accepts), login(&http, &options, &refuses));
    provider.accepts(&signed_in.unwrap()).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, LoginError::Token(TokenError::Refused { .. })), "{error:?}");
    assert!(error.to_string().contains("access_denied"), "{error}");
}

/// The provider as a process. It ends when its input closes.
struct Provider {
    process: Child,
    origin: String,
}

impl Provider {
    /// None if it is not installed.
    fn start() -> Option<Provider> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        if !root.join(".peers/node/node_modules/oidc-provider").exists() {
            assert!(std::env::var_os("REGROW_CI").is_none(), "in CI nothing may be skipped");
            // Not by `eprintln!`, which is only shown for tests that fail.
            let skipped = "skipped: oidc-provider is not installed; tests/peers/install does that\n";
            std::io::stderr().write_all(skipped.as_bytes()).unwrap();
            return None;
        }
        let mut process = Command::new("node")
            .arg(root.join("tests/peers/oidc_provider.mjs"))
            .arg(root.join(".peers").canonicalize().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let origin = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("http://")).unwrap();
        // What else it says is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Provider { process, origin })
    }

    fn server(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.origin)).unwrap()
    }

    fn http(&self) -> Guarded {
        Guarded::new(&self.server(), &Network { proxy: Proxy::Off, ..Network::default() }).unwrap()
    }

    /// Shows the token to the MCP server.
    async fn show(&self, signed_in: &SignedIn) -> Response {
        let token = format!("Bearer {}", signed_in.tokens.access_token.expose());
        send(&self.server(), "GET", &[("Authorization", &token)], "").await
    }

    /// Checks that the MCP server takes the token.
    async fn accepts(&self, signed_in: &SignedIn) {
        let response = self.show(signed_in).await;
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.body, r#"{"scope":"read"}"#);
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait(); // Nothing depends on how it ends.
    }
}

/// A person with a browser that fills in each form and submits it.
#[derive(Default)]
struct Scripted {
    /// Where a device is to be confirmed.
    refuses: bool,
    browsing: Mutex<Option<JoinHandle<String>>>,
}

impl Scripted {
    /// The last page.
    async fn page(&self) -> String {
        let browsing = self.browsing.lock().unwrap().take().unwrap();
        browsing.await.unwrap()
    }
}

impl Person for Scripted {
    fn open(&self, url: &Url) {
        *self.browsing.lock().unwrap() = Some(tokio::spawn(browse(url.clone(), String::new(), false)));
    }

    fn enter(&self, code: &DeviceCode) {
        let (url, code) = (code.verification_url.clone(), code.user_code.clone());
        *self.browsing.lock().unwrap() = Some(tokio::spawn(browse(url, code, self.refuses)));
    }

    async fn pasted(&self, _: Option<&CallbackError>) -> String {
        pending().await
    }
}

/// Opens an address, follows redirects, keeps cookies, and submits the first form of each page until there is none.
async fn browse(mut url: Url, user_code: String, refuses: bool) -> String {
    let mut cookies = BTreeMap::new();
    let (mut method, mut body) = ("GET", String::new());
    let mut is_over = false;
    for _ in 0..30 {
        let jar =
            cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let kind = "application/x-www-form-urlencoded";
        let response = send(&url, method, &[("Cookie", &jar), ("Content-Type", kind)], &body).await;
        for (name, value) in response.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let pair = value.split(';').next().and_then(|pair| pair.split_once('='));
            let (key, value) = pair.unwrap_or((name, value));
            cookies.insert(key.to_owned(), value.to_owned());
        }
        let location = response.headers.iter().find(|(name, _)| name == "location");
        (method, body) = ("GET", String::new());
        if let Some((_, location)) = location {
            url = url.join(location).unwrap();
        } else if let Some(form) = Form::find(&response.body).filter(|_| !is_over) {
            url = url.join(&form.action).unwrap();
            method = "POST";
            body = form.filled_in(&user_code);
            if refuses && form.fields.iter().any(|(name, _)| name == "confirm") {
                body += "&abort=yes";
                is_over = true; // It shows its first form again.
            }
        } else {
            return response.body;
        }
    }
    panic!("the pages do not end at {}", url.path())
}

/// A form of a page: where it goes, and its fields.
struct Form {
    action: String,
    fields: Vec<(String, String)>,
}

impl Form {
    fn find(page: &str) -> Option<Form> {
        let attribute = |tag: &str, name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            Some(rest.split('"').next()?.replace("&amp;", "&"))
        };
        let (_, form) = page.split_once("<form")?;
        let form = form.split("</form>").next()?;
        let inputs = form.split("<input").skip(1).map(|tag| tag.split('>').next().unwrap_or_default());
        let fields = inputs
            .filter_map(|tag| Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default())));
        let action = attribute(form.split('>').next()?, "action").unwrap_or_default();
        Some(Form { action, fields: fields.collect() })
    }

    fn filled_in(&self, user_code: &str) -> String {
        let mut body = Serializer::new(String::new());
        for (name, value) in &self.fields {
            let value = match name.as_str() {
                "login" | "password" => "ann",
                "user_code" => user_code,
                _ => value,
            };
            body.append_pair(name, value);
        }
        body.finish()
    }
}

#[derive(Debug)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// One request over plain HTTP.
async fn send(url: &Url, method: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let port = url.port().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let mut request = format!("{method} {target} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Response { status, headers, body: body.to_owned() }
}
