//! The plan language: what to do wrong, and in which lives.

use std::fmt;
use std::time::Duration;

use self::Kind::{Bytes, Count, Flag, Text, Time};

/// Every plan item that exists, with the kind of value it takes, and the value it has when none is written. A name that is
/// not here is refused, so that a typo in a test fails the test instead of testing nothing.
const ITEMS: &[(&str, Kind, &str)] = &[
    ("exit-at-start", Count, "1"),
    ("slow-start", Time, "15s"),
    ("never-answer", Flag, ""),
    ("hang-after", Count, "1"),
    ("die-on-discover", Flag, ""),
    ("refuse-discover", Flag, ""),
    ("silent-discover", Flag, ""),
    ("modern-only", Flag, ""),
    ("lock-era", Flag, ""),
    ("strict", Flag, ""),
    ("ignore-case", Flag, ""),
    ("odd-tools", Flag, ""),
    ("catch-all", Flag, ""),
    ("crash-after-handshake", Flag, ""),
    ("exit-after-calls", Count, "1"),
    ("drop-after", Time, "1s"),
    ("ignore-eof", Flag, ""),
    ("ignore-term", Flag, ""),
    ("finish-on-eof", Flag, ""),
    ("slow-exit", Time, "1s"),
    ("noisy-teardown", Flag, ""),
    ("garbage-on-start", Flag, ""),
    ("close-stdout-after", Count, "1"),
    ("close-stdin-after", Count, "1"),
    ("half-line-and-die", Count, "1"),
    ("flood-stderr", Bytes, "100MB"),
    ("helper", Text, "hold"),
    ("helper-setsid", Text, "hold"),
    ("no-ping", Flag, ""),
    ("silent-ping", Flag, ""),
    ("tools", Text, ""),
    ("extra-tool", Text, "extra"),
    ("drop-tool", Text, ""),
    ("change-tool", Text, ""),
    ("page", Count, "10"),
    ("version", Text, "2025-06-18"),
    ("lose-capability", Text, ""),
    ("log-secret", Text, "CHAOS_SECRET"),
    ("announce", Time, "0s"),
    ("invalid-ping", Flag, ""),
    ("ask-on-get", Flag, ""),
    ("stateless", Flag, ""),
    ("no-get", Flag, ""),
    ("no-delete", Flag, ""),
    ("forget-after", Count, "1"),
    ("forget", Count, "1"),
    ("expiry", Text, "404"),
    ("answer", Text, "sse"),
    ("event-ids", Flag, ""),
    ("prime", Flag, ""),
    ("retry", Count, "50"),
    ("need-token", Text, ""),
    ("also-token", Text, ""),
    ("call-token", Text, ""),
    ("issuer", Text, "9"),
    ("foreign-endpoint", Count, "9"),
    ("close-idle", Time, "0s"),
    ("from", Text, ""),
    ("on", Text, ""),
    ("skip", Count, "1"),
    ("times", Count, "1"),
    ("status", Count, "503"),
    ("body", Text, "text"),
    ("retry-after", Count, "1"),
    ("retry-after-date", Count, "1"),
    ("redirect", Text, "same"),
    ("swallow", Flag, ""),
    ("drop-request", Flag, ""),
    ("drop-answer", Flag, ""),
    ("cut", Count, "0"),
    ("finish", Count, "0"),
    ("cut-body", Bytes, "10"),
    ("drip-head", Time, "100ms"),
    ("drip-body", Time, "100ms"),
    ("bomb", Bytes, "1GB"),
    ("endless", Bytes, "1GB"),
    ("answer-id", Count, "987654321"),
];

/// What kind of value an item takes.
#[derive(Clone, Copy)]
enum Kind {
    Flag,
    Count,
    Time,
    Bytes,
    Text,
}

/// A list of plan items, each for some lives: `never-answer@1, drop-after=1s@2-4 extra-tool@2-`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    name: &'static str,
    value: String,
    first_life: u32,
    last_life: u32,
    cancels: bool,
}

/// Why a plan could not be read: the item, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    item: String,
    problem: &'static str,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan item `{}`: {}", self.item, self.problem)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Reads items separated by commas or white space.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        Ok(Self { items: words.map(Item::parse).collect::<Result<_, _>>()? })
    }

    /// The items of `self`, then those of `later`, which win where both speak.
    pub fn then(mut self, later: Self) -> Self {
        self.items.extend(later.items);
        self
    }

    /// What is to be done in one life.
    pub fn for_life(&self, life: u32) -> Orders {
        let mut active = vec![];
        for item in self.items.iter().filter(|item| (item.first_life..=item.last_life).contains(&life)) {
            if item.cancels {
                active.retain(|(name, _)| *name != item.name);
            } else {
                active.push((item.name, item.value.clone()));
            }
        }
        Orders { active }
    }
}

/// The plan as it stands for one life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    active: Vec<(&'static str, String)>,
}

impl Orders {
    /// Whether an item is in force.
    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The count or size given to an item that is in force.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(parse_bytes)
    }

    /// The duration given to an item that is in force.
    pub fn time(&self, name: &str) -> Option<Duration> {
        self.text(name).and_then(parse_duration)
    }

    /// The text given to an item that is in force.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).last()
    }

    /// The texts of all items with this name: `extra-tool=a extra-tool=b`.
    pub fn texts<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = ITEMS.iter().find(|(known, ..)| *known == name).map(|(known, ..)| *known);
        debug_assert!(name.is_some(), "no plan item has this name");
        self.active.iter().filter(move |(known, _)| Some(*known) == name).map(|(_, value)| value.as_str())
    }

    /// The same without what waits for a request that has not come: all that follows `from=METHOD`.
    pub(crate) fn until(mut self, has_come: impl Fn(&str) -> bool) -> Self {
        let waits = |(name, value): &(&str, String)| *name == "from" && !has_come(value);
        let end = self.active.iter().position(waits).unwrap_or(self.active.len());
        self.active.truncate(end);
        self
    }

    /// The same without these items.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        self.active.retain(|(name, _)| !names.contains(name));
        self
    }
}

