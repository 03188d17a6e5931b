//! Why a gateway could not be asked, or did not do as asked; each says the next step.

use std::{fmt, io};

use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};

#[derive(Debug)]
pub(super) enum Failure {
    /// What was said on the command line makes no sense.
    Usage(String),
    /// Nobody answers there.
    Unreachable { url: String, reason: String },
    /// Something answers, but not as a gateway does.
    NotAGateway { url: String },
    /// It needs the operator token, or another one.
    Unauthorized { url: String, with_token: bool },
    /// It does not serve us, and says why.
    Forbidden { url: String, why: String },
    /// It says no, and why.
    Refused(String),
    /// What was found cannot be printed.
    Output(io::Error),
}

impl Failure {
    /// Tells the person, and returns the exit code.
    pub(super) fn told(self) -> u8 {
        match &self {
            // A reader that has left is no failure.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return DONE,
            _ => eprintln!("regrow: {self}"),
        }
        match self {
            Failure::Usage(_) => USAGE,
            Failure::Refused(_) => SERVER_FAILED,
            _ => WE_FAILED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Refused(why) => f.write_str(why),
            Failure::Unreachable { url, reason } => write!(
                f,
                "no gateway can be reached at {url}: {reason}; start it with `regrow serve`, or set its address with --url"
            ),
            Failure::NotAGateway { url } => {
                write!(f, "{url} is not a regrow gateway; set its address with --url")
            }
            Failure::Unauthorized { url, with_token: false } => {
                write!(
                    f,
                    "the gateway at {url} needs the operator token: run the command on the same machine as the same user, or set \
                     REGROW_ADMIN_TOKEN to the token that `regrow serve --admin-token-env` was given"
                )
            }
            Failure::Unauthorized { url, with_token: true } => {
                write!(
                    f,
                    "the gateway at {url} refused the operator token; is it the one that `regrow serve --admin-token-env` was \
                     given? A client token is not enough"
                )
            }
            Failure::Forbidden { url, why } => write!(f, "the gateway at {url} refused this: {why}"),
            Failure::Output(error) => write!(f, "cannot print: {error}"),
        }
    }
}
