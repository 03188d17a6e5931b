//! Many servers and many clients, against real processes and real sockets: `regrow serve` between clients of both eras and
//! servers that misbehave on command.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "gateway/audit.rs"]
mod audit;
#[path = "harness/client.rs"]
mod client;
#[path = "gateway/ending.rs"]
mod ending;
#[path = "harness/evidence.rs"]
mod evidence;
#[path = "gateway/filters.rs"]
mod filters;
#[path = "gateway/guards.rs"]
mod guards;
#[path = "gateway/guest.rs"]
mod guest;
#[path = "gateway/house.rs"]
mod house;
#[path = "gateway/limits.rs"]
mod limits;
#[path = "gateway/long_results.rs"]
mod long_results;
#[path = "gateway/many.rs"]
mod many;
#[path = "gateway/names.rs"]
mod names;
#[path = "gateway/oddities.rs"]
mod oddities;
#[path = "gateway/orders.rs"]
mod orders;
#[path = "gateway/pinning.rs"]
mod pinning;
#[path = "gateway/progress.rs"]
mod progress;
#[path = "gateway/recorder.rs"]
mod recorder;
#[path = "gateway/refusals.rs"]
mod refusals;
#[path = "gateway/reloading.rs"]
mod reloading;
#[path = "gateway/resting.rs"]
mod resting;
#[path = "gateway/roles.rs"]
mod roles;
#[cfg(target_os = "linux")]
#[path = "harness/runaway.rs"]
mod runaway;
#[cfg(target_os = "linux")]
#[path = "gateway/runaways.rs"]
mod runaways;
#[cfg(target_os = "linux")]
#[path = "gateway/sandbox.rs"]
mod sandbox;
#[path = "gateway/secrets.rs"]
mod secrets;
#[path = "gateway/sessions.rs"]
mod sessions;
#[path = "gateway/shares.rs"]
mod shares;
#[path = "remote/site.rs"]
#[allow(dead_code)] // Its clients are not ours.
mod site;
#[path = "gateway/soak.rs"]
mod soak;
#[path = "gateway/standard_streams.rs"]
mod standard_streams;
#[path = "gateway/strict.rs"]
mod strict;
#[path = "gateway/surroundings.rs"]
mod surroundings;
#[path = "harness/terminal.rs"]
mod terminal;
#[path = "gateway/together.rs"]
mod together;
#[path = "gateway/trust.rs"]
mod trust;
#[cfg(target_os = "linux")]
#[path = "gateway/users.rs"]
mod users;
#[path = "../../regrow-gateway/tests/schema/validity.rs"]
mod validity;
#[path = "gateway/wire.rs"]
mod wire;
