//! Accounts that several processes share: refreshed once, never lost, and woken by a sign-in elsewhere.

#![allow(clippy::unwrap_used)] // This is a test.

mod child;
mod disk;
mod fixture;
mod race;
mod refreshing;
mod waking;
