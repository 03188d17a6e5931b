//! What an operator can have a server do.

use serde::{Deserialize, Serialize};

/// A command to one server. It is never taken for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCommand {
    /// Put a fresh session in the place of this one, when the calls in flight have ended.
    Reconnect,
    /// Take no new calls, let those in flight finish, and stop.
    Drain,
    /// The same where there is no session: stop trying, until it is woken.
    Park,
    /// Start again: after a drain, parked, or in a pause between attempts.
    Wake,
    /// Forget the faults of the past, so that the whole budget is there again.
    ResetBudget,
    /// Read its pins again: a person has approved what has changed.
    Approve,
}

impl ServerCommand {
    /// All of them.
    pub const ALL: [ServerCommand; 6] = [
        ServerCommand::Reconnect,
        ServerCommand::Drain,
        ServerCommand::Park,
        ServerCommand::Wake,
        ServerCommand::ResetBudget,
        ServerCommand::Approve,
    ];

    /// As it is called on the command line and in addresses.
    pub fn name(self) -> &'static str {
        match self {
            ServerCommand::Reconnect => "reconnect",
            ServerCommand::Drain => "drain",
            ServerCommand::Park => "park",
            ServerCommand::Wake => "wake",
            ServerCommand::ResetBudget => "reset-budget",
            ServerCommand::Approve => "approve",
        }
    }

    /// The command of this name.
    pub fn named(name: &str) -> Option<ServerCommand> {
        ServerCommand::ALL.into_iter().find(|command| command.name() == name)
    }
}

/// How much the gateway logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Only what is broken for good.
    Error,
    /// Faults.
    Warn,
    /// Every change of state.
    Info,
    /// More than that.
    Debug,
}

impl LogLevel {
    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}

/// Why a command was not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no server of that name.
    #[error("no server has this name")]
    NoSuchServer,
    /// It makes no sense where the server stands now.
    #[error("not possible now: {0}")]
    Impossible(String),
    /// The gateway is ending.
    #[error("the gateway is shutting down")]
    Closing,
}

impl CommandError {
    /// Its name for machines.
    pub fn name(&self) -> &'static str {
        match self {
            CommandError::NoSuchServer => "no-such-server",
            CommandError::Impossible(_) => "impossible",
            CommandError::Closing => "closed",
        }
    }
}
