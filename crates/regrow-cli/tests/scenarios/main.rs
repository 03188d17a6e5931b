//! The scenarios that users judge us by, against real processes: `regrow wrap` between a client and a server that
//! misbehaves on command.

#![allow(unreachable_pub)] // Modules of a test are seen by nobody else.
#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

mod client;
mod crash_loops;
mod deaths;
mod evidence;
mod hangs;
mod pipes;
mod smoke;
