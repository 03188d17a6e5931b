//! Who wants to hear of which resource, counted over the shares of a session: the server is asked once for each. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::member::Waiter;
use super::setting::{NextStep, SharedSetting};

/// A share may subscribe to so many resources,
const MAX_OF_SHARE: usize = 1000;
/// all together to so many, which is what a connection remembers over sessions,
const MAX: usize = 10_000;
/// and to no longer ones.
const MAX_URI: usize = 4096;

/// The subscriptions of all shares.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    resources: BTreeMap<String, Resource>,
    of_share: BTreeMap<u64, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Resource {
    subscribers: BTreeSet<u64>,
    /// Whether the server is to tell of it.
    setting: SharedSetting<bool, Waiter>,
}

impl Resource {
    fn wanted(&self) -> Option<bool> {
        match self.subscribers.is_empty() {
            false => Some(true),
            true => self.setting.told().filter(|told| *told).map(|_| false),
        }
    }
}

impl Subscriptions {
    /// A share wants to hear of a resource. None if that is too much.
    pub(super) fn subscribe(&mut self, uri: &str, who: Waiter) -> Option<NextStep<bool, Waiter>> {
        let own = self.of_share.entry(who.share).or_default();
        let too_many = own.len() >= MAX_OF_SHARE && !own.contains(uri);
        let too_many_in_all = self.resources.len() >= MAX && !self.resources.contains_key(uri);
        if uri.len() > MAX_URI || too_many || too_many_in_all {
            return None;
        }
        own.insert(uri.to_owned());
        let resource = self.resources.entry(uri.to_owned()).or_default();
        resource.subscribers.insert(who.share);
        Some(resource.setting.want(Some(true), Some(who)))
    }

    /// A share does not want to hear of it any more. Only the last one waits for the server.
    pub(super) fn unsubscribe(
        &mut self,
        uri: &str,
        share: u64,
        who: Option<Waiter>,
    ) -> NextStep<bool, Waiter> {
        if let Some(own) = self.of_share.get_mut(&share) {
            own.remove(uri);
        }
        let resource = self.resources.get_mut(uri);
        let Some(resource) = resource.filter(|resource| resource.subscribers.contains(&share)) else {
            return NextStep { ask: None, settled: who.into_iter().collect() };
        };
        resource.subscribers.remove(&share);
        let next = resource.setting.want(resource.wanted(), who);
        self.forget_if_over(uri);
        next
    }

    /// A share leaves. Returns of which resources the server must be asked not to tell any more.
    pub(super) fn leave(&mut self, share: u64) -> Vec<String> {
        let mut unwanted = self.of_share.remove(&share).unwrap_or_default();
        unwanted.retain(|uri| self.unsubscribe(uri, share, None).ask.is_some());
        unwanted.into_iter().collect()
    }

    /// The server has answered what it was asked about this resource. Returns who has waited for it.
    pub(super) fn answered(&mut self, uri: &str, confirmed: bool) -> Vec<Waiter> {
        let Some(resource) = self.resources.get_mut(uri) else { return vec![] };
        let Some((asked, waited)) = resource.setting.answered(confirmed) else { return vec![] };
        if asked && !confirmed {
            // They are told that it failed, so it is as if they had not asked.
            for Waiter { share, .. } in &waited {
                resource.subscribers.remove(share);
                self.of_share.get_mut(share).map(|own| own.remove(uri));
            }
        }
        waited
    }

    /// What is to be done after an answer about this resource.
    pub(super) fn next(&mut self, uri: &str) -> NextStep<bool, Waiter> {
        let Some(resource) = self.resources.get_mut(uri) else {
            return NextStep { ask: None, settled: vec![] };
        };
        let next = resource.setting.next(resource.wanted());
        self.forget_if_over(uri);
        next
    }

    /// Who wants to hear of a change of this resource. What is told of a part concerns those who asked for the whole.
    pub(super) fn subscribers(&self, uri: &str) -> BTreeSet<u64> {
        let prefixes = (1..=uri.len().min(MAX_URI)).filter_map(|end| uri.get(..end));
        let resources = prefixes.filter_map(|prefix| self.resources.get(prefix));
        resources.flat_map(|resource| resource.subscribers.iter().copied()).collect()
    }

