//! What failed on a connection, apart from TLS and HTTP/2.

use std::error::Error;
use std::fmt::Display;
use std::io;

use regrow_core::Fault;

use super::causes::{find, root_cause};

/// Where in an exchange it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Before any of the answer was there.
    Start,
    /// In the middle of the answer.
    Body,
}

/// The fault that this error is.
pub(super) fn plain(error: &(dyn Error + 'static), at: At) -> Fault {
    if let Some(hyper) = find::<hyper::Error>(error) {
        if hyper.is_parse() && at == At::Start {
            return not_http(hyper);
        }
        if hyper.is_incomplete_message() || is_end(error) {
            return match at {
                At::Start => closed_early(),
                At::Body => Fault::AnswerCut,
            };
        }
    }
    Fault::Broken { reason: root_cause(error) }
}

pub(super) fn closed_early() -> Fault {
    Fault::Broken { reason: "connection closed before the server responded".into() }
}

fn not_http(reason: &dyn Display) -> Fault {
    Fault::NotMcp { found: format!("something that does not speak HTTP ({reason})") }
}

fn is_end(error: &(dyn Error + 'static)) -> bool {
    find::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}
