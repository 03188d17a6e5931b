//! One thing that the server is told for all clients together: what it is to be, and who waits until it is. Pure.
//!
//! The server is told one thing at a time, so that the last that it hears is the last that was wanted.

/// `V` is what it can be, `W` who waits.
#[derive(Debug)]
pub(super) struct SharedSetting<V, W> {
    /// What the server has confirmed; none if that is not known.
    told: Option<V>,
    /// What it was asked for and has not answered yet, and who waits for that.
    asked: Option<(V, Vec<W>)>,
    /// Who waits for what is asked next.
    later: Vec<W>,
    /// The last question failed. It is not repeated automatically: an absent server would be asked in a loop.
    failed: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextStep<V, W> {
    /// The server must be asked for this.
    pub(super) ask: Option<V>,
    /// These need not wait: it is as they want it.
    pub(super) settled: Vec<W>,
}

impl<V, W> Default for SharedSetting<V, W> {
    fn default() -> SharedSetting<V, W> {
        SharedSetting { told: None, asked: None, later: vec![], failed: false }
    }
}

impl<V: Copy + PartialEq, W> SharedSetting<V, W> {
    /// It is to be so, or nobody cares; somebody may wait to hear that it is.
    pub(super) fn want(&mut self, wanted: Option<V>, who: Option<W>) -> NextStep<V, W> {
        match &mut self.asked {
            Some((asked, waiting)) if wanted == Some(*asked) => waiting.extend(who),
            _ => self.later.extend(who),
        }
        self.next(wanted)
    }

    /// The server has answered what it was asked, or could not be asked. Returns what that was, and who has waited for it.
    pub(super) fn answered(&mut self, confirmed: bool) -> Option<(V, Vec<W>)> {
        let (asked, waited) = self.asked.take()?;
        self.told = confirmed.then_some(asked);
        self.failed = !confirmed;
        Some((asked, waited))
    }

    /// Compares what clients want with what the server has, after an answer.
    pub(super) fn next(&mut self, wanted: Option<V>) -> NextStep<V, W> {
        if self.asked.is_some() {
            return NextStep { ask: None, settled: vec![] }; // Looked at again when it has answered.
        }
        let later = std::mem::take(&mut self.later);
        let is_urgent = !later.is_empty() || !self.failed;
        match wanted.filter(|wanted| self.told != Some(*wanted) && is_urgent) {
            Some(wanted) => {
                self.asked = Some((wanted, later));
                NextStep { ask: Some(wanted), settled: vec![] }
            }
            None => NextStep { ask: None, settled: later },
        }
    }

    pub(super) fn told(&self) -> Option<V> {
        self.told
    }

    /// Whether the server owes no answer.
    pub(super) fn is_settled(&self) -> bool {
        self.asked.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask<W>(wanted: u32) -> NextStep<u32, W> {
        NextStep { ask: Some(wanted), settled: vec![] }
    }

    fn settled(who: &[&'static str]) -> NextStep<u32, &'static str> {
        NextStep { ask: None, settled: who.to_vec() }
    }

    #[test]
    fn who_wants_what_is_already_so_does_not_wait() {
        let mut setting = SharedSetting::default();
        assert_eq!(setting.want(Some(1), Some("a")), ask(1));
        assert_eq!(setting.want(Some(1), Some("b")), settled(&[]), "it is asked once");
        assert_eq!(setting.answered(true), Some((1, vec!["a", "b"])));
        assert_eq!(setting.want(Some(1), Some("c")), settled(&["c"]));
    }

    #[test]
    fn what_is_wanted_meanwhile_is_asked_next_and_the_last_wish_counts() {
        let mut setting = SharedSetting::default();
        setting.want(Some(1), Some("a"));
        assert_eq!(setting.want(Some(2), Some("b")), settled(&[]));
        assert_eq!(setting.want(Some(3), Some("c")), settled(&[]));
        assert_eq!(setting.answered(true), Some((1, vec!["a"])));
        assert_eq!(setting.next(Some(3)), ask(3));
        assert_eq!(setting.answered(true), Some((3, vec!["b", "c"])), "nobody is left waiting");
        assert_eq!(setting.next(Some(3)), settled(&[]));
    }

    #[test]
    fn who_waits_for_what_turns_out_to_be_so_is_settled() {
        let mut setting = SharedSetting::default();
        setting.want(Some(1), Some("a"));
        setting.want(Some(2), Some("b"));
        setting.answered(true);
        assert_eq!(setting.next(Some(1)), settled(&["b"]));
        setting.want(Some(2), None);
        setting.want(None, Some("c"));
        setting.answered(false);
        assert_eq!(setting.next(None), settled(&["c"]), "nobody cares any more");
    }

    #[test]
    fn what_failed_is_asked_again_when_it_is_wanted_again() {
        let mut setting = SharedSetting::default();
        setting.want(Some(1), Some("a"));
        assert_eq!(setting.answered(false), Some((1, vec!["a"])));
        assert_eq!(setting.next(Some(1)), settled(&[]), "not on its own");
        assert_eq!(setting.want(Some(1), None), settled(&[]), "nor if nobody waits for it");
        assert_eq!(setting.want(Some(1), Some("b")), ask(1));
        assert_eq!(SharedSetting::<u32, ()>::default().answered(true), None);
    }
}