impl Item {
    fn parse(word: &str) -> Result<Self, PlanError> {
        let fail = |problem| PlanError { item: word.to_owned(), problem };
        let (cancels, rest) = match word.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let (rest, mut lives) = match rest.rsplit_once('@') {
            Some((rest, range)) => (rest, parse_lives(range).ok_or_else(|| fail("bad lives after @"))?),
            None => (rest, (1, u32::MAX)),
        };
        let rest = match rest.rsplit_once(':') {
            Some((rest, first)) => {
                lives = (1, first.parse().map_err(|_| fail("bad number of lives after :"))?);
                rest
            }
            None => rest,
        };
        let (name, value) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        let (name, kind, default) =
            ITEMS.iter().find(|(known, ..)| *known == name).ok_or_else(|| fail("no item has this name"))?;
        if value.is_some_and(|value| !kind.takes(value)) {
            return Err(fail("bad value after ="));
        }
        let value = value.unwrap_or(default).to_owned();
        Ok(Self { name, value, first_life: lives.0, last_life: lives.1, cancels })
    }
}

impl Kind {
    fn takes(self, text: &str) -> bool {
        match self {
            Flag => false,
            Count => text.parse::<u64>().is_ok(),
            Bytes => parse_bytes(text).is_some(),
            Time => parse_duration(text).is_some(),
            Text => true,
        }
    }
}

/// `3`, `2-4`, `2-`, `-4`.
fn parse_lives(text: &str) -> Option<(u32, u32)> {
    let Some((first, last)) = text.split_once('-') else {
        let life = text.parse().ok()?;
        return Some((life, life));
    };
    let first = if first.is_empty() { 1 } else { first.parse().ok()? };
    let last = if last.is_empty() { u32::MAX } else { last.parse().ok()? };
    Some((first, last))
}

/// `250ms`, `15s`, `2m`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (digits, unit) = split_unit(text);
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "ms" => Duration::from_millis(number),
        "s" | "" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    })
}

/// `4096`, `64KB`, `100MB`, `1GB` (decimal), `64KiB`, `64MiB`, `1GiB` (binary).
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let factor = match unit {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(text: &str, life: u32) -> Orders {
        Plan::parse(text).unwrap().for_life(life)
    }

    #[test]
    fn an_item_without_lives_is_always_in_force() {
        assert!(orders("no-ping", 1).has("no-ping"));
        assert!(orders("no-ping", 99).has("no-ping"));
        assert!(!orders("no-ping", 1).has("silent-ping"));
    }

    #[test]
    fn lives_limit_an_item() {
        let in_force =
            |text| (1..=5).filter(|life| orders(text, *life).has("never-answer")).collect::<Vec<_>>();
        assert_eq!(in_force("never-answer@2"), [2]);
        assert_eq!(in_force("never-answer@2-4"), [2, 3, 4]);
        assert_eq!(in_force("never-answer@4-"), [4, 5]);
        assert_eq!(in_force("never-answer@-2"), [1, 2]);
        assert_eq!(in_force("never-answer:3"), [1, 2, 3]);
    }

    #[test]
    fn values_have_units_and_defaults() {
        assert_eq!(orders("slow-start=250ms", 1).time("slow-start"), Some(Duration::from_millis(250)));
        assert_eq!(orders("drop-after", 1).time("drop-after"), Some(Duration::from_secs(1)));
        assert_eq!(orders("flood-stderr=2MB", 1).number("flood-stderr"), Some(2_000_000));
        assert_eq!(orders("hang-after=3", 1).number("hang-after"), Some(3));
        assert_eq!(orders("version=2025-06-18@2-", 2).text("version"), Some("2025-06-18"));
    }

    #[test]
    fn the_last_item_wins_and_an_exclamation_mark_cancels() {
        assert_eq!(orders("hang-after=3, hang-after=5", 1).number("hang-after"), Some(5));
        assert!(!orders("no-ping silent-ping !no-ping", 1).has("no-ping"));
        assert_eq!(
            orders("extra-tool=a extra-tool=b", 1).texts("extra-tool").collect::<Vec<_>>(),
            ["a", "b"]
        );
    }

    #[test]
    fn what_waits_for_a_request_is_in_force_once_it_has_come() {
        let texts = |come: &str| {
            let orders = orders("version=a from=x version=b from=y version=c", 1);
            orders.until(|method| come.contains(method)).text("version").map(str::to_owned)
        };
        assert_eq!(["", "y", "x", "xy"].map(|come| texts(come).unwrap()), ["a", "a", "b", "c"]);
    }

    #[test]
    fn mistakes_are_refused() {
        for text in
            ["no-such-item", "no-ping=1", "hang-after=x", "no-ping@x", "exit-at-start:x", "drop-after=3h"]
        {
            assert!(Plan::parse(text).is_err(), "{text}");
        }
        assert_eq!(Plan::parse("pong").unwrap_err().to_string(), "plan item `pong`: no item has this name");
    }
}
