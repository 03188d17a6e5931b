//! How many lines a flood gets: lines of one kind beyond a rate are counted, and one line says how many. Nothing here writes or looks at
//! the clock.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::record::{Event, Record};

/// How long lines are counted before the count gets a line.
const PERIOD: Duration = Duration::from_secs(1);
/// Refusals of one kind get at most this many lines in a period.
const REFUSALS: u32 = 10;
/// The same for changes of one server since it was approved: a server can change all its tools again and again.
const PINS: u32 = 100;
/// At most this many kinds are counted separately. The others are counted by their outcome alone, and have no line of their own.
const MAX_KINDS: usize = 256;

/// The lines of this period.
#[derive(Default)]
pub(super) struct Repeats {
    kinds: BTreeMap<Kind, Count>,
    /// When the period ends; none while no line is counted.
    ends: Option<Instant>,
}

/// Lines that differ in details only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    event: Event,
    outcome: &'static str,
    principal: Option<Cow<'static, str>>,
    server: Option<Cow<'static, str>>,
}

#[derive(Default)]
struct Count {
    /// Written in this period.
    lines: u32,
    /// Not written, and not yet told.
    repeats: u64,
}

impl Repeats {
    /// Whether this record gets a line now. Otherwise it is counted.
    pub(super) fn admit(&mut self, now: Instant, record: &Record) -> bool {
        let Some((kind, limit)) = Kind::of(record) else { return true };
        self.ends.get_or_insert(now + PERIOD);
        let is_full = self.kinds.len() >= MAX_KINDS;
        let (count, limit) = match self.kinds.get_mut(&kind) {
            Some(count) => (count, limit),
            None if is_full => {
                (self.kinds.entry(Kind { principal: None, server: None, ..kind }).or_default(), 0)
            }
            None => (self.kinds.entry(kind).or_default(), limit),
        };
        match count.lines < limit {
            true => count.lines += 1,
            false => count.repeats += 1,
        }
        count.repeats == 0
    }

    /// When [`Repeats::tell`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ends
    }

    /// The lines that say what was counted, if the period is over.
    pub(super) fn tell(&mut self, now: Instant) -> Vec<Record> {
        if self.ends.is_none_or(|ends| now < ends) { vec![] } else { self.tell_all(now) }
    }

    /// The lines that say what was counted so far. Another period begins, in which they are lines, too.
    pub(super) fn tell_all(&mut self, now: Instant) -> Vec<Record> {
        self.kinds.retain(|_, count| count.repeats > 0);
        self.ends = (!self.kinds.is_empty()).then(|| now + PERIOD);
        let told = |(kind, count): (&Kind, &mut Count)| {
            let repeats = std::mem::replace(count, Count { lines: 1, repeats: 0 }).repeats;
            let Kind { event, outcome, principal, server } = kind.clone();
            Record { principal, server, repeats: Some(repeats), ..Record::new(event, outcome) }
        };
        self.kinds.iter_mut().map(told).collect()
    }
}

