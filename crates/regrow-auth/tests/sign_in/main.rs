//! Sign-in against an authorization server that breaks one rule at a time.

#![allow(clippy::unwrap_used)] // This is a test.

mod discovery;
mod document;
mod guard;
mod listener;
mod login;
mod person;
mod provider;
mod registration;
mod tokens;