    fn forget_if_over(&mut self, uri: &str) {
        let is_over = |resource: &Resource| resource.subscribers.is_empty() && resource.setting.is_settled();
        if self.resources.get(uri).is_some_and(is_over) {
            self.resources.remove(uri);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(share: u64) -> Waiter {
        Waiter { share, number: share * 100 }
    }

    fn settled(who: Waiter) -> NextStep<bool, Waiter> {
        NextStep { ask: None, settled: vec![who] }
    }

    #[test]
    fn the_first_subscribes_the_last_unsubscribes_and_those_between_do_not_wait() {
        let mut subscriptions = Subscriptions::default();
        assert_eq!(subscriptions.subscribe("a", who(1)).unwrap().ask, Some(true));
        assert_eq!(subscriptions.subscribe("a", who(2)), Some(NextStep { ask: None, settled: vec![] }));
        assert_eq!(subscriptions.answered("a", true), [who(1), who(2)]);
        assert_eq!(subscriptions.subscribe("a", who(3)), Some(settled(who(3))));
        assert_eq!(subscriptions.unsubscribe("a", 1, Some(who(1))), settled(who(1)));
        assert!(subscriptions.leave(2).is_empty());
        assert_eq!(subscriptions.unsubscribe("a", 3, Some(who(3))).ask, Some(false));
        assert_eq!(subscriptions.answered("a", true), [who(3)]);
        assert_eq!(subscriptions.next("a").ask, None);
        assert!(subscriptions.resources.is_empty(), "nothing is kept of it");
    }

    #[test]
    fn a_subscription_that_failed_is_forgotten_with_all_who_waited_for_it() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.subscribe("a", who(1));
        subscriptions.subscribe("a", who(2));
        assert_eq!(subscriptions.answered("a", false), [who(1), who(2)]);
        assert_eq!(subscriptions.next("a").ask, None);
        assert!(
            subscriptions.resources.is_empty() && subscriptions.of_share.values().all(BTreeSet::is_empty)
        );
    }

    #[test]
    fn who_leaves_before_the_server_has_answered_leaves_nothing_behind() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.subscribe("a", who(1));
        assert!(subscriptions.leave(1).is_empty(), "the server must answer first");
        assert_eq!(subscriptions.answered("a", true), [who(1)]);
        assert_eq!(subscriptions.next("a").ask, Some(false));
        subscriptions.subscribe("a", who(2));
        subscriptions.answered("a", true);
        assert_eq!(subscriptions.next("a").ask, Some(true), "the next one wants it again");
    }

    #[test]
    fn an_update_concerns_who_asked_for_it_or_for_the_whole_once() {
        let mut subscriptions = Subscriptions::default();
        for (uri, share) in [("a://é", 1), ("a://é/1", 1), ("a://é/2", 2), ("b://", 3)] {
            subscriptions.subscribe(uri, who(share));
        }
        assert_eq!(subscriptions.subscribers("a://é/1"), [1].into());
        assert_eq!(subscriptions.subscribers("a://é/2/x"), [1, 2].into());
        assert!(subscriptions.subscribers("a://").is_empty() && subscriptions.subscribers("").is_empty());
    }

    #[test]
    fn subscriptions_are_bounded_in_each_share_in_all_and_in_length() {
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.subscribe(&"x".repeat(MAX_URI + 1), who(1)).is_none());
        for n in 0..MAX {
            let share = 1 + (n / MAX_OF_SHARE) as u64;
            assert!(subscriptions.subscribe(&n.to_string(), who(share)).is_some());
        }
        assert!(subscriptions.subscribe("1000", who(1)).is_none(), "too many of its own");
        assert!(subscriptions.subscribe("999", who(1)).is_some(), "it has that one already");
        assert!(subscriptions.subscribe("new", who(99)).is_none(), "too many in all");
        assert!(subscriptions.subscribe("1000", who(99)).is_some(), "the server tells of that one already");
    }
}
