//! The least that can stand between two pipes: it copies bytes.

use std::io;
use std::process::Command;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

pub(crate) async fn run(server: &[String]) -> io::Result<()> {
    let (client_input, client_output) = crate::pipes::own()?;
    let mut command = Command::new(&server[0]);
    let (mut child, server_input, server_output) = crate::pipes::start(command.args(&server[1..]))?;
    let upward = tokio::spawn(copy(client_input, server_input));
    copy(server_output, client_output).await?;
    upward.abort();
    child.wait().map(|_| ())
}

async fn copy(mut from: Receiver, mut to: Sender) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}
