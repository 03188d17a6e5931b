//! An authorization server on this computer, with an MCP server that requires its tokens. It is correct, but for the faults that it is
//! given by name ([`Issuer::fault`]) and for the paths where a test answers ([`Issuer::replace`]). What it received is kept.

mod faults;
mod message;

pub use faults::merge;
pub use message::{Request, Response};

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use url::Url;

use self::faults::{Fault, Place};
use crate::incoming::Incoming;
use crate::sync::lock;

/// The secret of each client that registers with one.
const CLIENT_SECRET: &str = "s/e:c ret";

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

#[derive(Default)]
struct State {
    replaced: HashMap<String, Handler>,
    /// Members of the metadata that a test has changed.
    metadata: Value,
    faults: Vec<Fault>,
    requests: Vec<Request>,
    /// Challenges of codes that were given out, by code.
    codes: HashMap<String, String>,
    clients: u32,
    grants: u32,
    polls: u32,
}

/// A running issuer. It ends when it is dropped.
pub struct Issuer {
    /// Scheme, host and port: what it calls itself.
    pub origin: String,
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    origin: String,
    state: Mutex<State>,
    held: Mutex<()>,
    is_over: AtomicBool,
}

impl Issuer {
    /// Starts on a free port.
    pub fn start() -> io::Result<Issuer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let origin = format!("http://{address}");
        let shared = Arc::new(Shared {
            origin: origin.clone(),
            state: Mutex::default(),
            held: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue }; // It left before we took it.
                let serving = Arc::clone(&serving);
                // The client may hang up before it is answered: some must.
                thread::spawn(move || serving.serve(&stream).unwrap_or_default());
            }
        });
        Ok(Issuer { origin, address, shared })
    }

    /// Does this wrong from now on: `name` or `name=value`, of the table in `issuer/faults.rs`. False if there is no such fault.
    pub fn fault(&self, item: &str) -> bool {
        let fault = Fault::read(item);
        let is_known = fault.is_some();
        lock(&self.shared.state).faults.extend(fault);
        is_known
    }

    /// Does that right again.
    pub fn repair(&self, name: &str) {
        lock(&self.shared.state).faults.retain(|fault| fault.name != name);
    }

    /// Answers at this path with something else.
    pub fn replace(&self, path: &str, handler: impl Fn(&Request) -> Response + Send + Sync + 'static) {
        lock(&self.shared.state).replaced.insert(path.to_owned(), Arc::new(handler));
    }

    /// Changes members of the authorization server's metadata. `null` removes one.
    pub fn metadata(&self, changes: Value) {
        lock(&self.shared.state).metadata = changes;
    }

    /// Answers no request for tokens until this is dropped.
    pub fn hold_tokens(&self) -> MutexGuard<'_, ()> {
        lock(&self.shared.held)
    }

    /// The address of the MCP server. It refuses every request, and says where to sign in.
    pub fn server(&self) -> Url {
        self.url("/mcp")
    }

    /// The address of this path.
    pub fn url(&self, path: &str) -> Url {
        let url = Url::parse(&self.shared.at(path));
        url.expect("an address with a port, and a path that begins with a slash")
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.state).requests.clone()
    }

    /// The requests to this path so far.
    pub fn heard(&self, path: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }

    /// The paths of all requests so far.
    pub fn paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.path).collect()
    }

    /// The grants that its token endpoint was asked for.
    pub fn grants(&self) -> Vec<String> {
        self.heard("/token").iter().map(|request| request.field("grant_type")).collect()
    }

    /// The paths of the requests that contain this text.
    pub fn heard_of(&self, text: &str) -> Vec<String> {
        self.requests()
            .into_iter()
            .filter(|request| request.contains(text))
            .map(|request| request.path)
            .collect()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts. If it cannot be reached, it has ended.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let Some(incoming) = Incoming::read(&mut BufReader::new(stream))? else { return Ok(()) };
        self.respond(Request::of(incoming)).write(stream)
    }

    fn respond(&self, request: Request) -> Response {
        let replaced = {
            let mut state = lock(&self.state);
            state.requests.push(request.clone());
            state.replaced.get(&request.path).cloned()
        };
        if let Some(handler) = replaced {
            return handler(&request);
        }
        if request.path == "/token" {
            drop(lock(&self.held));
        }
        let Some(place) = Place::of(&request) else { return self.correct(&request) };
        let is_hit = |fault: &&mut Fault| fault.place == place;
        // What is never sent is not granted either.
        let is_lost = lock(&self.state).faults.iter_mut().filter(is_hit).any(|fault| fault.replaces_all());
        let right = if is_lost { Response::new(200, "") } else { self.correct(&request) };
        let mut state = lock(&self.state);
        state.faults.iter_mut().filter(is_hit).fold(right, |response, fault| fault.apply(response))
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({
            "issuer": self.origin,
            "authorization_endpoint": self.at("/authorize"),
            "token_endpoint": self.at("/token"),
            "registration_endpoint": self.at("/register"),
            "revocation_endpoint": self.at("/revoke"),
            "device_authorization_endpoint": self.at("/device"),
            "scopes_supported": ["read", "write", "offline_access"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        merge(&mut metadata, lock(&self.state).metadata.clone());
        metadata
    }

    fn correct(&self, request: &Request) -> Response {
        let resource = self.at("/.well-known/oauth-protected-resource/mcp");
        match (request.method.as_str(), request.path.as_str()) {
            (_, "/mcp") => {
                let challenge =
                    format!("Basic realm=x, Bearer resource_metadata=\"{resource}\", scope=\"read\"");
                Response::new(401, "").header("WWW-Authenticate", &challenge)
            }
            ("GET", "/.well-known/oauth-protected-resource/mcp") => Response::json(
                200,
                json!({ "resource": self.at("/mcp"), "authorization_servers": [self.origin], "scopes_supported": ["all"] }),
            ),
            ("GET", "/.well-known/oauth-authorization-server") => Response::json(200, self.metadata()),
            ("POST", "/register") => self.register(request),
            ("GET", "/authorize") => self.authorize(request),
            ("POST", "/token") => self.token(request),
            ("POST", "/device") => Response::json(
                200,
                json!({ "device_code": "device-1", "user_code": "ABCD-1234", "verification_uri": self.at("/enter"),
                         "expires_in": 600, "interval": 1 }),
            ),
            ("POST", "/revoke") => Response::new(200, ""),
            _ => Response::new(404, "not here"),
        }
    }

    fn register(&self, request: &Request) -> Response {
        let Ok(mut client) = serde_json::from_str::<Value>(&request.body) else {
            return Response::json(400, json!({ "error": "invalid_client_metadata" }));
        };
        let mut state = lock(&self.state);
        state.clients += 1;
        client["client_id"] = format!("client-{}", state.clients).into();
        if client["token_endpoint_auth_method"] != "none" {
            client["client_secret"] = CLIENT_SECRET.into();
            client["client_secret_expires_at"] = 0.into();
        }
        Response::json(201, client)
    }

    fn authorize(&self, request: &Request) -> Response {
        let asked = |name: &str| request.query.get(name).map(String::as_str).unwrap_or_default();
        let is_valid = asked("response_type") == "code" && asked("code_challenge_method") == "S256";
        let Some(mut back) = Url::parse(asked("redirect_uri")).ok().filter(|_| is_valid) else {
            return Response::new(400, "this is no authorization request");
        };
        let mut state = lock(&self.state);
        let code = format!("code-{}", state.codes.len() + 1);
        state.codes.insert(code.clone(), asked("code_challenge").to_owned());
        let mut query = back.query_pairs_mut();
        query
            .append_pair("code", &code)
            .append_pair("state", asked("state"))
            .append_pair("iss", &self.origin);
        drop(query);
        Response::redirect(302, back.as_str())
    }

    /// Tokens have rising numbers. A code works once; a refresh token works again.
    fn token(&self, request: &Request) -> Response {
        // The official Python SDK wants it in the form, whatever the header says.
        if request.field("client_id").is_empty() {
            return Response::json(401, json!({ "error": "invalid_client" }));
        }
        let mut state = lock(&self.state);
        let is_granted = match request.field("grant_type").as_str() {
            "authorization_code" => {
                let hash = digest(&SHA256, request.field("code_verifier").as_bytes());
                let expected = state.codes.get_mut(&request.field("code")).map(std::mem::take);
                expected.is_some_and(|expected| expected == URL_SAFE_NO_PAD.encode(hash))
            }
            "refresh_token" => request.field("refresh_token").starts_with("refresh-token-"),
            "client_credentials" => true,
            "urn:ietf:params:oauth:grant-type:device_code" => {
                state.polls += 1;
                if state.polls == 1 {
                    return Response::json(400, json!({ "error": "authorization_pending" }));
                }
                request.field("device_code") == "device-1"
            }
            _ => false,
        };
        if !is_granted {
            return Response::json(400, json!({ "error": "invalid_grant" }));
        }
        state.grants += 1;
        let number = state.grants;
        let tokens = json!({
            "access_token": format!("access-token-{number}"),
            "refresh_token": format!("refresh-token-{number}"),
            "token_type": "Bearer",
            "expires_in": 3600,
        });
        Response::json(200, tokens)
    }
}
