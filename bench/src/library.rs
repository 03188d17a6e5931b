//! The crate without the rest of the binary: a connection behind a client on standard input and output.

use std::io;

use regrow::transport::http::Http;
use regrow::transport::stdio::Stdio;
use regrow::{Connection, ErrorStyle, Port, relay};

use crate::options::Library;

const MAX_LINE: usize = 64 << 20;

pub(crate) async fn run(options: &Library) -> io::Result<()> {
    let (input, output) = crate::pipes::own()?;
    let builder = match (&options.url, &options.server[..]) {
        (Some(url), _) => Connection::builder("echo", Http::new(url).map_err(io::Error::other)?),
        (None, [program, arguments @ ..]) => {
            Connection::builder("echo", Stdio::new("echo", program).args(arguments))
        }
        (None, []) => unreachable!("one of them is required"),
    };
    let port = Port::new("echo", output, ErrorStyle::Tool, MAX_LINE);
    let connection = builder.relay_to(port.clone()).build();
    relay(&connection, &port, input).await?;
    connection.close().await;
    Ok(())
}
