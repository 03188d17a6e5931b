//! The members of a message that we must understand, and where they stand.

use std::ops::{Index, IndexMut};

use super::span::Span;
use crate::meta;

/// An object whose members mean something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The message itself.
    Top,
    /// `params`.
    Params,
    /// `params._meta`.
    Meta,
}

/// A member whose place is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    JsonRpc,
    Id,
    Method,
    Params,
    Result,
    Error,

    Meta,
    /// Not used. Remembered so that a second one is refused.
    Arguments,
    Name,
    Uri,
    Cursor,
    Level,
    RequestId,
    ProgressToken,
    Task,
    RequestState,

    MetaProgressToken,
    ProtocolVersion,
    SubscriptionId,
    ClientCapabilities,
    /// As `Arguments`.
    ClientInfo,
}

/// Where each member stands; the empty span if it is absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places([Span; Member::ClientInfo as usize + 1]);

const PROGRESS_TOKEN: &[u8] = meta::PROGRESS_TOKEN.as_bytes();
const PROTOCOL_VERSION: &[u8] = meta::PROTOCOL_VERSION.as_bytes();
const SUBSCRIPTION_ID: &[u8] = meta::SUBSCRIPTION_ID.as_bytes();
const CLIENT_CAPABILITIES: &[u8] = meta::CLIENT_CAPABILITIES.as_bytes();
const CLIENT_INFO: &[u8] = meta::CLIENT_INFO.as_bytes();

impl Level {
    /// All names that mean something here. What resembles one of them is refused.
    pub(super) fn known(self) -> &'static [&'static str] {
        match self {
            Level::Top => &["jsonrpc", "id", "method", "params", "result", "error"],
            Level::Params => &[
                "_meta",
                "arguments",
                "cursor",
                "level",
                "name",
                "progressToken",
                "ref",
                "requestId",
                "task",
                "taskId",
                "uri",
            ],
            Level::Meta => &[
                meta::PROGRESS_TOKEN,
                meta::PROTOCOL_VERSION,
                meta::SUBSCRIPTION_ID,
                meta::CLIENT_INFO,
                meta::CLIENT_CAPABILITIES,
                meta::LOG_LEVEL,
                meta::SERVER_INFO,
            ],
        }
    }

    /// The member of this name, if its place is remembered.
    pub(super) fn member(self, name: &[u8]) -> Option<Member> {
        Some(match self {
            Level::Top => match name {
                b"jsonrpc" => Member::JsonRpc,
                b"id" => Member::Id,
                b"method" => Member::Method,
                b"params" => Member::Params,
                b"result" => Member::Result,
                b"error" => Member::Error,
                _ => return None,
            },
            Level::Params => match name {
                b"_meta" => Member::Meta,
                b"arguments" => Member::Arguments,
                b"name" => Member::Name,
                b"uri" => Member::Uri,
                b"cursor" => Member::Cursor,
                b"level" => Member::Level,
                b"requestId" => Member::RequestId,
                b"progressToken" => Member::ProgressToken,
                b"task" => Member::Task,
                b"requestState" => Member::RequestState,
                _ => return None,
            },
            Level::Meta => match name {
                PROGRESS_TOKEN => Member::MetaProgressToken,
                PROTOCOL_VERSION => Member::ProtocolVersion,
                SUBSCRIPTION_ID => Member::SubscriptionId,
                CLIENT_CAPABILITIES => Member::ClientCapabilities,
                CLIENT_INFO => Member::ClientInfo,
                _ => return None,
            },
        })
    }

    /// The member whose name this text starts with, and where its value may start. Only a name that most messages have, written as nearly everybody writes it:
    /// plainly, its colon right behind it.
    #[inline]
    pub(super) fn usual(self, text: &[u8]) -> Option<(Member, usize)> {
        match self {
            Level::Top => starts(text, br#""jsonrpc":"#, Member::JsonRpc)
                .or_else(|| starts(text, br#""id":"#, Member::Id))
                .or_else(|| starts(text, br#""method":"#, Member::Method))
                .or_else(|| starts(text, br#""params":"#, Member::Params))
                .or_else(|| starts(text, br#""result":"#, Member::Result)),
            Level::Params => starts(text, br#""name":"#, Member::Name)
                .or_else(|| starts(text, br#""arguments":"#, Member::Arguments))
                .or_else(|| starts(text, br#""_meta":"#, Member::Meta)),
            Level::Meta => starts(text, br#""progressToken":"#, Member::MetaProgressToken)
                .or_else(|| {
                    starts(text, br#""io.modelcontextprotocol/protocolVersion":"#, Member::ProtocolVersion)
                })
                .or_else(|| {
                    starts(
                        text,
                        br#""io.modelcontextprotocol/clientCapabilities":"#,
                        Member::ClientCapabilities,
                    )
                })
                .or_else(|| starts(text, br#""io.modelcontextprotocol/clientInfo":"#, Member::ClientInfo)),
        }
    }
}

/// By an array, whose length the compiler knows: so it compares a word or two, without a call.
#[inline]
fn starts<const N: usize>(text: &[u8], written: &[u8; N], member: Member) -> Option<(Member, usize)> {
    (text.first_chunk() == Some(written)).then_some((member, N))
}

impl Member {
    /// If it is an object: which one.
    pub(super) fn inner(self) -> Option<Level> {
        match self {
            Member::Params => Some(Level::Params),
            Member::Meta => Some(Level::Meta),
            _ => None,
        }
    }
}

impl Places {
    pub(super) fn all(&mut self) -> &mut [Span] {
        &mut self.0
    }
}

impl Index<Member> for Places {
    type Output = Span;

    fn index(&self, member: Member) -> &Span {
        &self.0[member as usize]
    }
}

impl IndexMut<Member> for Places {
    fn index_mut(&mut self, member: Member) -> &mut Span {
        &mut self.0[member as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_name_is_that_of_its_member() {
        let mut usual = 0;
        for level in [Level::Top, Level::Params, Level::Meta] {
            for name in level.known() {
                let text = format!("\"{name}\":1");
                if let Some((member, value)) = level.usual(text.as_bytes()) {
                    assert_eq!((Some(member), value), (level.member(name.as_bytes()), text.len() - 1));
                    usual += 1;
                }
                for other in [format!("\"{name}\" :1"), format!("\"{name}s\":1"), format!("\"{name}\"")] {
                    assert_eq!(level.usual(other.as_bytes()), None, "{other}");
                }
            }
        }
        assert_eq!(usual, 12);
    }
}
