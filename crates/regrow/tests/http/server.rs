//! A server of raw bytes: the test decides on each of them, and sees each request.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Whether its message has this method.
    pub(crate) fn calls(&self, method: &str) -> bool {
        self.body.contains(&format!("\"method\":\"{method}\""))
    }
}

/// What a server can be made of: plain TCP, or TLS over it.
pub(crate) trait Stream: Read + Write + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

/// One connection of a client, to be answered on.
pub(crate) struct Talk {
    stream: BufReader<Box<dyn Stream>>,
    open: bool,
}

impl Talk {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Talk {
        Talk { stream: BufReader::new(stream), open: true }
    }

    /// Bytes as they are. The client may have left: then they go nowhere.
    pub(crate) fn raw(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref()).and_then(|()| stream.flush()).is_ok()
    }

    /// A whole answer. `headers` is of lines, each with its end.
    pub(crate) fn reply(&mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        self.raw(format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}"));
    }

    pub(crate) fn json(&mut self, body: &str) {
        self.reply(200, "Content-Type: application/json\r\n", body);
    }

    /// Starts a stream of events.
    pub(crate) fn events(&mut self, headers: &str) {
        self.raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}Transfer-Encoding: chunked\r\n\r\n"
        ));
    }

    /// A piece of a stream. Says whether the client still takes it.
    pub(crate) fn chunk(&mut self, text: impl AsRef<[u8]>) -> bool {
        let text = text.as_ref();
        let mut bytes = format!("{:x}\r\n", text.len()).into_bytes();
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(b"\r\n");
        self.raw(bytes)
    }

    /// One message as an event.
    pub(crate) fn event(&mut self, message: &str) -> bool {
        self.chunk(format!("event: message\ndata: {message}\n\n"))
    }

    /// Ends a stream in good order.
    pub(crate) fn done(&mut self) {
        self.raw("0\r\n\r\n");
    }

    /// Closes in good order.
    pub(crate) fn close(&mut self) {
        self.open = false;
        // The client may have closed first.
        let _ = self.stream.get_ref().tcp().shutdown(Shutdown::Both);
    }

    /// Closes with a reset.
    pub(crate) fn reset(&mut self) {
        self.open = false;
        let socket = socket2::SockRef::from(self.stream.get_ref().tcp());
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Waits until the client has closed the connection, or has sent more: then false.
    pub(crate) fn closed_by_client(&mut self) -> bool {
        self.open = false;
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }

    /// The next request on this connection.
    pub(crate) fn request(&mut self) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            let before = headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            assert_eq!(before, None, "{name} stands there twice");
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Some(Request { method, path, headers, body: String::from_utf8(body).unwrap() }))
    }
}

/// A server, for as long as the test runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request as `answer` does.
    pub(crate) fn new(answer: impl Fn(&Request, &mut Talk) + Send + Sync + 'static) -> Server {
        Server::with(|stream| Some(Box::new(stream)), answer)
    }

    /// The same over what `wrap` makes of a connection.
    pub(crate) fn with(
        wrap: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync + 'static,
        answer: impl Fn(&Request, &mut Talk) + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let (log, count) = (requests.clone(), connections.clone());
        let parts = Arc::new((wrap, answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (log, parts) = (log.clone(), parts.clone());
                thread::spawn(move || {
                    let Some(stream) = (parts.0)(stream.unwrap()) else { return };
                    let mut talk = Talk::new(stream);
                    while talk.open {
                        let Ok(Some(request)) = talk.request() else { return };
                        log.lock().unwrap().push(request.clone());
                        (parts.1)(&request, &mut talk);
                    }
                });
            }
        });
        Server { address, requests, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn until(&self, count: usize) {
        let wait = async {
            while self.requests().len() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(crate::ear::LIMIT, wait).await.expect("so many requests");
    }
}
