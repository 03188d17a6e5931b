//! What one principal can take from the others: nothing that they need.

use std::collections::BTreeMap;

use super::byte_shares::{ByteShares, Refused};
use super::count_shares::CountShares;

#[test]
fn the_only_holder_may_have_everything_and_one_of_several_half() {
    let mut alone: ByteShares<char, ()> = ByteShares::new(100, 100);
    assert!(alone.take('a', 100, ()).is_ok());
    assert_eq!(alone.take('a', 1, ()).unwrap_err(), Refused::Share);
    let mut several: ByteShares<char, ()> = ByteShares::new(100, 50);
    assert!(several.take('a', 50, ()).is_ok());
    assert_eq!(several.take('a', 1, ()).unwrap_err(), Refused::Share);
    assert!(several.take('b', 50, ()).is_ok());
    assert_eq!(several.held(), 100);
}

#[test]
fn the_holder_with_most_gives_way_its_largest_piece_first() {
    let mut shares = ByteShares::new(100, 50);
    shares.take('a', 10, "a small").unwrap();
    shares.take('a', 40, "a large").unwrap();
    shares.take('b', 45, "b").unwrap();
    assert_eq!(
        shares.take('c', 34, "c").unwrap_err(),
        Refused::Full,
        "c itself would be above its fair share"
    );
    let (number, cut) = shares.take('c', 30, "c").unwrap();
    assert_eq!((cut, shares.held()), (vec!["a large"], 85));
    assert_eq!(shares.resize(number, 33).unwrap(), Vec::<&str>::new());
    assert_eq!(shares.release(number), Some("c"));
    assert_eq!(shares.release(number), None);
    assert_eq!(shares.resize(number, 1), Err(Refused::GaveWay));
}

#[test]
fn what_a_server_has_does_not_give_way() {
    let mut shares = ByteShares::new(100, 50);
    let (a, _) = shares.take('a', 50, "a").unwrap();
    let (b, _) = shares.take('b', 50, "b").unwrap();
    shares.pin(a).unwrap();
    assert_eq!(shares.take('c', 20, "c").unwrap().1, ["b"]);
    assert_eq!(shares.pin(b), Err(Refused::GaveWay));
    assert_eq!(shares.take('c', 13, "c").unwrap().1, Vec::<&str>::new());
    assert_eq!(shares.resize(a, 10).unwrap(), Vec::<&str>::new());
    assert_eq!(shares.held(), 43);
}

/// Random takes, growth and returns of several holders, against books that are kept separately.
#[test]
fn the_sum_stays_within_the_budget_and_nobody_below_its_fair_share_is_refused() {
    for seed in 0..200 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let total = chance.usize(10..1000);
        let most_each = if chance.bool() { total } else { total / 2 };
        let mut shares: ByteShares<u8, u64> = ByteShares::new(total, most_each);
        // What each piece holds, by a number of ours that is also its ticket.
        let mut pieces: BTreeMap<u64, (u8, u64, usize)> = BTreeMap::new();
        let sum = |pieces: &BTreeMap<u64, (u8, u64, usize)>, of: u8| -> usize {
            pieces.values().filter(|piece| piece.0 == of).map(|piece| piece.2).sum()
        };
        for ours in 0..300 {
            let holder = chance.u8(0..5);
            let known: Vec<u64> =
                pieces.iter().filter(|piece| piece.1.0 == holder).map(|piece| *piece.0).collect();
            let chosen = chance.choice(&known).copied();
            let (key, before) = match chosen {
                Some(key) if chance.bool() => {
                    let (_, number, _) = pieces.remove(&key).unwrap();
                    assert_eq!(shares.release(number), Some(key), "seed {seed}");
                    continue;
                }
                Some(key) if chance.bool() => (key, pieces[&key].2),
                _ => (ours, 0),
            };
            let more = chance.usize(1..=total / 2 + 1);
            let done = match before {
                0 => shares.take(holder, more, key),
                _ => shares.resize(pieces[&key].1, before + more).map(|cut| (pieces[&key].1, cut)),
            };
            let holders: std::collections::BTreeSet<u8> =
                pieces.values().map(|piece| piece.0).chain([holder]).collect();
            let fair = total / holders.len();
            let own = sum(&pieces, holder) + more;
            match done {
                Ok((number, cut)) => {
                    for ticket in cut {
                        let (of, _, _) = pieces[&ticket];
                        assert!(
                            of != holder && sum(&pieces, of) > fair,
                            "seed {seed}: only those above give way"
                        );
                        pieces.remove(&ticket);
                    }
                    pieces.insert(key, (holder, number, before + more));
                }
                Err(refused) => {
                    let is_below = own <= fair && own <= most_each;
                    assert!(!is_below, "seed {seed}: {refused:?} at {own} of {fair}");
                }
            }
            let held: usize = pieces.values().map(|piece| piece.2).sum();
            assert_eq!(shares.held(), held, "seed {seed}");
            assert!(held <= total, "seed {seed}: {held} of {total}");
        }
    }
}

#[test]
fn each_holder_leaves_as_many_as_it_has_and_the_only_one_may_have_all() {
    let mut several = CountShares::new(16, false);
    let mut fill =
        |holder| std::iter::repeat_with(|| several.take(holder)).take_while(|taken| *taken).count();
    assert_eq!(['a', 'b', 'c', 'd'].map(&mut fill), [8, 4, 2, 1]);
    several.release(&'a');
    assert!(!several.take('a'), "a has more than the others leave");
    assert!(several.take('d'));
    assert_eq!(several.count(), 15);
    let mut alone = CountShares::new(3, true);
    assert_eq!((0..5).filter(|_| alone.take('a')).count(), 3);
    let mut one = CountShares::new(1, false);
    assert!(one.take('a') && !one.take('b'));
}
