//! The scenarios that users judge us by, against real processes: `regrow wrap` between a client and a server that
//! misbehaves on command.

#![allow(unreachable_pub)] // Modules of a test are seen by nobody else.

mod bad_input;
mod client;
mod endings;
mod eras;
mod evidence;
mod floods;
mod lists;
mod planned;
mod relaying;
mod secrets;
mod smoke;
