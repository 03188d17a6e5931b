//! Real processes behind the stdio transport.

#![allow(clippy::unwrap_used)]

mod end;
mod floods;
mod pipes;
mod start;

use std::future::Future;
use std::time::Duration;

use regrow::transport::stdio::Stdio;
use regrow::transport::{Pipes, Transport as _};
use regrow_core::{Epoch, Ladder};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt as _;

/// Long enough for a busy machine; nothing here waits so long when it works.
const PATIENCE: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Stdio {
    Stdio::new("test", "sh").args(["-c", script])
}

async fn open(server: Stdio) -> Pipes {
    server.open(Epoch(1)).await.unwrap().into_pipes().unwrap()
}

fn ladder(term_after: u64, kill_after: u64) -> Ladder {
    Ladder { term_after: Duration::from_millis(term_after), kill_after: Duration::from_millis(kill_after) }
}

/// Waits for the thing, not for a time.
async fn soon<T>(thing: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, thing).await.expect("it takes too long")
}

async fn until(mut is_so: impl FnMut() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Reads up to the end of the line.
async fn line(link: &mut Pipes) -> String {
    let mut line = vec![];
    loop {
        match soon(link.output.read_u8()).await {
            Ok(b'\n') | Err(_) => return String::from_utf8(line).unwrap(),
            Ok(byte) => line.push(byte),
        }
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn leader(link: &Pipes) -> Pid {
    Pid::from_raw(link.process.pid().unwrap() as i32).unwrap()
}

fn send(pid: Pid, signal: Signal) {
    kill_process(pid, signal).unwrap();
}

/// A zombie does not run.
fn runs(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Its state as Linux tells it: `T` is stopped, `Z` a zombie.
fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}
