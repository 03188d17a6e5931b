//! The scenarios that users judge us by, against real processes: `regrow wrap` between a client and a server that
//! misbehaves on command.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

mod bad_input;
#[path = "../harness/client.rs"]
mod client;
mod crash_loops;
mod deaths;
mod end_of_input;
mod endings;
mod eras;
#[path = "../harness/evidence.rs"]
mod evidence;
mod floods;
mod hangs;
mod lists;
mod patience;
mod pipes;
mod planned;
mod relaying;
#[cfg(target_os = "linux")]
#[path = "../harness/runaway.rs"]
mod runaway;
#[cfg(target_os = "linux")]
mod runaways;
mod secrets;
mod smoke;
#[path = "../harness/terminal.rs"]
mod terminal;
mod terminals;