impl Kind {
    /// The kind of a record, and how many lines it gets in a period; none for what always gets its line.
    fn of(record: &Record) -> Option<(Kind, u32)> {
        let Record { event, outcome, principal, server, .. } = record;
        let (limit, principal, server) = match event {
            Event::Refusal => (REFUSALS, principal.clone(), None),
            Event::Pin => (PINS, None, server.clone()),
            Event::Call | Event::Command | Event::Config | Event::SignIn => return None,
        };
        let kind = Kind { event: *event, outcome, principal, server };
        Some((kind, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(principal: &str, outcome: &'static str) -> Record {
        Record { principal: Some(principal.to_owned().into()), ..Record::new(Event::Refusal, outcome) }
    }

    /// How many of these records get a line.
    fn lines(repeats: &mut Repeats, now: Instant, record: &Record, count: usize) -> usize {
        (0..count).filter(|_| repeats.admit(now, record)).count()
    }

    fn told(records: &[Record]) -> Vec<(Option<&str>, &str, u64)> {
        let told = |record: &Record| (record.outcome, record.repeats.unwrap());
        records.iter().map(|record| (record.principal.as_deref(), told(record).0, told(record).1)).collect()
    }

    #[test]
    fn a_flood_has_ten_lines_a_second_and_what_is_beyond_them_is_counted() {
        let (start, mut repeats) = (Instant::now(), Repeats::default());
        let (flood, end) = (refusal("none", "wrong-token"), start + PERIOD);
        assert_eq!(repeats.due(), None);
        assert_eq!(lines(&mut repeats, start, &flood, 10), 10);
        assert_eq!(lines(&mut repeats, start + PERIOD / 2, &flood, 290), 0);
        assert_eq!(repeats.due(), Some(end));
        assert_eq!(told(&repeats.tell(end - Duration::from_nanos(1))), []);
        assert_eq!(told(&repeats.tell(end)), [(Some("none"), "wrong-token", 290)]);

        // The line that tells it is one of the next ten.
        assert_eq!(lines(&mut repeats, end, &flood, 10), 9);
        assert_eq!(told(&repeats.tell(end + PERIOD)), [(Some("none"), "wrong-token", 1)]);
        assert_eq!(told(&repeats.tell(end + 2 * PERIOD)), []);
        assert_eq!(repeats.due(), None, "it is over");
        assert_eq!(lines(&mut repeats, end + 9 * PERIOD, &flood, 10), 10);
    }

    #[test]
    fn who_floods_takes_no_line_from_others_or_from_what_else_happens() {
        let (now, mut repeats) = (Instant::now(), Repeats::default());
        lines(&mut repeats, now, &refusal("none", "wrong-token"), 100);
        assert_eq!(lines(&mut repeats, now, &refusal("none", "no-token"), 10), 10);
        assert_eq!(lines(&mut repeats, now, &refusal("client-1", "wrong-token"), 10), 10);
        for event in [Event::Call, Event::Command, Event::Config] {
            let record = Record { principal: Some("none".into()), ..Record::new(event, "wrong-token") };
            assert_eq!(lines(&mut repeats, now, &record, 1000), 1000);
        }
        assert_eq!(told(&repeats.tell_all(now)), [(Some("none"), "wrong-token", 90)]);
    }

    #[test]
    fn a_server_that_changes_all_the_time_floods_nothing_and_counts_for_itself() {
        let (now, mut repeats) = (Instant::now(), Repeats::default());
        assert_eq!(lines(&mut repeats, now, &Record::pin("one", "changed"), 1000), 100);
        assert_eq!(lines(&mut repeats, now, &Record::pin("two", "changed"), 1), 1);
        let told = repeats.tell(now + PERIOD);
        let [one] = &told[..] else { panic!("{told:?}") };
        assert_eq!((one.event, one.server.as_deref(), one.repeats), (Event::Pin, Some("one"), Some(900)));
    }

    #[test]
    fn what_is_told_late_is_told_once_and_whole() {
        let (start, mut repeats) = (Instant::now(), Repeats::default());
        let mut told = 0;
        for step in 0..5000u32 {
            let (now, record) = (start + PERIOD * step / 40, refusal("client-1", "not-found"));
            told += u64::from(repeats.admit(now, &record));
            if step % 97 == 0 {
                told += repeats.tell(now).iter().filter_map(|record| record.repeats).sum::<u64>();
            }
        }
        told += repeats.tell_all(start).iter().filter_map(|record| record.repeats).sum::<u64>();
        assert_eq!(told, 5000);
        assert!(repeats.tell_all(start).is_empty());
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let (now, mut repeats) = (Instant::now(), Repeats::default());
        let users = (0..5000).map(|user| refusal(&format!("user-{user}"), "other-user"));
        let lines = users.filter(|record| repeats.admit(now, record)).count();
        assert_eq!((lines, repeats.kinds.len()), (MAX_KINDS, MAX_KINDS + 1));
        assert_eq!(told(&repeats.tell(now + PERIOD)), [(None, "other-user", 5000 - MAX_KINDS as u64)]);
    }
}
