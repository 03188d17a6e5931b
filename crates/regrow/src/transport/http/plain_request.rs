//! How a connection over plain HTTP is opened, and what a request on it looks like.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use regrow_core::Fault;
use tower::ServiceExt;
use url::{Position, Url};

use super::client::{HttpClient, OUR_NAME};
use super::departure::Departure;
use super::diagnose;
use super::plain_connection::PlainConnection;
use crate::within::within;

/// Where requests go. What they say about that is prepared once for all of them.
pub(super) struct Target {
    pub(super) url: Url,
    /// Or why there is no such request.
    line: Result<RequestLine, String>,
}

struct RequestLine {
    uri: Uri,
    host: HeaderValue,
}

impl Target {
    pub(super) fn new(url: Url) -> Arc<Target> {
        let line = RequestLine::new(&url).map_err(|error| error.to_string());
        Arc::new(Target { url, line })
    }
}

impl RequestLine {
    fn new(url: &Url) -> Result<RequestLine, http::Error> {
        Ok(RequestLine {
            uri: Uri::try_from(&url[Position::BeforePath..Position::AfterQuery])?,
            host: HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort])?,
        })
    }
}

/// A new connection to the server at this address.
pub(super) async fn connect(client: &HttpClient, url: &Url) -> Result<PlainConnection, Fault> {
    let uri = Uri::try_from(&url[..Position::AfterPort]);
    let uri = uri.map_err(|error| diagnose::unreachable(error.to_string(), url, client))?;
    match within(client.connect, client.tcp.clone().oneshot(uri)).await {
        Some(Ok(socket)) => PlainConnection::new(socket).await,
        Some(Err(error)) => Err(diagnose::unconnected(&error, url, client)),
        None => Err(diagnose::unreachable(diagnose::late(client), url, client)),
    }
}

/// A request as reqwest would send it.
pub(super) fn request(
    method: Method,
    target: &Target,
    mut headers: HeaderMap,
    body: Departure,
) -> Result<Request<Departure>, String> {
    let RequestLine { uri, host } = target.line.as_ref().map_err(String::clone)?;
    // The connection says where the body ends, whatever an operator's headers say.
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers.entry(HOST).or_insert_with(|| host.clone());
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(OUR_NAME));
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::broken::closed_early;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    fn get(url: &Url, headers: &HeaderMap) -> Request<Departure> {
        request(Method::GET, &Target::new(url.clone()), headers.clone(), Departure::default()).unwrap()
    }

    #[test]
    fn an_operator_may_name_another_host_but_no_body() {
        let url = Url::parse("http://[::1]:8080/m%20cp?a=b").unwrap();
        let usual = get(&url, &HeaderMap::new());
        assert_eq!((usual.method(), usual.uri().to_string().as_str()), (&Method::GET, "/m%20cp?a=b"));
        let headers = |host, agent| {
            [(HOST, host), (USER_AGENT, agent)].map(|(name, value)| (name, HeaderValue::from_static(value)))
        };
        assert_eq!(*usual.headers(), headers("[::1]:8080", OUR_NAME).into_iter().collect());
        let body = [
            (CONTENT_LENGTH, HeaderValue::from_static("7")),
            (CONNECTION, HeaderValue::from_static("close")),
        ];
        let given = headers("a.example", "ours").into_iter().chain(body).collect();
        assert_eq!(*get(&url, &given).headers(), headers("a.example", "ours").into_iter().collect());
    }

    async fn fault(url: &str) -> Fault {
        let client = HttpClient::builder().no_proxy().connect(Duration::from_secs(60)).build().unwrap();
        let url = Url::parse(url).unwrap();
        match connect(&client, &url).await {
            Ok(mut connection) => connection.send(get(&url, &HeaderMap::new())).await.err().unwrap().fault,
            Err(fault) => fault,
        }
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_told_as_for_other_requests() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let Fault::Unreachable { address, reason } = fault(&format!("http://{nobody}/")).await else {
            panic!()
        };
        assert_eq!(address, nobody.to_string());
        assert!(reason.contains("refused"), "{reason}");
        let Fault::UnknownHost { host, .. } = fault("http://no-such-host.invalid/").await else { panic!() };
        assert_eq!(host, "no-such-host.invalid");
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        std::thread::spawn(move || silent.accept().unwrap().0.read(&mut [0; 1000]).unwrap());
        assert_eq!(fault(&url).await, closed_early());
    }
}
