//! What the pipes tell about a server that died.
//!
//! A child that another test is starting just now holds copies of our pipes until its exec, so `unread` may say
//! `None` for a moment. It never says too much.

use std::task::{Context, Poll, Waker};

use regrow::transport::Pipes;
use regrow::transport::stdio::Stdio;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};

use super::{ladder, leader, line, open, send, shell, soon, state, until};

/// Everything up to `Pending` or the end.
fn read_now(link: &mut Pipes) -> Vec<u8> {
    let mut all = vec![];
    let mut space = [0; 7];
    loop {
        let mut buffer = ReadBuf::new(&mut space);
        let output = std::pin::Pin::new(&mut link.output);
        match output.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer) {
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => all.extend(buffer.filled()),
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Ready(Ok(())) | Poll::Pending => return all,
        }
    }
}

#[tokio::test]
async fn what_a_server_wrote_before_it_died_can_be_read_without_waiting() {
    for _ in 0..30 {
        // A helper holds the output open, so its end never comes.
        let mut link = open(shell("sleep 100 & echo one; echo two")).await;
        assert_eq!(line(&mut link).await, "one");
        soon(link.process.exited()).await;
        assert_eq!(read_now(&mut link), b"two\n");
    }
}

#[tokio::test]
async fn what_a_dead_server_never_read_is_counted() {
    let mut link = open(Stdio::new("test", "cat")).await;
    send(leader(&link), Signal::STOP);
    // A reader that is only about to stop still takes what comes in time, and then it is not counted.
    until(|| state(leader(&link)) == Some('T')).await;
    link.input.write_all(b"never read\n").await.unwrap();
    assert_eq!(link.input.unread(), None, "it may go on");
    send(leader(&link), Signal::KILL);
    soon(link.process.exited()).await;
    until(|| link.input.unread() == Some(11)).await;
    assert!(link.input.write_all(b"more\n").await.is_err());
    assert_eq!(link.input.unread(), Some(11));
}

#[tokio::test]
async fn a_part_that_was_read_is_not_counted() {
    // `read` takes byte by byte, up to the end of the line.
    let mut link = open(shell("read line; echo got $line; kill -STOP $$")).await;
    link.input.write_all(b"one\ntwo\n").await.unwrap();
    assert_eq!(line(&mut link).await, "got one");
    send(leader(&link), Signal::KILL);
    soon(link.process.exited()).await;
    until(|| link.input.unread() == Some(4)).await;
}

#[tokio::test]
async fn nothing_is_known_while_a_grandchild_may_read() {
    let mut link = open(shell("exec 3<&0; sleep 100 <&3 & echo started; exec sleep 100 3<&-")).await;
    assert_eq!(line(&mut link).await, "started");
    link.input.write_all(b"for whom\n").await.unwrap();
    send(leader(&link), Signal::KILL);
    soon(link.process.exited()).await;
    assert_eq!(link.input.unread(), None);
    soon(link.process.end(ladder(0, 0))).await;
    until(|| link.input.unread() == Some(9)).await;
}

#[tokio::test]
async fn a_full_pipe_waits_and_goes_on() {
    let mut link = open(Stdio::new("test", "cat")).await;
    let stopped = leader(&link);
    send(stopped, Signal::STOP);
    let bytes = vec![b'x'; 300_000];
    let (write, read) = (&mut link.input, &mut link.output);
    let mut got = vec![0; bytes.len()];
    let goes_on = async {
        tokio::task::yield_now().await;
        send(stopped, Signal::CONT);
    };
    let (written, read, ()) = soon(async {
        tokio::join!(write.write_all(&bytes), tokio::io::AsyncReadExt::read_exact(read, &mut got), goes_on)
    })
    .await;
    assert!(written.is_ok() && read.is_ok() && got == bytes);
}
