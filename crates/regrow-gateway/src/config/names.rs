//! The name that somebody probably meant.

/// The nearest of these names, if one is near enough to be meant.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(wrong);
    let distances = names.into_iter().map(|name| (distance(&folded, &fold(name)), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= folded.len().max(3) / 3).then_some(name)
}

/// Whether both are the same word, however it is written.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    fold(one) == fold(other)
}

/// `call_timeout`, `CallTimeout` and `call-timeout` mean `callTimeout`. Long names are cut, so that comparing is cheap.
fn fold(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).take(64).collect()
}

/// How many letters must be put in, taken out or changed, or swapped with their neighbour.
fn distance(one: &[char], other: &[char]) -> usize {
    let first: Vec<usize> = (0..=other.len()).collect();
    // The row before the last, and the last.
    let mut rows = [vec![], first];
    for (i, a) in one.iter().enumerate() {
        let [before, last] = &rows;
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let is_swapped = i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b;
            let swapped = if is_swapped { before[j - 1] + 1 } else { usize::MAX };
            let changed = last[j] + usize::from(a != b);
            row.push(changed.min(last[j + 1] + 1).min(row[j] + 1).min(swapped));
        }
        let [_, last] = rows;
        rows = [last, row];
    }
    rows[1][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let names = ["callTimeout", "connectTimeout", "replay", "era"];
        assert_eq!(nearest("call_timeout", names), Some("callTimeout"));
        assert_eq!(nearest("calTimeuot", names), Some("callTimeout"));
        assert_eq!(nearest("replays", names), Some("replay"));
        assert_eq!(nearest("ear", names), Some("era"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
