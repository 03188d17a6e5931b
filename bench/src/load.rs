//! The client that calls: it keeps a number of calls in flight and checks each response.

pub(crate) mod call;
mod http;
mod recorder;
mod stdio;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::unix::pipe::{Receiver, Sender};

use crate::system::Meter;
use call::Calls;
use recorder::Recorder;
pub(crate) use recorder::Tally;

/// What is asked of a proxy.
pub(crate) struct Load {
    pub(crate) calls: Calls,
    pub(crate) in_flight: usize,
    pub(crate) stop: Stop,
}

/// When it is enough.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// After this time, following half as long of warming up.
    After(Duration),
    /// After exactly this many calls, without warming up.
    Calls(usize),
}

pub(crate) enum Client {
    Stdio(stdio::Pipes),
    Http(http::Site),
}

impl Client {
    pub(crate) fn stdio(input: Sender, output: Receiver) -> Client {
        Client::Stdio(stdio::Pipes::new(input, output))
    }

    pub(crate) fn http(address: SocketAddr) -> Client {
        Client::Http(http::Site::new(address))
    }

    /// Completes the handshake, and gets the first list.
    pub(crate) async fn greet(&mut self, calls: &Calls) -> io::Result<()> {
        match self {
            Client::Stdio(pipes) => pipes.greet(calls).await,
            Client::Http(site) => site.greet(calls).await,
        }
    }

    /// Makes calls. `meter` watches the proxy.
    pub(crate) async fn run(&mut self, load: &Load, meter: Option<Meter>) -> io::Result<Tally> {
        let recorder = Recorder::new(load.stop, meter);
        match self {
            Client::Stdio(pipes) => pipes.run(load, recorder).await,
            Client::Http(site) => site.run(load, recorder).await,
        }
    }
}
