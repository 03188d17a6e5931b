//! Hundreds of servers come and go, and nothing is left of them. Alone in its program, so that it can count.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use regrow::transport::Transport as _;
use regrow::transport::stdio::Stdio;
use regrow_core::{Epoch, Fault, Ladder};
use rustix::process::{Pid, Signal, kill_process};

const CYCLES: u64 = 200;

#[tokio::test]
async fn two_hundred_servers_die_or_do_not_start_and_nothing_is_left() {
    let label = format!("leaks-{}", std::process::id());
    let server = Stdio::new("test", "sh").args(["-c", "sleep 1000 & read line"]).variable("LABEL", &label);
    let missing = Stdio::new("test", "/no/such/program");
    one_life(&server, 0).await;
    let files_before = count("/proc/self/fd");
    let threads_before = count("/proc/self/task");
    for epoch in 1..=CYCLES {
        one_life(&server, epoch).await;
        assert!(missing.open(Epoch(epoch)).await.is_err());
    }
    // The last one's attendant may be closing its files just now.
    for _ in 0..1000 {
        if count("/proc/self/fd") == files_before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Threads of the blocking pool come and go; what must not be is one for each server.
    assert!(count("/proc/self/task") <= threads_before + 4);
    assert_eq!(count("/proc/self/fd"), files_before);
    assert_eq!(children(), 0, "no zombies");
    assert_eq!(labelled(&label), 0, "no orphans");
}

async fn one_life(server: &Stdio, epoch: u64) {
    let link = server.open(Epoch(epoch)).await.unwrap().into_pipes().unwrap();
    kill_process(Pid::from_raw(link.process.pid().unwrap() as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(link.process.exited().await, Fault::Killed { signal: 9 });
    drop(link.input);
    let ladder = Ladder { term_after: Duration::ZERO, kill_after: Duration::from_millis(100) };
    let ended = link.process.end(ladder).await;
    assert_eq!(ended.fault, Some(Fault::Killed { signal: 9 }));
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Processes whose parent we are, zombies too.
fn children() -> usize {
    let own = format!(" {} ", std::process::id());
    let is_child = |stat: &String| stat.rsplit(')').next().is_some_and(|rest| rest[2..].starts_with(&own));
    each_process(|folder| std::fs::read_to_string(folder.join("stat")).ok()).filter(is_child).count()
}

fn labelled(label: &str) -> usize {
    let entry = format!("LABEL={label}");
    let environments = each_process(|folder| std::fs::read(folder.join("environ")).ok());
    environments.filter(|all| all.split(|&byte| byte == 0).any(|one| one == entry.as_bytes())).count()
}

fn each_process<T>(look: impl Fn(&Path) -> Option<T>) -> impl Iterator<Item = T> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(move |entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        look(&entry.path())
    })
}
