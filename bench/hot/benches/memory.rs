//! Whole calls between a client and a server in this process, alone and with Regrow's relay between them.

use std::sync::Arc;
use std::time::Duration;

use regrow::core::{Epoch, Fault, Ladder};
use regrow::transport::{BoxFuture, Ended, Link, Pipes, Process, Transport};
use regrow::{Connection, Era, ErrorStyle, Excerpt, MAX_LINE, Port, relay};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

const PIPE: usize = 64 * 1024;
const TEXT: usize = 100;
/// A run that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(120);

/// A call of the tool `echo`, and more members of its params.
pub(crate) fn request(id: usize, more: &str) -> String {
    let text = "x".repeat(TEXT);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}{more}}}}}"#
    )
}

pub(crate) fn response(id: &str, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
}

/// The client's pipes lead to the server.
pub(crate) fn direct(times: usize) {
    block_on(async {
        let (input, far_input) = duplex(PIPE);
        let (far_output, output) = duplex(PIPE);
        tokio::spawn(serve(far_input, far_output));
        call(input, output, times, 1).await;
    });
}

/// Rounds of so many calls at once.
pub(crate) fn relayed(times: usize, in_flight: usize) {
    block_on(async {
        let (input, far_input) = duplex(PIPE);
        let (far_output, output) = duplex(PIPE);
        let port = Port::new("echo", far_output, ErrorStyle::Tool, MAX_LINE);
        let connection =
            Connection::builder("echo", InMemory).era(Era::Legacy).seed(1).relay_to(port.clone()).build();
        connection.start();
        tokio::spawn(async move { relay(&connection, &port, far_input).await });
        call(input, output, times, in_flight).await;
    });
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LONGEST, future).await }).expect("it does not hang");
}

/// Greets the server and makes calls.
async fn call(mut input: DuplexStream, output: DuplexStream, times: usize, in_flight: usize) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hot","version":"1"}}}"#;
    input.write_all(format!("{hello}\n").as_bytes()).await.expect("written");
    output.read_line(&mut line).await.expect("a greeting");
    let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    input.write_all(ready.as_bytes()).await.expect("written");
    let calls: Vec<(String, String)> = (1..=in_flight)
        .map(|id| (request(id, "") + "\n", response(&id.to_string(), &"x".repeat(TEXT)) + "\n"))
        .collect();
    let together: String = calls.iter().map(|(request, _)| request.as_str()).collect();
    for _ in 0..times {
        input.write_all(together.as_bytes()).await.expect("written");
        for (_, expected) in &calls {
            line.clear();
            output.read_line(&mut line).await.expect("a response");
            assert_eq!(line, *expected);
        }
    }
}

/// A server that answers in order. What it takes is a part of each count, so it does as little as it can.
async fn serve(input: DuplexStream, mut output: DuplexStream) {
    let mut input = BufReader::new(input);
    let (mut line, mut answers) = (String::new(), String::new());
    let text = "x".repeat(TEXT);
    while input.read_line(&mut line).await.is_ok_and(|count| count > 0) {
        let id = line.split_once("\"id\":").map(|(_, rest)| &rest[..rest.find([',', '}']).unwrap_or(0)]);
        match id {
            None => {}
            Some(id) if line.contains("\"initialize\"") => answers.push_str(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{\"tools\":{{}}}},\
                 \"serverInfo\":{{\"name\":\"echo\",\"version\":\"1\"}}}}}}\n"
            )),
            Some(id) => {
                answers.push_str(&response(id, &text));
                answers.push('\n');
            }
        }
        line.clear();
        if input.buffer().is_empty() {
            if output.write_all(answers.as_bytes()).await.is_err() {
                return;
            }
            answers.clear();
        }
    }
}

/// Starts the server above.
struct InMemory;

impl Transport for InMemory {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let (input, far_input) = duplex(PIPE);
        let (far_output, output) = duplex(PIPE);
        tokio::spawn(serve(far_input, far_output));
        let pipes = Pipes { input: Box::new(input), output: Box::new(output), process: Arc::new(NoProcess) };
        Box::pin(std::future::ready(Ok(Link::Pipes(pipes))))
    }
}

/// It ends with its pipes.
struct NoProcess;

impl Process for NoProcess {
    fn exited(&self) -> BoxFuture<Fault> {
        Box::pin(std::future::pending())
    }

    fn end(&self, _: Ladder) -> BoxFuture<Ended> {
        Box::pin(std::future::ready(Ended::default()))
    }

    fn stderr(&self) -> Excerpt {
        Excerpt::new(0, 0)
    }

    fn pid(&self) -> Option<u32> {
        None
    }
}
