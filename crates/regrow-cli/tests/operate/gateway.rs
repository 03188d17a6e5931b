//! A gateway on a port of its own that says what it is told to say, for as long as the test runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Extension;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use regrow_gateway::admit::Principal;
use regrow_gateway::operate::{
    CommandError, GatewayReport, LogLevel, Operate, ServerCommand, ServerReport, routes,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

/// What opens it.
pub const TOKEN: &str = "s3cr3t-token";

#[derive(Clone, Default)]
pub struct Gateway(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    servers: Vec<ServerReport>,
    logs: Vec<String>,
    orders: Vec<String>,
}

impl Gateway {
    pub fn of(servers: impl IntoIterator<Item = ServerReport>) -> Gateway {
        let gateway = Gateway::default();
        gateway.0.lock().unwrap().servers.extend(servers);
        gateway
    }

    pub fn log(&self, line: &str) {
        self.0.lock().unwrap().logs.push(line.into());
    }

    pub fn orders(&self) -> Vec<String> {
        self.0.lock().unwrap().orders.clone()
    }

    /// Lets everybody in; returns its URL.
    pub fn start(&self) -> String {
        let (operate, port) = (self.clone(), bind());
        let url = format!("http://{}", port.local_addr().unwrap());
        run(async move {
            let port = TcpListener::from_std(port).unwrap();
            let routes = routes(Arc::new(operate)).layer(Extension(Principal::Operator));
            axum::serve(port, routes).await.unwrap();
        });
        url
    }

    /// Speaks TLS, and lets in who has the token. Returns its URL, and the file with its certificate.
    pub fn start_with_token(&self, folder: &Path) -> (String, PathBuf) {
        // With `CA:TRUE`, as `openssl req -x509` makes it.
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signing_key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&signing_key).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let file = folder.join("certificate.pem");
        std::fs::write(&file, cert.pem()).unwrap();
        let routes = routes(Arc::new(self.clone())).layer(middleware::from_fn(judge));
        let port = bind();
        let url = format!("https://localhost:{}", port.local_addr().unwrap().port());
        run(async move {
            let port = TcpListener::from_std(port).unwrap();
            let secured = Secured { port, acceptor: TlsAcceptor::from(Arc::new(config)) };
            axum::serve(secured, routes).await.unwrap();
        });
        (url, file)
    }
}

async fn judge(mut request: Request, next: Next) -> axum::response::Response {
    let wanted = format!("Bearer {TOKEN}");
    if request.headers().get("authorization").is_some_and(|value| value == &*wanted) {
        request.extensions_mut().insert(Principal::Operator);
    }
    next.run(request).await
}

/// A port that only answers who shakes hands.
struct Secured {
    port: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.port.accept().await.unwrap();
            // Who does not trust us hangs up.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.port.local_addr()
    }
}

fn bind() -> std::net::TcpListener {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    port
}

fn run(serving: impl Future<Output = ()> + Send + 'static) {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serving);
    });
}

impl Operate for Gateway {
    fn servers(&self) -> Vec<ServerReport> {
        self.0.lock().unwrap().servers.clone()
    }

    fn command(&self, server: &str, order: ServerCommand) -> Result<(), CommandError> {
        let mut inner = self.0.lock().unwrap();
        if !inner.servers.iter().any(|report| report.name == server) {
            return Err(CommandError::NoSuchServer);
        }
        inner.orders.push(format!("{} {server}", order.name()));
        Ok(())
    }

    fn log_level(&self, level: LogLevel) -> Result<(), CommandError> {
        self.0.lock().unwrap().orders.push(format!("log-level {level:?}"));
        Ok(())
    }

    fn logs(&self, server: &str) -> Option<Vec<String>> {
        let inner = self.0.lock().unwrap();
        inner.servers.iter().any(|report| report.name == server).then(|| inner.logs.clone())
    }

    fn gateway(&self) -> GatewayReport {
        GatewayReport {
            version: "9.9.9".into(),
            uptime: Duration::from_secs(61),
            clients: 2,
            ..Default::default()
        }
    }
}
