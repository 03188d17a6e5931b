//! The server that is called: one tool, `echo`, without any SDK.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;

use memchr::{memchr, memrchr};
use tokio::net::{TcpListener, TcpStream};

use crate::frame;
use crate::http1::{Message, Wire};
use crate::options::{Echo, Era, Format};

pub(crate) fn run(options: &Echo) -> io::Result<()> {
    if options.http { crate::block_on(serve(options.era, options.format)) } else { pipe(options.era) }
}

fn pipe(era: Era) -> io::Result<()> {
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
            if answer(&rest[..line_end], era, &mut answers) {
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

async fn serve(era: Era, format: Format) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, era, format));
    }
}

async fn connection(stream: TcpStream, era: Era, format: Format) -> io::Result<()> {
    let mut wire = Wire::new(stream)?;
    let (mut body, mut response) = (vec![], vec![]);
    while let Some(request) = wire.read().await? {
        body.clear();
        response.clear();
        respond(&request, era, format, &mut body, &mut response)?;
        wire.write(&response).await?;
    }
    Ok(())
}

fn respond(
    request: &Message,
    era: Era,
    format: Format,
    body: &mut Vec<u8>,
    response: &mut Vec<u8>,
) -> io::Result<()> {
    const EMPTY: &str = "content-length: 0\r\n\r\n";
    let method = request.start().split(' ').next().unwrap_or_default();
    match method {
        "POST" if answer(&request.body, era, body) => {}
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

/// Appends the response to a message; false if it needs none.
fn answer(message: &[u8], era: Era, out: &mut Vec<u8>) -> bool {
    let Some(members) = frame::scan(message) else { return false };
    let (Some(id), Some(method)) = (members.id, members.method) else { return false };
    let id = &message[id];
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
        (br#""tools/list""#, _) => result(out, &[list.as_bytes(), TOOLS.as_bytes()]),
        (br#""ping""#, Era::Legacy) => result(out, &[]),
        (br#""initialize""#, Era::Legacy) => result(out, &[INITIALIZED.as_bytes()]),
        (br#""initialize""#, Era::Modern) => error(out, unsupported),
        (br#""server/discover""#, Era::Modern) => result(out, &[list.as_bytes(), DISCOVERED.as_bytes()]),
        _ => error(out, unknown),
    }
    true
}

const TOOLS: &str = r#""tools":[{"name":"echo","description":"Returns its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]"#;
const INITIALIZED: &str = r#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}"#;
const DISCOVERED: &str = r#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","version":"1"}}"#;
