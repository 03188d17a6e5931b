//! What was measured, and whether every promise was kept.

use std::time::Duration;

use serde_json::{Value, json};

/// The numbers of one demo. None is a constant: each is counted or timed.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    /// How often the server was killed, by us or during its own call.
    pub(super) kills: usize,
    /// How often it hung.
    pub(super) hangs: usize,
    /// How often it was restarted as planned.
    pub(super) restarts: usize,
    /// How often it ended cleanly on its own.
    pub(super) retirements: usize,
    /// How many calls were made.
    pub(super) calls: usize,
    /// How many of them the server answered.
    pub(super) answered: usize,
    /// How many ended with word from regrow about what happened.
    pub(super) told: usize,
    /// How many calls wrote something.
    pub(super) writes: usize,
    /// How many of those ran more than once.
    pub(super) ran_twice: usize,
    /// The processes left at the end; none where that cannot be told.
    pub(super) orphans: Option<usize>,
    /// From each kill to its line in the log.
    pub(super) noticed: Vec<Duration>,
    /// From each kill to the next answer of the server.
    pub(super) recovered: Vec<Duration>,
    /// From the beginning to the end.
    pub(super) took: Duration,
    /// The halves without Regrow.
    pub(super) without: Without,
    /// Promises of single acts that were not kept.
    pub(super) broken_promises: Vec<String>,
}

/// What became of the calls without Regrow.
#[derive(Clone, Debug, Default)]
pub(super) struct Without {
    pub(super) calls: usize,
    pub(super) lost: usize,
}

impl Without {
    pub(super) fn add(&mut self, half: &Summary) {
        self.calls += half.calls;
        self.lost += half.lost();
    }
}

impl Summary {
    /// Calls that nobody ended.
    pub(super) fn lost(&self) -> usize {
        self.calls - self.answered - self.told
    }

    /// The promises that were not kept.
    pub(super) fn broken(&self) -> Vec<String> {
        let mut broken = self.broken_promises.clone();
        let mut check = |count: usize, promise: &str| {
            if count > 0 {
                broken.push(format!("{promise}: {count}"));
            }
        };
        check(self.lost(), "no call is lost");
        check(self.ran_twice, "no call that writes runs twice");
        check(self.orphans.unwrap_or(0), "no process is left");
        broken
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let row = |name: &str, value: String, more: String| format!("  {name:<10}{value:>8}   {more}\n");
        let times = |name, times: &[Duration], what: &str| match (median(times), times.iter().max()) {
            (Some(median), Some(worst)) => {
                row(name, length(median), format!("median, {} worst: {what}", length(*worst)))
            }
            _ => row(name, "-".into(), what.into()),
        };
        let deaths = self.kills + self.hangs + self.restarts + self.retirements;
        let ways = format!(
            "{} killed, {} hung, {} restarted, {} exited cleanly",
            self.kills, self.hangs, self.restarts, self.retirements
        );
        let orphans = match self.orphans {
            Some(count) => row("orphans", count.to_string(), "processes left behind".into()),
            None => row("orphans", "-".into(), "not looked for on this system".into()),
        };
        [
            row("deaths", deaths.to_string(), ways),
            row(
                "calls",
                self.calls.to_string(),
                format!("{} got a response, {} an error that says what happened", self.answered, self.told),
            ),
            row(
                "lost",
                self.lost().to_string(),
                format!(
                    "calls without response or error; without regrow: {} of {}",
                    self.without.lost, self.without.calls
                ),
            ),
            row(
                "ran twice",
                self.ran_twice.to_string(),
                format!("of {} calls that write, by the server's journal", self.writes),
            ),
            orphans,
            times("noticed", &self.noticed, "from a kill to its line in the log"),
            times("recovered", &self.recovered, "from a kill to the next response"),
        ]
        .concat()
    }

    /// For machines.
    pub(super) fn json(&self) -> Value {
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let times = |times: &[Duration]| {
            json!({
                "median": median(times).map(millis),
                "worst": times.iter().max().copied().map(millis),
                "all": times.iter().copied().map(millis).collect::<Vec<_>>(),
            })
        };
        json!({
            "deaths": {
                "killed": self.kills,
                "hung": self.hangs,
                "planned": self.restarts,
                "retired": self.retirements,
            },
            "calls": self.calls,
            "answered": self.answered,
            "told": self.told,
            "lost": self.lost(),
            "writes": self.writes,
            "ran_twice": self.ran_twice,
            "orphans": self.orphans,
            "noticed_ms": times(&self.noticed),
            "recovered_ms": times(&self.recovered),
            "took_ms": millis(self.took),
            "without_regrow": { "calls": self.without.calls, "lost": self.without.lost },
            "broken": self.broken(),
        })
    }
}

/// A length of time with as many digits as matter.
pub(super) fn length(time: Duration) -> String {
    match time.as_secs_f64() * 1000.0 {
        millis if millis < 9.95 => format!("{millis:.1} ms"),
        millis if millis < 999.5 => format!("{millis:.0} ms"),
        millis => format!("{:.2} s", millis / 1000.0),
    }
}

/// The one in the middle; of two in the middle the later.
fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_is_named() {
        let summary = Summary { calls: 5, answered: 2, told: 1, ran_twice: 1, ..Summary::default() };
        assert_eq!(summary.broken(), ["no call is lost: 2", "no call that writes runs twice: 1"]);
        assert_eq!(summary.json()["lost"], 2);
    }

    #[test]
    fn processes_that_could_not_be_looked_for_break_nothing() {
        let summary = Summary { orphans: None, ..Summary::default() };
        assert!(summary.broken().is_empty());
        assert!(summary.text().contains("not looked for"));
    }

    #[test]
    fn the_median_of_an_even_number_is_never_flattering() {
        let times = [4, 1, 3, 2].map(Duration::from_millis);
        assert_eq!(median(&times), Some(Duration::from_millis(3)));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn lengths_have_the_digits_that_matter() {
        let lengths = [0.000_64, 0.0123, 0.9996, 7.104].map(|time| length(Duration::from_secs_f64(time)));
        assert_eq!(lengths, ["0.6 ms", "12 ms", "1.00 s", "7.10 s"]);
    }
}
