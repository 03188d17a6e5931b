//! The levels of log messages.

const NAMES: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A log level; the lesser, the more verbose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggingLevel(usize);

impl LoggingLevel {
    /// The level of this name.
    pub fn parse(name: &str) -> Option<LoggingLevel> {
        NAMES.iter().position(|level| *level == name).map(LoggingLevel)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES[self.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_by_severity() {
        let levels = NAMES.map(|name| LoggingLevel::parse(name).unwrap());
        assert!(levels.is_sorted() && levels.map(LoggingLevel::name) == NAMES);
        assert_eq!(LoggingLevel::parse("loud"), None);
    }
}
