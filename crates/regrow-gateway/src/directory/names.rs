//! What tools and prompts of several servers are called together.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ring::digest::{Context, SHA256};

/// What models and hosts take: so long, and only letters, digits, `_` and `-`.
pub(crate) const MAX_NAME: usize = 64;
/// Between the name of a server and that of a thing.
pub(super) const BETWEEN: &str = "__";
/// How much of the hash a name ends in, from the plainest to the surest.
const DIGITS: [usize; 4] = [0, 8, 16, 48];
const LAST: usize = DIGITS.len() - 1;

/// A tool or prompt of a server.
pub(super) struct Thing<'a> {
    server: &'a str,
    /// What the server calls it.
    key: &'a str,
    /// What it should be called.
    name: String,
}

impl<'a> Thing<'a> {
    /// With the server's name before it.
    pub(super) fn of(server: &'a str, key: &'a str) -> Thing<'a> {
        Thing::named(server, key, format!("{server}{BETWEEN}{key}"))
    }

    /// With this name, as far as its characters, its length and the others allow it.
    pub(super) fn named(server: &'a str, key: &'a str, name: String) -> Thing<'a> {
        Thing { server, key, name }
    }
}

/// A name for each thing. No two get the same; what is given twice gets one.
///
/// Each thing has a row of possible names. A name that two would come to is taken by neither: both go on to their next. Only
/// at the end of its row a thing stays, and the other goes on, so that nobody can be driven out. So it depends on the set of
/// things only, not on their order, and mostly on the thing alone.
pub(super) fn together<'a>(things: &[Thing<'_>]) -> Vec<Option<Cow<'a, str>>> {
    let mut holders: HashMap<String, NameHolder> = HashMap::with_capacity(things.len());
    let mut unnamed: Vec<(usize, usize)> = (0..things.len()).map(|thing| (thing, 0)).collect();
    while let Some((thing, level)) = unnamed.pop() {
        let come = NameHolder::One { thing, level };
        match holders.entry(name(&things[thing], DIGITS[level])) {
            Entry::Vacant(vacant) => {
                vacant.insert(come);
            }
            Entry::Occupied(mut occupied) => {
                if let NameHolder::One { thing, level } = *occupied.get()
                    && level < LAST
                {
                    occupied.insert(NameHolder::Nobody);
                    unnamed.push((thing, level + 1));
                }
                if level < LAST {
                    unnamed.push((thing, level + 1));
                } else if matches!(occupied.get(), NameHolder::Nobody) {
                    occupied.insert(come);
                }
            }
        }
    }
    let mut names = vec![None; things.len()];
    for (name, holder) in holders {
        if let NameHolder::One { thing, .. } = holder {
            names[thing] = Some(Cow::Owned(name));
        }
    }
    names
}

enum NameHolder {
    One {
        thing: usize,
        level: usize,
    },
    /// Several came to it, so nobody has it.
    Nobody,
}

fn name(thing: &Thing<'_>, digits: usize) -> String {
    let mut name = thing.name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "_");
    let digits = if name.len() > MAX_NAME { digits.max(DIGITS[1]) } else { digits };
    if digits > 0 {
        name.truncate(MAX_NAME - 1 - digits);
        name.push('_');
        name.push_str(&hash(thing.server, thing.key)[..digits]);
    }
    name
}

