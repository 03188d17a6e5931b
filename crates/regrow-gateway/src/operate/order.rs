//! What an operator can have a server do.

use serde::{Deserialize, Serialize};

/// An order to one server. It is never taken for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
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
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 5] =
        [Order::Reconnect, Order::Drain, Order::Park, Order::Wake, Order::ResetBudget];

    /// As it is called on the command line and in addresses.
    pub fn name(self) -> &'static str {
        match self {
            Order::Reconnect => "reconnect",
            Order::Drain => "drain",
            Order::Park => "park",
            Order::Wake => "wake",
            Order::ResetBudget => "reset-budget",
        }
    }

    /// The order of this name.
    pub fn named(name: &str) -> Option<Order> {
        Order::ALL.into_iter().find(|order| order.name() == name)
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

/// Why an order was not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
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
