//! The plan language: what to do wrong, and in which lives.

use std::fmt;
use std::time::Duration;

/// Every plan item that exists, with the kind of value it takes. A name that is not here is refused, so that a typo
/// in a test fails the test instead of testing nothing.
const ITEMS: &[(&str, Kind)] = &[
    ("exit-at-start", Kind::Count(1)),
    ("slow-start", Kind::Time(15_000)),
    ("never-answer", Kind::Flag),
    ("hang-after", Kind::Count(1)),
    ("die-on-discover", Kind::Flag),
    ("refuse-discover", Kind::Flag),
    ("silent-discover", Kind::Flag),
    ("modern-only", Kind::Flag),
    ("lock-era", Kind::Flag),
    ("strict", Kind::Flag),
    ("crash-after-handshake", Kind::Flag),
    ("exit-after-calls", Kind::Count(1)),
    ("drop-after", Kind::Time(1_000)),
    ("ignore-eof", Kind::Flag),
    ("ignore-term", Kind::Flag),
    ("finish-on-eof", Kind::Flag),
    ("slow-exit", Kind::Time(1_000)),
    ("noisy-teardown", Kind::Flag),
    ("garbage-on-start", Kind::Flag),
    ("close-stdout-after", Kind::Count(1)),
    ("close-stdin-after", Kind::Count(1)),
    ("half-line-and-die", Kind::Count(1)),
    ("flood-stderr", Kind::Bytes(100_000_000)),
    ("helper", Kind::Text("hold")),
    ("helper-setsid", Kind::Text("hold")),
    ("no-ping", Kind::Flag),
    ("silent-ping", Kind::Flag),
    ("tools", Kind::Text("")),
    ("extra-tool", Kind::Text("extra")),
    ("drop-tool", Kind::Text("")),
    ("page", Kind::Count(10)),
    ("version", Kind::Text("2025-06-18")),
    ("lose-capability", Kind::Text("")),
    ("log-secret", Kind::Text("CHAOS_SECRET")),
    ("announce", Kind::Time(0)),
    ("invalid-ping", Kind::Flag),
    ("ask-on-get", Kind::Flag),
    ("stateless", Kind::Flag),
    ("no-get", Kind::Flag),
    ("no-delete", Kind::Flag),
    ("forget-after", Kind::Count(1)),
    ("forget", Kind::Count(1)),
    ("expiry", Kind::Text("404")),
    ("answer", Kind::Text("sse")),
    ("event-ids", Kind::Flag),
    ("prime", Kind::Flag),
    ("retry", Kind::Count(50)),
    ("need-token", Kind::Text("")),
    ("foreign-endpoint", Kind::Count(9)),
    ("close-idle", Kind::Time(0)),
    ("on", Kind::Text("")),
    ("skip", Kind::Count(1)),
    ("times", Kind::Count(1)),
    ("status", Kind::Count(503)),
    ("body", Kind::Text("text")),
    ("retry-after", Kind::Count(1)),
    ("retry-after-date", Kind::Count(1)),
    ("redirect", Kind::Text("same")),
    ("swallow", Kind::Flag),
    ("drop-request", Kind::Flag),
    ("drop-answer", Kind::Flag),
    ("cut", Kind::Count(0)),
    ("finish", Kind::Count(0)),
    ("cut-body", Kind::Bytes(10)),
    ("drip-head", Kind::Time(100)),
    ("drip-body", Kind::Time(100)),
    ("bomb", Kind::Bytes(1_000_000_000)),
    ("endless", Kind::Bytes(1_000_000_000)),
    ("answer-id", Kind::Count(987_654_321)),
];

/// What kind of value an item takes, with the value it has when none is written.
#[derive(Clone, Copy)]
enum Kind {
    Flag,
    Count(u64),
    Time(u64),
    Bytes(u64),
    Text(&'static str),
}

/// A list of plan items, each for some lives: `never-answer@1, drop-after=1s@2-4 extra-tool@2-`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    name: &'static str,
    value: Value,
    first_life: u32,
    last_life: u32,
    cancels: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Flag,
    Number(u64),
    Time(Duration),
    Text(String),
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
        let mut active: Vec<(&'static str, Value)> = vec![];
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
    active: Vec<(&'static str, Value)>,
}

impl Orders {
    /// Whether an item is in force.
    pub fn has(&self, name: &str) -> bool {
        self.last(name).is_some()
    }

    /// The count or size given to an item that is in force.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.last(name).and_then(|value| if let Value::Number(number) = value { Some(*number) } else { None })
    }

    /// The duration given to an item that is in force.
    pub fn time(&self, name: &str) -> Option<Duration> {
        self.last(name).and_then(|value| if let Value::Time(time) = value { Some(*time) } else { None })
    }

    /// The text given to an item that is in force.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).last()
    }

    /// The texts of all items with this name: `extra-tool=a extra-tool=b`.
    pub fn texts<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = ITEMS.iter().find(|(known, _)| *known == name).map(|(known, _)| *known);
        debug_assert!(name.is_some(), "no plan item has this name");
        self.active.iter().filter(move |(known, _)| Some(*known) == name).filter_map(|(_, value)| match value
        {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The same without these items.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        self.active.retain(|(name, _)| !names.contains(name));
        self
    }

    fn last(&self, name: &str) -> Option<&Value> {
        debug_assert!(ITEMS.iter().any(|(known, _)| *known == name), "no plan item is called {name}");
        self.active.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value)
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
        let (name, kind) =
            ITEMS.iter().find(|(known, _)| *known == name).ok_or_else(|| fail("no item has this name"))?;
        let value = kind.value(value).ok_or_else(|| fail("bad value after ="))?;
        Ok(Self { name, value, first_life: lives.0, last_life: lives.1, cancels })
    }
}

impl Kind {
    fn value(self, text: Option<&str>) -> Option<Value> {
        Some(match (self, text) {
            (Self::Flag, None) => Value::Flag,
            (Self::Flag, Some(_)) => return None,
            (Self::Count(default), None) | (Self::Bytes(default), None) => Value::Number(default),
            (Self::Count(_), Some(text)) => Value::Number(text.parse().ok()?),
            (Self::Bytes(_), Some(text)) => Value::Number(parse_bytes(text)?),
            (Self::Time(default), None) => Value::Time(Duration::from_millis(default)),
            (Self::Time(_), Some(text)) => Value::Time(parse_duration(text)?),
            (Self::Text(default), None) => Value::Text(default.to_owned()),
            (Self::Text(_), Some(text)) => Value::Text(text.to_owned()),
        })
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
    fn mistakes_are_refused() {
        for text in
            ["no-such-item", "no-ping=1", "hang-after=x", "no-ping@x", "exit-at-start:x", "drop-after=3h"]
        {
            assert!(Plan::parse(text).is_err(), "{text}");
        }
        assert_eq!(Plan::parse("pong").unwrap_err().to_string(), "plan item `pong`: no item has this name");
    }
}
