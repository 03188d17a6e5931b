//! The scenarios of servers that are reached by their URL: `regrow wrap URL` between a client and a server of HTTP that
//! misbehaves on command, over real sockets, and a network that fails.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

mod bad_input;
mod changes;
#[path = "../harness/client.rs"]
mod client;
#[path = "../harness/evidence.rs"]
mod evidence;
mod expiry;
#[path = "../harness/far.rs"]
mod far;
#[path = "../gateway/guest.rs"]
#[allow(dead_code)] // Only what the sign-in of its servers needs.
mod guest;
mod hostile;
mod hostile_client;
mod hostile_refresh;
#[path = "../gateway/house.rs"]
#[allow(dead_code)] // As above.
mod house;
mod lasting;
mod older;
mod outages;
mod places;
mod real_browser;
mod real_python;
mod real_server;
mod refusals;
mod secrets;
mod sign_in;
mod sign_in_prompt;
mod sign_in_refresh;
mod sign_in_serve;
mod sign_in_ways;
mod silence;
mod site;
mod smoke;
mod storm;
mod streams;
#[path = "../harness/terminal.rs"]
mod terminal;
#[path = "../gateway/wire.rs"]
#[allow(dead_code)] // As above.
mod wire;
