//! Promises that many scenarios ask for.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Answer, Stage, Task, Ticket, short};
use crate::suite::process::what_is;
use crate::suite::verdict::{Group, Verdict};

/// A death is noticed in this time, with no call made.
const NOTICE: Duration = Duration::from_secs(3);
/// A call of the suite's own that asks only whether it works again.
const TRY: Duration = Duration::from_secs(3);
/// Between two of those.
const PAUSE: Duration = Duration::from_millis(200);
/// A call that finds out what is wrong with a server that a proxy has greeted for us.
const CALL: Duration = Duration::from_secs(20);

/// From the end of our part to the end of the program, and of all that it started.
pub(super) const LEAVE: Duration = Duration::from_secs(10);
/// What the program left has so long to go on its own.
const REST: Duration = Duration::from_secs(3);
/// Words of which an error that tells of a lost server has one.
pub(in crate::suite) const LOST: &[&str] = &[
    "kill",
    "signal",
    "exit",
    "died",
    "dead",
    "death",
    "clos",
    "terminat",
    "disconnect",
    "lost",
    "broken",
    "broke",
    "reset",
    "eof",
    "end of",
    "crash",
    "gone",
    "refused",
    "reach",
    "cut",
    "restart",
    "shut",
    "unavailable",
    "process failed",
    "ended",
];
/// Words of which an error that tells of a missed deadline has one.
pub(in crate::suite) const LATE: &[&str] =
    &["time", "deadline", "too long", "no answer", "not answer", "respon", "did not"];
/// Words of which an error has one that says that the call may have had its effect.
const MAY_HAVE_RUN: &[&str] = &[
    "may have run",
    "might have run",
    "may have been",
    "might have been",
    "could have been",
    "may already",
    "might already",
    "not known whether",
    "unknown whether",
    "may or may not",
    "check before",
];

