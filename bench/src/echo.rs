//! The server that is called: one tool, `echo`, without any SDK.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

use memchr::{memchr, memrchr};
use tokio::net::{TcpListener, TcpStream};

use crate::frame;
use crate::http1::{Message, Wire};
use crate::options::{Echo, Era, Format};

struct Server {
    era: Era,
    /// The member of a result that lists them.
    tools: String,
}

pub(crate) fn run(options: &Echo) -> io::Result<()> {
    let echo = Server { era: options.era, tools: tools(options.tools) };
    if options.http { crate::block_on(serve(Arc::new(echo), options.format)) } else { pipe(&echo) }
}

fn pipe(echo: &Server) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut buffer, mut used) = (vec![0; 64 * 1024], 0);
    let mut answers = vec![];
    loop {
        if used == buffer.len() {
            buffer.resize(used * 2, 0);
        }
        let count = input.read(&mut buffer[used..])?;
        if count == 0 {
            return Ok(());
        }
        let new = used;
        used += count;
        let Some(end) = memrchr(b'\n', &buffer[new..used]).map(|at| new + at + 1) else { continue };
        let mut rest = &buffer[..end];
        while let Some(line_end) = memchr(b'\n', rest) {
            if echo.answer(&rest[..line_end], &mut answers) {
                answers.push(b'\n');
            }
            rest = &rest[line_end + 1..];
        }
        buffer.copy_within(end..used, 0);
        used -= end;
        output.write_all(&answers)?;
        output.flush()?;
        answers.clear();
    }
}

async fn serve(echo: Arc<Server>, format: Format) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, echo.clone(), format));
    }
}

async fn connection(stream: TcpStream, echo: Arc<Server>, format: Format) -> io::Result<()> {
    let mut wire = Wire::new(stream)?;
    let (mut body, mut response) = (vec![], vec![]);
    while let Some(request) = wire.read().await? {
        body.clear();
        response.clear();
        respond(&request, &echo, format, &mut body, &mut response)?;
        wire.write(&response).await?;
    }
    Ok(())
}

fn respond(
    request: &Message,
    echo: &Server,
    format: Format,
    body: &mut Vec<u8>,
    response: &mut Vec<u8>,
) -> io::Result<()> {
    let era = echo.era;
    const EMPTY: &str = "content-length: 0\r\n\r\n";
    let method = request.start().split(' ').next().unwrap_or_default();
    match method {
        "POST" if echo.answer(&request.body, body) => {}
        "POST" => return write!(response, "HTTP/1.1 202 Accepted\r\n{EMPTY}"),
        "DELETE" if era == Era::Legacy => return write!(response, "HTTP/1.1 200 OK\r\n{EMPTY}"),
        _ => return write!(response, "HTTP/1.1 405 Method Not Allowed\r\n{EMPTY}"),
    }
    let status = match body.starts_with(REFUSED.as_bytes()) {
        true if era == Era::Modern => "400 Bad Request",
        _ => "200 OK",
    };
    write!(response, "HTTP/1.1 {status}\r\n")?;
    let is_initialize = request.header("mcp-session-id").is_none() && era == Era::Legacy;
    if is_initialize {
        write!(response, "mcp-session-id: bench\r\n")?;
    }
    match format {
        Format::Json => {
            write!(response, "content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len())?;
            response.extend_from_slice(body);
        }
        Format::Sse => {
            const EVENT: &str = "event: message\ndata: ";
            let length = EVENT.len() + body.len() + 2;
            write!(response, "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
            write!(response, "{length:x}\r\n{EVENT}")?;
            response.extend_from_slice(body);
            response.extend_from_slice(b"\n\n\r\n0\r\n\r\n");
        }
    }
    Ok(())
}

/// How errors of this server start.
const REFUSED: &str = r#"{"jsonrpc":"2.0","error""#;

impl Server {
    /// Appends the response to a message; false if it needs none.
    fn answer(&self, message: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(members) = frame::scan(message) else { return false };
        let (Some(id), Some(method)) = (members.id, members.method) else { return false };
        let (id, era) = (&message[id], self.era);
        let complete = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
        let list = if era == Era::Modern { r#""ttlMs":60000,"cacheScope":"private","# } else { "" };
        let unknown = (r#"-32601,"message":"Method not found""#, "");
        let unsupported = (
            r#"-32022,"message":"Unsupported protocol version""#,
            r#","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}"#,
        );
        let result = |out: &mut Vec<u8>, parts: &[&[u8]]| {
            out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            out.extend_from_slice(id);
            out.extend_from_slice(br#","result":{"#);
            out.extend_from_slice(complete.as_bytes());
            parts.iter().for_each(|part| out.extend_from_slice(part));
            out.extend_from_slice(b"}}");
        };
        let error = |out: &mut Vec<u8>, (what, data): (&str, &str)| {
            out.extend_from_slice(format!(r#"{REFUSED}:{{"code":{what}{data}}},"id":"#).as_bytes());
            out.extend_from_slice(id);
            out.push(b'}');
        };
        match (&message[method], era) {
            (br#""tools/call""#, _) => {
                let text = frame::string_member(message, "text").unwrap_or_default();
                result(out, &[br#""content":[{"type":"text","text":""#, text, br#""}]"#]);
            }
            (br#""tools/list""#, _) => result(out, &[list.as_bytes(), self.tools.as_bytes()]),
            // Subscribing is an update, so that a client hears of one for each.
            (br#""resources/subscribe""#, Era::Legacy) => {
                result(out, &[]);
                out.extend_from_slice(UPDATED.as_bytes());
            }
            (br#""ping""#, Era::Legacy) => result(out, &[]),
            (br#""initialize""#, Era::Legacy) => result(out, &[INITIALIZED.as_bytes()]),
            (br#""initialize""#, Era::Modern) => error(out, unsupported),
            (br#""server/discover""#, Era::Modern) => result(out, &[list.as_bytes(), DISCOVERED.as_bytes()]),
            _ => error(out, unknown),
        }
        true
    }
}

/// The first is `echo`.
fn tools(count: usize) -> String {
    let names =
        (0..count).map(|number| if number == 0 { "echo".to_owned() } else { format!("echo-{number}") });
    let tools: Vec<String> = names.map(|name| format!(r#"{{"name":"{name}",{TOOL}"#)).collect();
    format!(r#""tools":[{}]"#, tools.join(","))
}

const TOOL: &str = r#""description":"Returns its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}"#;
const UPDATED: &str =
    "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"echo:it\"}}";
const INITIALIZED: &str = r#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}"#;
const DISCOVERED: &str = r#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","version":"1"}}"#;
