//! Where spans go: to a collector, over OTLP with HTTP.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, Response};
use bytes::Bytes;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use super::Traces;

/// How long a collector may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long the last spans may take to leave.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// No collector says more.
const LONGEST_ANSWER: usize = 1 << 20;

/// Why calls cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// Where the spans should go makes no sense.
    #[error("spans cannot be sent: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// No HTTP client could be made.
    #[error("spans cannot be sent: {0}")]
    Client(#[from] reqwest::Error),
}

#[derive(Clone)]
pub(super) struct Exporter {
    pub(super) tracer: SdkTracer,
    provider: SdkTracerProvider,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

impl Traces {
    /// Sends the spans of calls to this collector, such as `http://127.0.0.1:4318/v1/traces`; without one, to where the usual
    /// variables say (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like). Must be called inside a tokio runtime.
    pub fn export(endpoint: Option<&str>) -> Result<Traces, TracesError> {
        let client = OtlpClient { inner: client()?, runtime: Handle::current() };
        let mut builder = SpanExporter::builder().with_http().with_http_client(client);
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let resource = Resource::builder().with_service_name("regrow").build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(builder.build()?)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("regrow");
        Ok(Traces { exporter: Some(Exporter { tracer, provider }) })
    }

    /// Sends what is left. Spans that do not leave in time are lost, and that is said in the log.
    pub async fn close(self) {
        let Some(Exporter { provider, .. }) = self.exporter else { return };
        // It blocks its thread, and the exporter needs the runtime's.
        let closed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(CLOSE_WITHIN)).await;
        match closed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the last spans were not sent: {error}"),
            Err(error) => tracing::warn!("the last spans were not sent: {error}"),
        }
    }
}

/// Plain HTTP must work on a system without roots, and with them both must.
fn client() -> Result<reqwest::Client, reqwest::Error> {
    let builder =
        || reqwest::Client::builder().timeout(ANSWER_WITHIN).redirect(reqwest::redirect::Policy::none());
    let provider = rustls::crypto::ring::default_provider();
    let _ = provider.clone().install_default(); // An earlier one is as good.
    builder().build().or_else(|error| {
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
        let Ok(config) = config.with_safe_default_protocol_versions() else { return Err(error) };
        let config = config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        builder().tls_backend_preconfigured(config).build()
    })
}

/// The exporter has a thread of its own, without a runtime; requests run in ours.
#[derive(Debug)]
struct OtlpClient {
    inner: reqwest::Client,
    runtime: Handle,
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for OtlpClient {
    fn send_bytes<'client, 'sending>(&'client self, request: Request<Bytes>) -> Sending<'sending>
    where
        'client: 'sending,
        Self: 'sending,
    {
        let sending = self.runtime.spawn(send(self.inner.clone(), request));
        Box::pin(async move { sending.await? })
    }
}

async fn send(client: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let mut answer = client.execute(request.try_into()?).await?;
    let mut body = vec![];
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_ANSWER {
            return Err("the response of the collector is too large".into());
        }
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = answer.status();
    *response.headers_mut() = std::mem::take(answer.headers_mut());
    Ok(response)
}
