//! An MCP server and its authorization server in one: correct, until a test replaces what it answers at a path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use regrow_auth::guarded::{Guarded, Network, Proxy};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::{Url, form_urlencoded};

/// One request, as the server heard it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn form(&self) -> HashMap<String, String> {
        form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Response {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Response {
        Response { status, headers: vec![], body: body.into() }
    }

    pub(crate) fn json(status: u16, body: Value) -> Response {
        Response::new(status, body.to_string()).header("Content-Type", "application/json")
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Response {
        Response::new(status, "").header("Location", to)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }
}

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

#[derive(Default)]
struct State {
    replaced: HashMap<String, Handler>,
    requests: Vec<Request>,
    /// Challenges of codes that were given out, by code.
    codes: HashMap<String, String>,
    clients: u32,
    polls: u32,
}

#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) origin: String,
    state: Arc<Mutex<State>>,
}

impl Provider {
    /// Starts it on a free port. It ends with the test's runtime.
    pub(crate) async fn start() -> Provider {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://127.0.0.1:{}", tcp.local_addr().unwrap().port());
        let provider = Provider { origin, state: Arc::default() };
        let serving = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        provider
    }

    /// Answers at this path with something else.
    pub(crate) fn replace(
        &self,
        path: &str,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> &Provider {
        self.state.lock().unwrap().replaced.insert(path.to_owned(), Arc::new(handler));
        self
    }

    /// Changes members of the authorization server's metadata. `null` removes one.
    pub(crate) fn metadata(&self, changes: Value) -> &Provider {
        let mut metadata = self.correct_metadata();
        merge(&mut metadata, changes);
        self.replace("/.well-known/oauth-authorization-server", move |_| {
            Response::json(200, metadata.clone())
        })
    }

    pub(crate) fn server(&self) -> Url {
        self.url("/mcp")
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.origin)).unwrap()
    }

    /// A client for the sign-in at this server.
    pub(crate) fn http(&self) -> Guarded {
        Guarded::new(&self.server(), &Network { proxy: Proxy::Off, ..Network::default() }).unwrap()
    }

    /// The requests to this path so far.
    pub(crate) fn heard(&self, path: &str) -> Vec<Request> {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// The paths of all requests so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.iter().map(|request| request.path.clone()).collect()
    }

    async fn serve(self, mut stream: TcpStream) {
        let Some(request) = read(&mut stream).await else { return };
        let response = self.respond(&request);
        let mut text = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", response.status);
        for (name, value) in &response.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{}", response.body.len(), response.body);
        let _ = stream.write_all(text.as_bytes()).await; // The client may have hung up: some tests expect that.
    }

    fn respond(&self, request: &Request) -> Response {
        let replaced = {
            let mut state = self.state.lock().unwrap();
            state.requests.push(request.clone());
            state.replaced.get(&request.path).cloned()
        };
        match replaced {
            Some(handler) => handler(request),
            None => self.correct(request),
        }
    }

    fn correct_metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.origin);
        json!({
            "issuer": self.origin,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "device_authorization_endpoint": at("/device"),
            "scopes_supported": ["read", "write", "offline_access"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    fn correct(&self, request: &Request) -> Response {
        let resource = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
        match (request.method.as_str(), request.path.as_str()) {
            (_, "/mcp") => Response::new(401, "").header(
                "WWW-Authenticate",
                &format!("Basic realm=x, Bearer resource_metadata=\"{resource}\", scope=\"read\""),
            ),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => Response::json(
                200,
                json!({ "resource": self.server(), "authorization_servers": [self.origin], "scopes_supported": ["all"] }),
            ),
            ("GET", "/.well-known/oauth-authorization-server") => {
                Response::json(200, self.correct_metadata())
            }
            ("POST", "/register") => self.register(request),
            ("GET", "/authorize") => self.authorize(request),
            ("POST", "/token") => self.token(request),
            ("POST", "/device") => Response::json(
                200,
                json!({ "device_code": "device-1", "user_code": "ABCD-1234", "verification_uri": self.url("/enter"),
                        "expires_in": 600, "interval": 1 }),
            ),
            ("POST", "/revoke") => Response::new(200, ""),
            _ => Response::new(404, "not here"),
        }
    }

    fn register(&self, request: &Request) -> Response {
        let mut client: Value = serde_json::from_str(&request.body).unwrap();
        let mut state = self.state.lock().unwrap();
        state.clients += 1;
        client["client_id"] = format!("client-{}", state.clients).into();
        if client["token_endpoint_auth_method"] != "none" {
            client["client_secret"] = "s/e:c ret".into();
            client["client_secret_expires_at"] = 0.into();
        }
        Response::json(201, client)
    }

    fn authorize(&self, request: &Request) -> Response {
        let query = &request.query;
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        let mut state = self.state.lock().unwrap();
        let code = format!("code-{}", state.codes.len() + 1);
        state.codes.insert(code.clone(), query["code_challenge"].clone());
        let mut back = Url::parse(&query["redirect_uri"]).unwrap();
        back.query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &query["state"])
            .append_pair("iss", &self.origin);
        Response::redirect(302, back.as_str())
    }

    fn token(&self, request: &Request) -> Response {
        let form = request.form();
        // The official Python SDK wants it in the form, whatever the header says.
        if !form.contains_key("client_id") {
            return Response::json(401, json!({ "error": "invalid_client" }));
        }
        let mut state = self.state.lock().unwrap();
        let tokens = |n: usize| {
            json!({ "access_token": format!("access-{n}"), "token_type": "Bearer", "expires_in": 3600,
                    "refresh_token": format!("refresh-{n}") })
        };
        let is_granted = match form["grant_type"].as_str() {
            "authorization_code" => {
                let hash = ring::digest::digest(&ring::digest::SHA256, form["code_verifier"].as_bytes());
                let challenge = URL_SAFE_NO_PAD.encode(hash);
                state.codes.remove(&form["code"]).is_some_and(|expected| expected == challenge)
            }
            "refresh_token" => form["refresh_token"].starts_with("refresh-"),
            "client_credentials" => true,
            "urn:ietf:params:oauth:grant-type:device_code" => {
                state.polls += 1;
                match state.polls {
                    1 => return Response::json(400, json!({ "error": "authorization_pending" })),
                    _ => form["device_code"] == "device-1",
                }
            }
            _ => false,
        };
        match is_granted {
            true => Response::json(200, tokens(1)),
            false => Response::json(400, json!({ "error": "invalid_grant" })),
        }
    }
}

/// The client's id and secret in an `Authorization: Basic` header.
pub(crate) fn basic(request: &Request) -> Option<String> {
    let value = request.headers.get("authorization")?.strip_prefix("Basic ")?;
    String::from_utf8(STANDARD.decode(value).ok()?).ok()
}

/// Replaces members. `null` removes one.
pub(crate) fn merge(target: &mut Value, changes: Value) {
    for (name, value) in changes.as_object().unwrap().clone() {
        match value {
            Value::Null => {
                target.as_object_mut().unwrap().remove(&name);
            }
            value => target[name] = value,
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = vec![];
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request {
        method,
        path: path.to_owned(),
        query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers,
        body: String::from_utf8(bytes[head_end..].to_vec()).ok()?,
    })
}
