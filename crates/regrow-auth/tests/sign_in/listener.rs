//! The browser's return.

use regrow_auth::listener::{CallbackHost, Listener, Page, path_of};
use regrow_auth::records::Secret;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use url::Url;

use crate::person::{browse, get};

async fn listener() -> Listener {
    let server = Url::parse("https://mcp.example/mcp").unwrap();
    Listener::bind(&path_of(&server), CallbackHost::Loopback, None).await.unwrap()
}

fn address(listener: &Listener, query: &str) -> Url {
    Url::parse(&format!("{}?{query}", listener.redirect_uri())).unwrap()
}

#[tokio::test]
async fn a_wrong_path_state_or_method_gets_400_and_the_listener_goes_on() {
    let listener = listener().await;
    let state = Secret::new("right");
    let strangers = async {
        // A browser opens connections in advance, and some never say anything.
        let port = Url::parse(listener.redirect_uri()).unwrap().port().unwrap();
        let silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let mut rude = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        rude.write_all(b"\xff\xfe\r\n\r\n").await.unwrap();
        let mut wrong_path = address(&listener, "code=x&state=right");
        wrong_path.set_path("/callback/other");
        for url in [
            wrong_path,
            address(&listener, "code=x&state=wrong"),
            address(&listener, "code=x"),
            address(&listener, "code=x&state=right&state=right"),
        ] {
            let (status, _, text) = get(&url).await;
            assert_eq!(status, 400, "{url}");
            assert!(!text.contains("wrong"), "nothing of the request is shown: {text}");
        }
        drop(silent);
        browse(address(&listener, "code=x&state=right")).await
    };
    let person = async {
        let returned = listener.callback(&state).await.unwrap();
        assert!(returned.callback.has_state(&state));
        assert!(!format!("{returned:?}").contains("code"), "{returned:?}");
        returned.show(&Page { title: "<Done>", text: "It's \"done\"", next: "& over" }).await;
    };
    let (page, ()) = tokio::join!(strangers, person);
    assert_eq!(page.status, 200);
    assert!(
        page.text.contains("<h1>&lt;Done&gt;</h1><p>It&#39;s &quot;done&quot;</p><p>&amp; over</p>"),
        "{page:?}"
    );
    assert!(page.text.contains("Content-Security-Policy: default-src 'none'"), "{page:?}");
}

#[tokio::test]
async fn each_server_has_its_own_path() {
    let path = async |server: &str, host| {
        let server = Url::parse(server).unwrap();
        let listener = Listener::bind(&path_of(&server), host, None).await.unwrap();
        let url = Url::parse(listener.redirect_uri()).unwrap();
        (url.host_str().unwrap().to_owned(), url.path().to_owned())
    };
    let one = path("https://a.example/mcp", CallbackHost::Loopback).await;
    let same = path("https://a.example/mcp", CallbackHost::Localhost).await;
    let other = path("https://b.example/mcp", CallbackHost::Loopback).await;
    assert_eq!((one.0.as_str(), same.0.as_str()), ("127.0.0.1", "localhost"));
    assert_eq!(one.1, same.1);
    assert_ne!(one.1, other.1);
}
