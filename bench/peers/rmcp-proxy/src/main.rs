//! A proxy on the official Rust SDK, as one writes it in an afternoon: a peer that Regrow is compared with.
//!
//! It hands `tools/list` and `tools/call` on to one server, as typed values of the SDK, and supervises nothing. Of what the SDK offers it uses what
//! is fastest here: one thread, pipes without a thread for each, no sessions over HTTP and responses in JSON. With `--usual` it is instead what the
//! SDK's examples show for standard input and output: `stdio()`, and tokio's runtime with a thread for each processor.
//!
//!     rmcp-proxy [--usual] [--port PORT] (--url URL | -- COMMAND ARGUMENT...)
//!
//! Without a port it is a server on standard input and output.

use std::error::Error;
use std::sync::Arc;

use axum::serve::ListenerExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RoleClient, RoleServer, ServiceError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{
    StreamableHttpClientTransport, StreamableHttpServerConfig, StreamableHttpService, TokioChildProcess,
    stdio, stdio_pipes,
};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::runtime::Builder;

#[derive(Clone)]
struct Proxy {
    server: Peer<RoleClient>,
}

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.server.list_tools(request).await.map_err(failure)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.server.call_tool_once(request).await.map_err(failure)
    }
}

fn failure(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        error => ErrorData::internal_error(error.to_string(), None),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let usual = arguments.next_if(|argument| argument == "--usual").is_some();
    let mut runtime = if usual { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    runtime.enable_all().build()?.block_on(run(arguments, usual))
}

async fn run(mut arguments: impl Iterator<Item = String>, usual: bool) -> Result<(), Box<dyn Error>> {
    let (mut port, mut url) = (None, None);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--port" => port = Some(arguments.next().ok_or("--port needs a number")?.parse::<u16>()?),
            "--url" => url = arguments.next(),
            "--" => break,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let server = match url {
        Some(url) => ().serve(StreamableHttpClientTransport::from_uri(url)).await?,
        None => {
            let mut command = Command::new(arguments.next().ok_or("no command")?);
            command.args(arguments);
            ().serve(TokioChildProcess::new(command)?).await?
        }
    };
    let proxy = Proxy { server: server.peer().clone() };
    match port {
        None if usual => drop(proxy.serve(stdio()).await?.waiting().await?),
        None => drop(proxy.serve(stdio_pipes()).await?.waiting().await?),
        Some(port) => {
            let sessions = Arc::<LocalSessionManager>::default();
            let config = StreamableHttpServerConfig::default()
                .with_legacy_session_mode(false)
                .with_json_response(true);
            let service = StreamableHttpService::new(move || Ok(proxy.clone()), sessions, config);
            let listener = TcpListener::bind(("127.0.0.1", port)).await?;
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true); // Without it, responses are only slower.
            });
            axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        }
    }
    Ok(())
}
