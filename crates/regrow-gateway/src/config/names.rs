//! The name that somebody probably meant.

/// The nearest of these names, if one is near enough to be meant.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(wrong);
    let distances = names.into_iter().map(|name| (distance(&folded, &fold(name)), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= folded.len().max(3) / 3).then_some(name)
}

/// `call_timeout`, `CallTimeout` and `call-timeout` mean `callTimeout`. Long names are cut, so that comparing is cheap.
fn fold(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).take(64).collect()
}

/// How many letters must be put in, taken out or changed.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
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
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
