//! People who sign in: in a browser, by pasting, on another device.

use std::future::pending;
use std::sync::Mutex;

use regrow_auth::authorize::CallbackError;
use regrow_auth::device::DeviceCode;
use regrow_auth::login::Person;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use url::Url;

/// Follows each address that it is to open, as a browser does, and keeps the last page.
#[derive(Default)]
pub(crate) struct Browser {
    pub(crate) opened: Mutex<Vec<Url>>,
    pages: Mutex<Vec<JoinHandle<Page>>>,
}

/// A response as a browser sees it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Browser {
    /// The page that the last address led to.
    pub(crate) async fn page(&self) -> Page {
        let last = self.pages.lock().unwrap().pop().unwrap();
        last.await.unwrap()
    }
}

impl Person for Browser {
    fn open(&self, url: &Url) {
        self.opened.lock().unwrap().push(url.clone());
        self.pages.lock().unwrap().push(tokio::spawn(browse(url.clone())));
    }

    fn enter(&self, _: &DeviceCode) {
        panic!("no device was asked for")
    }

    async fn pasted(&self, _: Option<&CallbackError>) -> String {
        pending().await
    }
}

/// Opens addresses elsewhere, and pastes what a test says.
pub(crate) struct Remote {
    pub(crate) opened: watch::Sender<Option<Url>>,
    pub(crate) pastes: tokio::sync::Mutex<mpsc::Receiver<String>>,
    pub(crate) errors: Mutex<Vec<CallbackError>>,
    pub(crate) codes: Mutex<Vec<String>>,
}

impl Remote {
    pub(crate) fn new() -> (Remote, mpsc::Sender<String>) {
        let (sender, receiver) = mpsc::channel(8);
        let remote = Remote {
            opened: watch::Sender::new(None),
            pastes: receiver.into(),
            errors: Mutex::default(),
            codes: Mutex::default(),
        };
        (remote, sender)
    }
}

impl Person for Remote {
    fn open(&self, url: &Url) {
        self.opened.send_replace(Some(url.clone()));
    }

    fn enter(&self, code: &DeviceCode) {
        self.codes.lock().unwrap().push(format!("{} at {}", code.user_code, code.verification_url.path()));
    }

    async fn pasted(&self, error: Option<&CallbackError>) -> String {
        self.errors.lock().unwrap().extend(error.cloned());
        match self.pastes.lock().await.recv().await {
            Some(text) => text,
            None => pending().await,
        }
    }
}

/// Gets a page, through redirects.
pub(crate) async fn browse(mut url: Url) -> Page {
    loop {
        let (status, location, text) = get(&url).await;
        match location {
            Some(location) => url = url.join(&location).unwrap(),
            None => return Page { status, text },
        }
    }
}

/// One GET over plain HTTP: status, redirect, and everything that came.
pub(crate) async fn get(url: &Url) -> (u16, Option<String>, String) {
    let address = (url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let location = text.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
    (status, location, text)
}
