//! The gate beside a model so plain that it is right at first sight.

use super::*;

/// Counts everything anew each time.
struct Naive {
    limits: Limits,
    running: u32,
    /// When the calls went, in order.
    gone: Vec<u64>,
    waiting: Vec<(u32, Option<u64>)>,
}

impl Naive {
    /// A bucket that is full at first: at no moment were there more tokens taken than it began with and was filled by since any
    /// earlier moment at which it was full. Replays the whole history.
    fn has_token(&self, now: u64) -> bool {
        let Some((count, per)) = self.limits.rate else { return true };
        let (count, per) = (u128::from(count), per.as_millis());
        let full = count * per;
        let (mut level, mut last) = (full, 0);
        for &went in &self.gone {
            level = (level + u128::from(went - last) * count).min(full) - per;
            last = went;
        }
        (level + u128::from(now - last) * count).min(full) >= per
    }

    fn admit(&mut self, now: u64) -> bool {
        let goes = self.limits.concurrency.is_none_or(|most| self.running < most) && self.has_token(now);
        if goes {
            self.running += 1;
            self.gone.push(now);
        }
        goes
    }

    fn arrive(&mut self, now: u64, deadline: Option<u64>, ticket: u32) -> Arrival<u32> {
        if self.waiting.is_empty() && self.admit(now) {
            Arrival::Go(ticket)
        } else if self.waiting.len() < self.limits.queue as usize {
            self.waiting.push((ticket, deadline));
            Arrival::Wait
        } else {
            Arrival::Full(ticket)
        }
    }

    fn due(&mut self, now: u64) -> Vec<u32> {
        let mut due = vec![];
        while !self.waiting.is_empty() && self.admit(now) {
            due.push(self.waiting.remove(0).0);
        }
        due
    }

    fn expire(&mut self, now: u64) -> Vec<u32> {
        let late: Vec<u32> =
            self.waiting.iter().filter(|(_, by)| by.is_some_and(|by| by <= now)).map(|(n, _)| *n).collect();
        self.waiting.retain(|(n, _)| !late.contains(n));
        late
    }
}

#[test]
fn the_gate_does_what_a_naive_model_does() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let limits = Limits {
            concurrency: random.bool().then(|| random.u32(1..5)),
            rate: random.bool().then(|| (random.u32(1..6), Duration::from_millis(random.u64(1..3000)))),
            queue: random.u32(0..8),
        };
        let mut naive = Naive { limits, running: 0, gone: vec![], waiting: vec![] };
        let mut gate = Gate::new(limits, true);
        let mut now = 0;
        for ticket in 0..200 {
            let context = format!("seed {seed}, step {ticket}, {limits:?}");
            if let Some(next) = gate.next_due() {
                // Nothing happens on its own before the gate says so, and something does then.
                let idle = at(next.as_millis().saturating_sub(1).max(now));
                if idle < next {
                    assert!(gate.expire(idle).is_empty() && gate.due(idle).is_empty(), "{context}");
                }
                if random.bool() {
                    now = now.max(next.as_millis());
                    let (mut late, mut naive_late) = (gate.expire(at(now)), naive.expire(now));
                    late.sort_unstable();
                    naive_late.sort_unstable();
                    assert_eq!(late, naive_late, "{context}");
                    let due = gate.due(at(now));
                    assert_eq!(due, naive.due(now), "{context}");
                    assert!(!late.is_empty() || !due.is_empty(), "{context}: it was woken for nothing");
                }
            }
            match random.u32(0..4) {
                0 if naive.running > 0 => {
                    naive.running -= 1;
                    gate.leave();
                    // Who has waited too long goes first, as the limiter sees to.
                    let (mut late, mut naive_late) = (gate.expire(at(now)), naive.expire(now));
                    late.sort_unstable();
                    naive_late.sort_unstable();
                    assert_eq!((late, gate.due(at(now))), (naive_late, naive.due(now)), "{context}");
                }
                1 => now += random.u64(0..500),
                2 => {
                    let wanted = |n: &u32| n % 3 == seed as u32 % 3;
                    let newest = naive.waiting.iter().rposition(|(n, _)| wanted(n));
                    let newest = newest.map(|place| naive.waiting.remove(place).0);
                    assert_eq!(gate.withdraw_newest(wanted), newest, "{context}");
                }
                _ => {
                    let deadline = random.bool().then(|| now + random.u64(0..2000));
                    let arrival = gate.arrive(at(now), deadline.map(at), ONE, ticket);
                    assert_eq!(arrival, naive.arrive(now, deadline, ticket), "{context}");
                }
            }
            assert_eq!((gate.running(), gate.waiting()), (naive.running, naive.waiting.len()), "{context}");
        }
    }
}
