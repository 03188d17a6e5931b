//! Seeded messages for tests.

/// A small generator: the same seed gives the same numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// An object of these members (raw values) and some noise, in any order, with odd whitespace and odd keys.
    pub(crate) fn object(&mut self, members: &[(&str, String)]) -> String {
        let mut members = members.to_vec();
        for noise in ["x", "IDs", "Methods", "results", "é\\\"", "_"] {
            if self.below(3) == 0 {
                let value = self.value(0);
                members.insert(self.below(members.len() + 1), (noise, value));
            }
        }
        for last in (1..members.len()).rev() {
            members.swap(last, self.below(last + 1));
        }
        let members = members.iter().map(|(key, value)| {
            [&self.gap(), &self.key(key), &self.gap(), ":", &self.gap(), value.as_str(), &self.gap()].concat()
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Any value, at most `depth` deep.
    pub(crate) fn value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 2 } else { 4 }) {
            0 => self
                .pick(&["0", "-1.5e3", "null", "true", "18446744073709551615", "[]", "{}", "[ ]"])
                .to_owned(),
            1 => self
                .pick(&[r#""""#, r#""a}]{[\"\\""#, r#""\u00e9é\n\/""#, r#""\\\\\"id\":7,""#, r#""id""#])
                .to_owned(),
            2 => {
                let elements: Vec<_> = (0..self.below(4)).map(|_| self.value(depth - 1)).collect();
                format!("[{}]", elements.join(" ,"))
            }
            _ => {
                let nested =
                    [("id", self.value(depth - 1)), ("method", self.value(0)), ("error", self.value(0))];
                self.object(&nested)
            }
        }
    }

    fn gap(&mut self) -> String {
        self.pick(&["", "", "", " ", "  ", "\t", " \r "]).to_owned()
    }

    /// A key with its quotes; now and then its first letter is escaped.
    fn key(&mut self, key: &str) -> String {
        match key.chars().next() {
            Some(first) if self.below(4) == 0 => {
                format!("\"\\u{:04x}{}\"", u32::from(first), &key[first.len_utf8()..])
            }
            _ => format!("\"{key}\""),
        }
    }
}
