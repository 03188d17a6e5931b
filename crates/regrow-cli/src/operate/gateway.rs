//! A running gateway, and how it is asked over HTTP.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use regrow::transport::http::client_tls;
use regrow_protocol::text::escape;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue};
use reqwest::{Client, ClientBuilder, Method, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::failure::Failure;
use super::place::{self, Place, is_loopback};
use crate::arguments;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Holds the operator token of a gateway elsewhere, if no other variable is named.
const DEFAULT_VARIABLE: &str = "REGROW_ADMIN_TOKEN";
/// No gateway says more.
const LONGEST_ANSWER: usize = 64 << 20;

pub(super) struct Gateway {
    url: Url,
    client: Client,
    with_token: bool,
}

impl Gateway {
    pub(super) fn new(options: &arguments::GatewayArguments) -> Result<Gateway, Failure> {
        Gateway::at(place::of(options)?, options)
    }

    /// All that run on this machine for this user.
    pub(super) fn all(options: &arguments::GatewayArguments) -> Result<Vec<Gateway>, Failure> {
        place::all()?.into_iter().map(|place| Gateway::at(place, options)).collect()
    }

    fn at(Place { url, token }: Place, options: &arguments::GatewayArguments) -> Result<Gateway, Failure> {
        let is_set = || std::env::var_os(DEFAULT_VARIABLE).is_some_and(|value| !value.is_empty());
        let token = match (&options.admin_token_env, token) {
            (Some(variable), _) => Some(from_variable(variable)?),
            (None, Some(token)) => bearer(token.reveal()).ok(),
            (None, None) if is_set() => Some(from_variable(DEFAULT_VARIABLE)?),
            (None, None) => None,
        };
        let mut builder = Client::builder()
            .user_agent(concat!("regrow/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN);
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        builder = with_tls(builder, &url, options)?;
        let with_token = token.is_some();
        if let Some(token) = token {
            builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, token)]));
        }
        let client = builder.build().map_err(|error| Failure::Usage(cause(&error)))?;
        Ok(Gateway { url, client, with_token })
    }

    pub(super) async fn get(&self, path: &[&str]) -> Result<Value, Failure> {
        self.ask(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &[&str], body: Option<Value>) -> Result<Value, Failure> {
        self.ask(Method::POST, path, body).await
    }

    /// Whether it runs on this machine.
    pub(super) fn is_here(&self) -> bool {
        is_loopback(&self.url)
    }

    /// Its address, to be printed.
    pub(super) fn shown(&self) -> String {
        escape(self.url.as_str().trim_end_matches('/'))
    }

    async fn ask(&self, method: Method, path: &[&str], body: Option<Value>) -> Result<Value, Failure> {
        let mut url = self.url.clone();
        // Names are encoded here, whatever is in them.
        url.path_segments_mut().expect("checked when it was read").pop_if_empty().extend(path);
        let mut request = self.client.request(method.clone(), url).header("accept", "application/json");
        if method == Method::POST {
            let body = body.unwrap_or_else(|| json!({}));
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let unreachable =
            |error: reqwest::Error| Failure::Unreachable { url: self.shown(), reason: cause(&error) };
        let mut response = request.send().await.map_err(unreachable)?;
        let mut answer = vec![];
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            answer.extend_from_slice(&chunk);
            if answer.len() > LONGEST_ANSWER {
                return Err(Failure::NotAGateway { url: self.shown() });
            }
        }
        self.read(&response, &answer)
    }

    fn read(&self, response: &Response, answer: &[u8]) -> Result<Value, Failure> {
        let code = response.status();
        if code == StatusCode::UNAUTHORIZED {
            return Err(Failure::Unauthorized { url: self.shown(), with_token: self.with_token });
        }
        let value: Option<Value> = serde_json::from_slice(answer).ok();
        let error = value.as_ref().map(|value| &value["error"]);
        let error = error.and_then(|error| error.as_str().or_else(|| error["message"].as_str()));
        if code == StatusCode::FORBIDDEN {
            let why = error.map_or_else(|| "no reason given".to_owned(), escape);
            return Err(Failure::Forbidden { url: self.shown(), why });
        }
        match (code.is_success(), value.as_ref(), error) {
            (true, Some(value), _) => Ok(value.clone()),
            (false, _, Some(error)) => Err(Failure::Refused(escape(error))),
            _ => Err(Failure::NotAGateway { url: self.shown() }),
        }
    }
}

fn from_variable(variable: &str) -> Result<HeaderValue, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("the operator token: {} {why}", escape(variable)));
    let token = std::env::var(variable).map_err(|_| wrong("is not set, or not text"))?;
    bearer(token.trim()).map_err(|_| wrong("has characters that are not valid in a header"))
}

fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A system without any roots is no reason to refuse plain HTTP, so they are read for https only.
fn with_tls(
    builder: ClientBuilder,
    url: &Url,
    options: &arguments::GatewayArguments,
) -> Result<ClientBuilder, Failure> {
    let provider = rustls::crypto::ring::default_provider();
    if url.scheme() == "http" {
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::Usage(error.to_string()))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        return Ok(builder.tls_backend_preconfigured(config));
    }
    // An earlier one is as good.
    let _ = provider.install_default();
    let Some(path) = &options.ca_file else { return Ok(builder) };
    let wrong = |why: String| Failure::Usage(format!("--ca-file {}: {why}", escape(&path.to_string_lossy())));
    let config = client_tls(Some(path)).map_err(|error| wrong(error.to_string()))?;
    Ok(builder.tls_backend_preconfigured(config))
}

/// The innermost reason: the outer ones only say that something failed.
fn cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    escape(&innermost.to_string())
}
