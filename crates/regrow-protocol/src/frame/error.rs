//! Why bytes are not a message.

use super::RawId;
use super::scan::NotJson;
use crate::error_code;

/// Why bytes are not a message. It quotes nothing of them: they may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The sender's fault: these bytes are not JSON, or not UTF-8.
    #[error("not JSON, from byte {} on", at + 1)]
    NotJson {
        /// How many bytes stand before the first that cannot be right.
        at: usize,
    },
    /// The sender's fault: JSON, but no message of JSON-RPC.
    #[error("not a JSON-RPC message: {why}")]
    NotRpc {
        /// Whom to tell, if that is clear.
        id: Option<RawId>,
        /// What is wrong with it.
        why: Invalid,
    },
}

/// What is wrong with a message that is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Invalid {
    /// A number, a string, or another value that is neither an object nor an array.
    #[error("it is neither an object nor a batch")]
    NotAnObject,
    /// Which of the two counts depends on the reader, so nobody should be asked.
    #[error("it has the same member twice, in the envelope, `params` or `_meta`")]
    Repeated,
    /// Readers that ignore case, or characters that cannot be seen, would take it for that member.
    #[error(
        "it has a member that looks like another one, in the envelope, `params` or `_meta`: check case and invisible characters"
    )]
    Lookalike,
    /// An id that is an object, an array or a boolean.
    #[error("its id is neither a string nor a number")]
    BadId,
    /// A method that is not a string of Unicode text.
    #[error("its method is not a string")]
    BadMethod,
    /// No method, result or error.
    #[error("it has no method, result or error")]
    Shapeless,
    /// More than one of method, result and error.
    #[error("it is more than one of request, result and error")]
    Ambiguous,
    /// A result that says not what it answers.
    #[error("it is a result without an id")]
    NoId,
    /// A batch of nothing.
    #[error("it is an empty batch")]
    EmptyBatch,
    /// A batch of more than [`MAX_BATCH`](super::MAX_BATCH) messages.
    #[error("it is a batch of too many messages")]
    LongBatch,
    /// A batch inside a batch.
    #[error("it is a batch inside a batch")]
    NestedBatch,
    /// 4 GiB or more, whatever the cap on lines.
    #[error("it is too large")]
    TooLarge,
}

impl ParseError {
    /// The code that JSON-RPC has for it.
    pub fn code(&self) -> i64 {
        match self {
            ParseError::NotJson { .. } => error_code::PARSE_ERROR,
            ParseError::NotRpc { .. } => error_code::INVALID_REQUEST,
        }
    }

    /// Whom to tell, if that is clear.
    pub fn id(&self) -> Option<&RawId> {
        match self {
            ParseError::NotJson { .. } => None,
            ParseError::NotRpc { id, .. } => id.as_ref(),
        }
    }
}

impl From<NotJson> for ParseError {
    fn from(NotJson(at): NotJson) -> ParseError {
        ParseError::NotJson { at }
    }
}
