//! A gateway that says what it is told to say, and remembers what was ordered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use regrow_gateway::admit::Principal;
use regrow_gateway::operate::{
    CommandError, FaultReport, GatewayReport, LogLevel, Operate, ServerCommand, ServerReport, ServerState,
    routes,
};
use serde_json::Value;
use tower::ServiceExt;

#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<Inner>>);

#[derive(Default)]
pub struct Inner {
    pub servers: Vec<ServerReport>,
    pub gateway: GatewayReport,
    pub refusal: Option<CommandError>,
    pub orders: Vec<(String, ServerCommand)>,
    pub level: Option<LogLevel>,
    pub logs: Vec<String>,
}

/// What was answered.
pub struct Answer {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

impl Fake {
    pub fn with(servers: impl IntoIterator<Item = ServerReport>) -> Fake {
        let gateway = GatewayReport {
            version: "0.1.0".into(),
            uptime: Duration::from_millis(1500),
            clients: 3,
            sessions: 4,
            tasks: 17,
            memory: Default::default(),
            config_files: vec![".mcp.json".into()],
            audit: None,
            config_problem: None,
            shutting_down: false,
        };
        let inner = Inner { servers: servers.into_iter().collect(), gateway, ..Inner::default() };
        Fake(Arc::new(Mutex::new(inner)))
    }

    pub fn set(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.0.lock().unwrap());
    }

    pub fn see<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.0.lock().unwrap())
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(by(Principal::Operator, Method::GET, path)).await
    }

    pub async fn post(&self, path: &str) -> Answer {
        self.send(by(Principal::Operator, Method::POST, path).header("content-type", "application/json"))
            .await
    }

    pub async fn send(&self, request: axum::http::request::Builder) -> Answer {
        self.send_with(request, "").await
    }

    pub async fn send_with(&self, request: axum::http::request::Builder, body: &str) -> Answer {
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = routes(Arc::new(self.clone())).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        Answer { code: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }
}

/// A request of this principal.
pub fn by(principal: Principal, method: Method, path: &str) -> axum::http::request::Builder {
    stranger(method, path).extension(principal)
}

/// A request of nobody that we know.
pub fn stranger(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path)
}

impl Operate for Fake {
    fn servers(&self) -> Vec<ServerReport> {
        self.see(|inner| inner.servers.clone())
    }

    fn command(&self, server: &str, order: ServerCommand) -> Result<(), CommandError> {
        if !self.see(|inner| inner.servers.iter().any(|report| report.name == server)) {
            return Err(CommandError::NoSuchServer);
        }
        if let Some(refusal) = self.see(|inner| inner.refusal.clone()) {
            return Err(refusal);
        }
        self.set(|inner| inner.orders.push((server.to_owned(), order)));
        Ok(())
    }

    fn log_level(&self, level: LogLevel) -> Result<(), CommandError> {
        self.set(|inner| inner.level = Some(level));
        Ok(())
    }

    fn logs(&self, server: &str) -> Option<Vec<String>> {
        self.see(|inner| inner.servers.iter().any(|report| report.name == server).then(|| inner.logs.clone()))
    }

    fn gateway(&self) -> GatewayReport {
        self.see(|inner| inner.gateway.clone())
    }
}

/// A server that works.
pub fn ready(name: &str) -> ServerReport {
    ServerReport {
        name: name.into(),
        state: ServerState::Ready,
        eager: true,
        budget_left: 5,
        ..Default::default()
    }
}

/// A server that does not.
pub fn broken(name: &str) -> ServerReport {
    let fault = FaultReport {
        kind: "exited".into(),
        text: "the server process exited with code 3".into(),
        exit_code: Some(3),
        ..FaultReport::default()
    };
    ServerReport { state: ServerState::Backoff, last_fault: Some(fault), ..ready(name) }
}
