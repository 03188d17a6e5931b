//! Reads lines from an async stream.

use std::io;

use regrow_protocol::lines::{Line, LineReader};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads until there is a line. `None` at the end of the stream, where [`LineReader::finish`] may return one more.
/// Dropping the future loses nothing.
pub(crate) async fn read_line(
    lines: &mut LineReader,
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
) -> io::Result<Option<Line>> {
    let mut reads_on = false;
    loop {
        if let Some(line) = lines.next_line() {
            return Ok(Some(line));
        }
        if std::mem::replace(&mut reads_on, true) {
            tokio::task::yield_now().await; // A long line, or many blank ones: let other tasks run.
        }
        if stream.read_buf(&mut lines.space()).await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_dropped_read_loses_nothing() {
        let whole = |text: &'static str| Line::Whole(text.into());
        let (mut writer, mut stream) = tokio::io::duplex(7);
        let mut lines = LineReader::new(100);
        let mut read = vec![];
        for byte in b"one line\nand another\nand a ha" {
            writer.write_all(&[*byte]).await.unwrap();
            // One poll, and the future is dropped.
            let polled =
                pin!(read_line(&mut lines, &mut stream)).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(line) = polled {
                read.extend(line.unwrap());
            }
        }
        drop(writer);
        assert_eq!(read, [whole("one line"), whole("and another")]);
        assert_eq!(read_line(&mut lines, &mut stream).await.unwrap(), None);
        assert_eq!(lines.finish(), Some(whole("and a ha")));
    }
}
