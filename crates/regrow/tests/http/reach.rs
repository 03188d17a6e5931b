//! Servers that are not there, or elsewhere.

use std::net::TcpListener;
use std::time::Duration;

use regrow::core::Fault;
use regrow::transport::http::{Http, HttpClient};

use crate::ear::{ANSWER, CALL, http, open};
use crate::server::Server;

#[tokio::test]
async fn nobody_at_the_address() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let link = open(&http(&format!("http://ann:hunter2@{address}/mcp?key=hunter2"))).await;
    let carried = link.carry(CALL).await;
    let Fault::Unreachable { address: told, reason } = carried.fault() else { panic!("{}", carried.fault()) };
    assert_eq!(told, address.to_string());
    assert!(reason.starts_with("Connection refused"), "{reason}");
    assert_eq!(carried.ear.sent(), 0);
    assert!(matches!(link.exchanges.check_reachable().await, Err(Fault::Unreachable { .. })));
}

#[tokio::test]
async fn no_connection_in_time() {
    // A full backlog: the kernel lets further connections wait.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let _waiting: Vec<_> = (0..4)
        .map(|_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address.into()); // In progress, and stays so.
            socket
        })
        .collect();
    let client = HttpClient::builder().no_proxy().connect(Duration::from_millis(300)).build().unwrap();
    let link = open(&Http::new(&format!("http://{address}/mcp")).unwrap().client(client)).await;
    let carried = link.carry(CALL).await;
    let Fault::Unreachable { reason, .. } = carried.fault() else { panic!("{}", carried.fault()) };
    assert_eq!(reason, "connection timed out after 0.3 s");
    assert_eq!(carried.ear.sent(), 0);
}

#[tokio::test]
async fn a_name_without_an_address() {
    let carried = open(&http("http://no-such-host.invalid/mcp?key=hunter2")).await.carry(CALL).await;
    let Fault::UnknownHost { host, reason } = carried.fault() else { panic!("{}", carried.fault()) };
    assert_eq!(host, "no-such-host.invalid");
    assert!(!reason.is_empty() && !reason.contains("hunter2"), "{reason}");
    assert_eq!(carried.ear.sent(), 0);
}

#[tokio::test]
async fn a_redirect_on_the_same_server_is_followed_and_remembered() {
    for status in [307, 308] {
        let server = Server::new(move |request, talk| {
            if request.path == "/mcp" {
                talk.reply(status, "Location: /new/mcp?x=1\r\n", "");
            } else {
                talk.json(ANSWER);
            }
        });
        let link = open(&http(&server.url())).await;
        for _ in 0..2 {
            let carried = link.carry(CALL).await;
            assert_eq!(carried.texts(), [ANSWER]);
        }
        let paths: Vec<_> = server.requests().into_iter().map(|it| (it.method, it.path, it.body)).collect();
        let sent = |path: &str| ("POST".to_owned(), path.to_owned(), CALL.to_owned());
        assert_eq!(paths, [sent("/mcp"), sent("/new/mcp?x=1"), sent("/new/mcp?x=1")]);
    }
}

#[tokio::test]
async fn a_redirect_elsewhere_is_told_and_not_followed() {
    let other = Server::new(|_, talk| talk.json(ANSWER));
    let elsewhere = format!("http://ann:hunter2@{}/there?key=hunter2", other.address);
    for (status, location) in
        [(307, &elsewhere[..]), (308, &elsewhere), (301, "/new"), (302, "/new"), (303, "/new")]
    {
        let header = format!("Location: {location}\r\n");
        let server = Server::new(move |_, talk| talk.reply(status, &header, ""));
        let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
        let Fault::Redirected { to } = &fault else { panic!("{fault}") };
        assert!(to.starts_with("http://127.0.0.1:") && !fault.to_string().contains("hunter2"), "{to}");
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let server = Server::new(|_, talk| talk.reply(307, "Location: /mcp\r\n", ""));
    let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
    assert!(matches!(fault, Fault::Redirected { .. }), "{fault}");
    assert_eq!(server.requests().len(), 4);
    let server = Server::new(|_, talk| talk.reply(302, "", ""));
    let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
    assert_eq!(fault, Fault::Status { code: 302, said: ": a redirect to nowhere".into() });
}

#[tokio::test]
async fn any_answer_to_a_knock_is_a_sign_of_life() {
    for status in [200, 204, 302, 401, 404, 405, 500] {
        let server = Server::new(move |_, talk| talk.reply(status, "", ""));
        let link = open(&http(&server.url())).await;
        assert_eq!(link.exchanges.check_reachable().await, Ok(()), "{status}");
        assert_eq!(server.requests()[0].method, "OPTIONS");
    }
    let server = Server::new(|_, talk| talk.close());
    assert!(open(&http(&server.url())).await.exchanges.check_reachable().await.is_err());
}

#[tokio::test]
async fn a_proxy_can_be_named() {
    let proxy = Server::new(|_, talk| talk.json(ANSWER));
    let client = HttpClient::builder().proxy(format!("http://{}", proxy.address)).build().unwrap();
    let link = open(&Http::new("http://mcp.example/mcp").unwrap().client(client)).await;
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
    assert_eq!(proxy.requests()[0].path, "http://mcp.example/mcp");

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = HttpClient::builder().proxy(format!("http://ann:hunter2@{nobody}")).build().unwrap();
    let link = open(&Http::new("http://mcp.example/mcp").unwrap().client(client)).await;
    let Fault::Unreachable { address, .. } = link.carry(CALL).await.fault() else { panic!("it was reached") };
    assert_eq!(address, format!("mcp.example:80 (through the proxy {nobody})"));
}

#[test]
fn what_is_no_address_is_refused_without_quoting_it() {
    for (url, said) in [
        ("mcp.example/hunter2", "the address of the server is not a URL: relative URL without a base"),
        ("ftp://hunter2@x/", "the address of the server must begin with http:// or https://, not ftp:"),
        ("hunter2:x", "the address of the server must begin with http:// or https://, not another word:"),
    ] {
        assert_eq!(Http::new(url).unwrap_err().to_string(), said);
    }
}

#[tokio::test]
async fn a_redirect_of_something_else_than_a_message_is_not_remembered() {
    let server = Server::new(|request, talk| match (&request.method[..], &request.path[..]) {
        ("OPTIONS", "/mcp") => talk.reply(307, "Location: /login\r\n", ""),
        ("OPTIONS", _) => talk.reply(403, "", ""),
        (_, "/mcp") => talk.json(ANSWER),
        _ => talk.reply(404, "", ""),
    });
    let link = open(&http(&server.url())).await;
    link.exchanges.clone().check_reachable().await.unwrap();
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
}
