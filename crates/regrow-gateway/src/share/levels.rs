//! Which log level a shared session has: the most verbose that any client of it wants. Pure.

use std::collections::BTreeMap;

use regrow_protocol::logging_level::LoggingLevel;

use super::member::Waiter;
use super::setting::{NextStep, SharedSetting};

/// What each share wants, and what the server knows of it.
#[derive(Debug, Default)]
pub(super) struct Levels {
    wanted: BTreeMap<u64, LoggingLevel>,
    setting: SharedSetting<LoggingLevel, Waiter>,
}

impl Levels {
    /// A share wants this level.
    pub(super) fn want(&mut self, level: LoggingLevel, who: Waiter) -> NextStep<LoggingLevel, Waiter> {
        self.wanted.insert(who.share, level);
        self.setting.want(self.most_verbose(), Some(who))
    }

    /// Whether a message of this level is for a share: it has asked for such. A level of the server's own invention is.
    pub(super) fn includes(&self, share: u64, level: Option<LoggingLevel>) -> bool {
        self.wanted.get(&share).is_some_and(|wanted| level.is_none_or(|level| level >= *wanted))
    }

    /// A share leaves. When none is left that wants a level, the server keeps the last: no request takes it back.
    pub(super) fn leave(&mut self, share: u64) -> NextStep<LoggingLevel, Waiter> {
        self.wanted.remove(&share);
        self.setting.want(self.most_verbose(), None)
    }

    /// The server has answered. Returns who has waited for it.
    pub(super) fn answered(&mut self, confirmed: bool) -> Vec<Waiter> {
        let waited = self.setting.answered(confirmed).map(|(_, waited)| waited).unwrap_or_default();
        if !confirmed {
            // They are told that it failed, so it is as if they had not asked.
            self.wanted.retain(|share, _| !waited.iter().any(|who| who.share == *share));
        }
        waited
    }

    /// What is to be done after an answer.
    pub(super) fn next(&mut self) -> NextStep<LoggingLevel, Waiter> {
        self.setting.next(self.most_verbose())
    }

    fn most_verbose(&self) -> Option<LoggingLevel> {
        self.wanted.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str) -> LoggingLevel {
        LoggingLevel::parse(name).unwrap()
    }

    fn who(share: u64) -> Waiter {
        Waiter { share, number: share * 100 }
    }

    #[test]
    fn the_most_verbose_counts_and_only_a_change_of_it_is_told() {
        let mut levels = Levels::default();
        assert_eq!(levels.want(level("warning"), who(1)).ask, Some(level("warning")));
        assert_eq!(levels.answered(true), [who(1)]);
        assert_eq!(levels.want(level("error"), who(2)), NextStep { ask: None, settled: vec![who(2)] });
        assert_eq!(levels.want(level("debug"), who(3)).ask, Some(level("debug")));
        assert_eq!(levels.answered(true), [who(3)]);
        assert_eq!(levels.leave(2).ask, None);
        assert_eq!(levels.leave(3).ask, Some(level("warning")));
        assert!(levels.answered(true).is_empty());
        assert_eq!(levels.leave(1).ask, None);
        assert_eq!(levels.leave(9).ask, None, "it never wanted any");
    }

    #[test]
    fn each_share_hears_what_it_asked_for_and_who_asked_for_nothing_hears_nothing() {
        let mut levels = Levels::default();
        levels.want(level("debug"), who(1));
        levels.want(level("error"), who(2));
        for (name, heard) in [("debug", [true, false]), ("error", [true, true]), ("alert", [true, true])] {
            assert_eq!(
                [1, 2].map(|share| levels.includes(share, LoggingLevel::parse(name))),
                heard,
                "{name}"
            );
            assert!(!levels.includes(3, LoggingLevel::parse(name)), "{name}");
        }
        assert_eq!([1, 2, 3].map(|share| levels.includes(share, None)), [true, true, false]);
    }

    #[test]
    fn a_level_that_the_server_refused_is_not_wanted_any_more() {
        let mut levels = Levels::default();
        levels.want(level("debug"), who(1));
        assert_eq!(levels.answered(false), [who(1)]);
        assert_eq!(levels.next().ask, None);
        assert_eq!(LoggingLevel::parse("verbose"), None);
    }
}