impl Stage<'_> {
    /// Answers: the task ends in time. What it ended with, if it did.
    pub(in crate::suite) fn ends(
        &mut self,
        ticket: Ticket,
        limit: Duration,
        promise: &'static str,
    ) -> Option<Answer> {
        let (verdict, answer) = match self.outcome(ticket, limit) {
            Ok(answer) => (Verdict::Pass, Some(answer)),
            Err(seen) => (Verdict::Fail(seen), None),
        };
        self.find(Group::Answers, promise, verdict);
        answer
    }

    /// The task succeeds in time.
    pub(in crate::suite) fn succeeds(
        &mut self,
        group: Group,
        ticket: Ticket,
        limit: Duration,
        promise: &'static str,
    ) {
        let verdict = match self.outcome(ticket, limit) {
            Ok(answer) => Verdict::of(answer.ok, || format!("it failed: {}", short(&answer.text))),
            Err(seen) => Verdict::Fail(seen),
        };
        self.find(group, promise, verdict);
    }

    /// Tells the truth: the error has one of these words.
    pub(in crate::suite) fn tells(&mut self, answer: Option<&Answer>, promise: &'static str, words: &[&str]) {
        let verdict = truth(answer, words);
        self.find(Group::TellsTheTruth, promise, verdict);
    }

    /// Tells the truth, of a server that cannot be reached. A proxy may greet for it; then a call has to tell.
    pub(in crate::suite) fn tells_of_refusal(
        &mut self,
        answer: Option<Answer>,
        promise: &'static str,
        words: &[&str],
    ) {
        let greeted = answer.as_ref().is_some_and(|answer| answer.ok);
        if greeted && !self.is_proxy() {
            let verdict = Verdict::Fail("it said that it is connected".into());
            return self.find(Group::TellsTheTruth, promise, verdict);
        }
        let told = match greeted {
            true => {
                let ticket = self.call("count", json!({ "key": "refused" }), CALL);
                self.answer(ticket, CALL)
            }
            false => answer,
        };
        self.tells(told.as_ref(), promise, words);
    }

    /// Tells the truth, of a call that was running when its server was lost.
    pub(in crate::suite) fn tells_of_loss(&mut self, answer: Option<&Answer>) {
        self.tells(answer, "the error says what became of the server", LOST);
        self.tells(answer, "the error says that the call may have run", MAY_HAVE_RUN);
    }

    /// Never twice: a call had its effect at most once.
    pub(in crate::suite) fn ran_once(&mut self, tool: &'static str, key: &str) {
        let runs = self.journal.runs_with(tool, key);
        let verdict = Verdict::of(runs <= 1, || format!("it ran {runs} times"));
        self.find(Group::NeverTwice, "a call that was made once ran at most once", verdict);
    }

    /// Notices: the program knows on its own that its server is gone.
    pub(in crate::suite) fn notices(&mut self) {
        let mut last = String::new();
        let noticed = self.wait(NOTICE, |stage| {
            let ticket = stage.begin(Task::Status);
            last = stage.answer(ticket, Duration::from_secs(1)).map(|answer| answer.text).unwrap_or_default();
            !matches!(&*last, "ready" | "unknown" | "")
                || stage.new_lives() > 0
                || stage.driver.process.program.exit().is_some()
        });
        let verdict = match (noticed, &*last) {
            (true, _) => Verdict::Pass,
            (false, "unknown") => {
                Verdict::NotApplicable("it shows no status, and did nothing on its own".into())
            }
            (false, "") => Verdict::Fail("it gave no status".into()),
            (false, _) => Verdict::Fail(format!(
                "its status was still `ready` after {} s",
                self.scaled(NOTICE).as_secs()
            )),
        };
        self.find(Group::Notices, "a death is noticed while no call is made", verdict);
    }

    /// Recovers: a call succeeds again, without help. And each call that was made for that ran at most once.
    pub(in crate::suite) fn recovers(&mut self, limit: Duration) -> bool {
        let limit = self.scaled(limit);
        let deadline = Instant::now() + limit;
        let mut last = "no call was made".to_owned();
        let mut keys = vec![];
        let mut recovered = false;
        while !recovered && Instant::now() < deadline && !self.setup.is_stopped() {
            self.tries += 1;
            let key = format!("try-{}", self.tries);
            let ticket = self.call("count", json!({ "key": key }), self.scaled(TRY));
            keys.push(key);
            // A program that has no deadlines of its own is given a little more.
            match self.outcome(ticket, TRY * 2) {
                Ok(answer) if answer.ok => recovered = true,
                Ok(answer) => last = short(&answer.text),
                Err(seen) => last = seen,
            }
            if self.driver.process.program.exit().is_some() {
                break;
            }
            if !recovered {
                thread::sleep(PAUSE);
            }
        }
        let verdict = Verdict::of(recovered, || {
            format!("no call succeeded within {} s; the last: {last}", limit.as_secs())
        });
        self.find(Group::Recovers, "calls succeed again, without help", verdict);
        let most = keys.iter().map(|key| self.journal.runs_with("count", key)).max().unwrap_or(0);
        let verdict = Verdict::of(most <= 1, || format!("a call ran {most} times"));
        self.find(Group::NeverTwice, "the calls that follow run at most once each", verdict);
        recovered
    }

    /// Leaves nothing: closes, ends the program's input, and looks for what is still there.
    pub(in crate::suite) fn leave(&mut self, promise: &'static str, limit: Duration) {
        let ticket = self.begin(Task::Close);
        // An answer is polite; what counts is what is left.
        let _ = self.answer(ticket, limit);
        self.driver.leave();
        self.nothing_left(promise, limit);
    }

    /// Leaves nothing: the program ends, and nothing that carries its mark is left.
    pub(in crate::suite) fn nothing_left(&mut self, promise: &'static str, limit: Duration) {
        self.has_left = true;
        let limit = self.scaled(limit);
        let ended = self.driver.process.program.exit_within(limit).is_some();
        let gone = self.wait(REST, |stage| stage.mark.alive().is_none_or(|alive| alive.is_empty()));
        let verdict = match self.mark.alive() {
            _ if !ended => Verdict::Fail(format!("it still ran after {} s and was killed", limit.as_secs())),
            None => Verdict::NotApplicable("there is no /proc here to look for processes".into()),
            Some(_) if gone => Verdict::Pass,
            Some(left) => {
                let names: Vec<String> = left.into_iter().map(what_is).collect();
                Verdict::Fail(format!(
                    "still there {} s after its end: {}",
                    self.scaled(REST).as_secs(),
                    names.join(", ")
                ))
            }
        };
        self.find(Group::LeavesNothing, promise, verdict);
    }
}

/// Whether an error tells what it should.
pub(in crate::suite) fn truth(answer: Option<&Answer>, words: &[&str]) -> Verdict {
    match answer {
        None => Verdict::NotApplicable("there was no answer".into()),
        Some(answer) if answer.ok => Verdict::NotApplicable("the call did not fail".into()),
        Some(answer) => {
            let text = answer.text.to_lowercase();
            let told = words.iter().any(|word| text.contains(word));
            Verdict::of(told, || format!("the error was: {}", short(&answer.text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Option<Answer> {
        Some(Answer { ok: false, text: text.into() })
    }

    #[test]
    fn an_error_that_tells_passes_and_one_that_does_not_is_quoted() {
        assert_eq!(truth(error("Connection closed").as_ref(), LOST), Verdict::Pass);
        assert_eq!(truth(error("").as_ref(), LOST), Verdict::Fail("the error was: an empty text".into()));
        let verdict = truth(error("Connection closed").as_ref(), MAY_HAVE_RUN);
        assert_eq!(verdict, Verdict::Fail("the error was: Connection closed".into()));
    }

    #[test]
    fn without_an_error_there_is_no_truth_to_tell() {
        let fine = Answer { ok: true, text: String::new() };
        assert!(matches!(truth(Some(&fine), LOST), Verdict::NotApplicable(_)));
        assert!(matches!(truth(None, LOST), Verdict::NotApplicable(_)));
    }
}