/// The same on every machine and in every version.
fn hash(server: &str, key: &str) -> String {
    let mut context = Context::new(&SHA256);
    context.update(&(server.len() as u64).to_be_bytes()); // So that no other pair reads the same.
    context.update(server.as_bytes());
    context.update(key.as_bytes());
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn named(pairs: &[(&str, &str)]) -> Vec<String> {
        let things: Vec<_> = pairs.iter().map(|(server, key)| Thing::of(server, key)).collect();
        together(&things).into_iter().map(|name| name.expect("each has one").into_owned()).collect()
    }

    #[test]
    fn plain_names_are_joined_and_odd_characters_replaced() {
        assert_eq!(
            named(&[("git", "commit"), ("my files", "read.file/ü")]),
            ["git__commit", "my_files__read_file__"]
        );
    }

    #[test]
    fn what_would_be_called_the_same_is_told_apart_by_a_hash_on_every_side() {
        let names = named(&[("a", "b__c"), ("a__b", "c"), ("a", "d"), ("x", "t.1"), ("x", "t/1")]);
        assert_eq!(
            names,
            ["a__b__c_c220063d", "a__b__c_17a08e21", "a__d", "x__t_1_7f6f8e31", "x__t_1_af1d201c"]
        );
    }

    #[test]
    fn a_tool_that_imitates_the_hash_of_another_gains_nothing() {
        let before = named(&[("a", "b__c"), ("a__b", "c")]);
        let imitation = before[0].strip_prefix("a__").unwrap();
        let names = named(&[("a", "b__c"), ("a__b", "c"), ("a", imitation)]);
        assert_eq!(names[1], before[1]);
        assert!(!names.contains(&before[0]), "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn a_chosen_name_is_cut_and_told_apart_like_any_other() {
        let chosen = |server, key, name: &str| Thing::named(server, key, name.to_owned());
        let long = "x".repeat(MAX_NAME + 1);
        let names = together(&[
            chosen("a", "search", "find"),
            chosen("b", "search", "find"),
            chosen("b", "other", "find.it"),
            chosen("b", "long", &long),
        ]);
        let names: Vec<_> = names.into_iter().map(|name| name.expect("each has one")).collect();
        let hashed = |server, key| format!("find_{}", &hash(server, key)[..8]);
        assert_eq!(names[..3], [hashed("a", "search"), hashed("b", "search"), "find_it".into()]);
        assert_eq!(names[3].len(), MAX_NAME);
        assert!(names[3].ends_with(&hash("b", "long")[..8]));
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (one, two) = ("t".repeat(100) + "1", "t".repeat(100) + "2");
        let names = named(&[("server", &one), ("server", &two)]);
        assert!(names.iter().all(|name| name.len() == MAX_NAME && name.starts_with("server__ttt")));
        assert_ne!(names[0], names[1]);
        assert_eq!(names[0], named(&[("server", &one)])[0], "it does not depend on the other");
        let fits = "t".repeat(MAX_NAME - 3);
        assert_eq!(named(&[("s", &fits)])[0], format!("s__{fits}"));
    }

    #[test]
    fn a_tool_that_imitates_every_name_of_another_does_not_drive_it_out() {
        let rows = DIGITS.map(|digits| name(&Thing::of("a__b", "c"), digits));
        let imitations: Vec<_> =
            rows.iter().map(|name| name.strip_prefix("a__").expect("it begins so")).collect();
        let mut pairs = vec![("a__b", "c")];
        pairs.extend(imitations.iter().map(|tool| ("a", *tool)));
        let names = named(&pairs);
        assert_eq!(names[0], rows[LAST]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), pairs.len());
        pairs.reverse();
        assert_eq!(named(&pairs).into_iter().rev().collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_chain_of_imitations_comes_to_an_end() {
        let mut tools = vec!["x.y".to_owned(), "x/y".to_owned()];
        for n in 1..2000 {
            let imitation = name(&Thing::of("s", &tools[n]), 8);
            tools.push(imitation.strip_prefix("s__").expect("it begins so").to_owned());
        }
        let pairs: Vec<_> = tools.iter().map(|tool| ("s", tool.as_str())).collect();
        assert_eq!(named(&pairs).iter().collect::<BTreeSet<_>>().len(), pairs.len());
    }

    /// Short names over few characters, so that they clash all the time.
    #[test]
    fn no_two_things_ever_share_a_name_and_order_does_not_matter() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut word = |most: usize| -> String {
                (0..random.usize(1..=most))
                    .map(|_| *random.choice(&['a', '_', '.', '/', 'ü']).expect("some"))
                    .collect()
            };
            let pairs: BTreeSet<(String, String)> = (0..60).map(|_| (word(4), word(5))).collect();
            let mut pairs: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (&**a, &**b)).collect();
            let before: BTreeMap<_, _> = pairs.iter().copied().zip(named(&pairs)).collect();
            assert_eq!(before.values().collect::<BTreeSet<_>>().len(), pairs.len(), "seed {seed}");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!(
                before.values().all(|name| name.chars().all(is_plain) && name.len() <= MAX_NAME),
                "seed {seed}"
            );
            random.shuffle(&mut pairs);
            let after: BTreeMap<_, _> = pairs.iter().copied().zip(named(&pairs)).collect();
            assert_eq!(before, after, "seed {seed}");
        }
    }

    #[test]
    fn what_is_given_twice_gets_one_name() {
        let names =
            together(&[("a", "b"), ("a", "b"), ("a", "c")].map(|(server, key)| Thing::of(server, key)));
        assert_eq!(names.iter().flatten().count(), 2);
        assert_eq!(names[2].as_deref(), Some("a__c"));
    }
}
