//! Reads `WWW-Authenticate`: several challenges in one header, several headers, each challenge with a token or with parameters.

use http::HeaderValue;

/// One challenge of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Such as `Bearer`, as the server writes it.
    pub scheme: String,
    /// The one token that some schemes have instead of parameters.
    pub token68: Option<String>,
    /// Names and values, in their order, values without quotes.
    pub parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The value of a parameter. Names ignore case; of two with the same name the first counts.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// What the `Bearer` challenges of a response say together. For each member the first challenge that has it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bearer {
    /// Where the protected-resource metadata is (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs, separated by spaces.
    pub scope: Option<String>,
    /// Such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
}

/// The `Bearer` challenges in these headers.
pub fn bearer(headers: &[HeaderValue]) -> Bearer {
    let all = challenges(headers);
    let first = |name: &str| {
        let bearer = all.iter().filter(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"));
        bearer.filter_map(|challenge| challenge.parameter(name)).next().map(str::to_owned)
    };
    Bearer { resource_metadata: first("resource_metadata"), scope: first("scope"), error: first("error") }
}

/// All challenges in these headers. What is not valid ends its header; the challenges before it count.
pub fn challenges(headers: &[HeaderValue]) -> Vec<Challenge> {
    let texts = headers.iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    texts.flat_map(|text| Reader { rest: &text }.challenges()).collect()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn challenges(mut self) -> Vec<Challenge> {
        let mut found: Vec<Challenge> = vec![];
        loop {
            self.skip(|letter| is_space(letter) || letter == ',');
            if let Some(parameter) = self.parameter() {
                match found.last_mut() {
                    Some(challenge) if challenge.token68.is_none() => challenge.parameters.push(parameter),
                    _ => return found,
                }
                continue;
            }
            let Some(scheme) = self.token() else { return found };
            let mut challenge = Challenge { scheme: scheme.to_owned(), token68: None, parameters: vec![] };
            if !self.skip(is_space).is_empty() {
                match self.parameter() {
                    Some(parameter) => challenge.parameters.push(parameter),
                    None => challenge.token68 = self.token68(),
                }
            }
            found.push(challenge);
            self.skip(is_space);
            if !self.rest.is_empty() && !self.rest.starts_with(',') {
                return found;
            }
        }
    }

    /// `name = value` or `name = "value"`; takes nothing if there is none.
    fn parameter(&mut self) -> Option<(String, String)> {
        let mut ahead = Reader { rest: self.rest };
        let name = ahead.token()?;
        ahead.skip(is_space);
        ahead.rest = ahead.rest.strip_prefix('=')?;
        ahead.skip(is_space);
        let value = match ahead.rest.strip_prefix('"') {
            Some(rest) => {
                ahead.rest = rest;
                ahead.quoted()?
            }
            None => ahead.token()?.to_owned(),
        };
        ahead.skip(is_space);
        // More after the value: it was a token with padding, or it is not valid.
        if !ahead.rest.is_empty() && !ahead.rest.starts_with(',') {
            return None;
        }
        self.rest = ahead.rest;
        Some((name.to_owned(), value))
    }

    /// The rest of a quoted string, without its quotes. None if it does not end.
    fn quoted(&mut self) -> Option<String> {
        let (mut value, mut letters) = (String::new(), self.rest.char_indices());
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(value);
                }
                '\\' => value.push(letters.next()?.1),
                letter => value.push(letter),
            }
        }
        None
    }

    fn token(&mut self) -> Option<&'a str> {
        let token = self.skip(|letter| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter));
        (!token.is_empty()).then_some(token)
    }

    fn token68(&mut self) -> Option<String> {
        let start = self.rest;
        self.skip(|letter| letter.is_ascii_alphanumeric() || "-._~+/".contains(letter));
        self.skip(|letter| letter == '=');
        let token = &start[..start.len() - self.rest.len()];
        (!token.is_empty()).then(|| token.to_owned())
    }

    /// Takes all letters of a kind.
    fn skip(&mut self, is_kind: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !is_kind(letter)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

fn is_space(letter: char) -> bool {
    letter == ' ' || letter == '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a log: `scheme`, `scheme token`, `scheme name=value name=value`.
    fn read(headers: &[&str]) -> Vec<String> {
        let headers: Vec<HeaderValue> =
            headers.iter().map(|text| HeaderValue::from_bytes(text.as_bytes()).unwrap()).collect();
        let show = |challenge: Challenge| {
            let token = challenge.token68.map(|token| format!(" {token}"));
            let parameters = challenge.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
            challenge.scheme + &token.unwrap_or_default() + &parameters.collect::<String>()
        };
        challenges(&headers).into_iter().map(show).collect()
    }

    #[test]
    fn several_challenges_share_a_header() {
        assert_eq!(
            read(&[
                "Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\", Basic realm=\"simple\""
            ]),
            ["Newauth realm=apps type=1 title=Login to \"apps\"", "Basic realm=simple"]
        );
        assert_eq!(read(&["Negotiate, Bearer", "Basic realm=x"]), ["Negotiate", "Bearer", "Basic realm=x"]);
        assert_eq!(
            read(&["NTLM TlRMTVNTUAAC==, Bearer scope=\"a b\""]),
            ["NTLM TlRMTVNTUAAC==", "Bearer scope=a b"]
        );
        assert_eq!(read(&["Negotiate abc=, Bearer a = b"]), ["Negotiate abc=", "Bearer a=b"]);
        assert_eq!(read(&[",, Bearer\ta=\"x,y=z, Basic\" ,, b=2"]), ["Bearer a=x,y=z, Basic b=2"]);
    }

    #[test]
    fn what_is_not_valid_ends_its_header_only() {
        assert_eq!(read(&["Bearer a=1, b=\"open", "Basic realm=x"]), ["Bearer a=1", "b", "Basic realm=x"]);
        assert_eq!(read(&["Bearer a=\"x\" b=\"y\""]), ["Bearer a="]);
        assert_eq!(read(&["=", "", "\u{fc}", "a=b"]), [""; 0]);
        assert_eq!(read(&["Bearer \u{fc}=1"]), ["Bearer"]);
    }

    #[test]
    fn bearer_challenges_are_read_together() {
        let headers = [
            "Basic scope=no",
            "bearer SCOPE=\"a b\"",
            "Bearer scope=c, resource_metadata=\"https://a/b\", error=x",
        ];
        let headers: Vec<HeaderValue> = headers.iter().map(|text| HeaderValue::from_static(text)).collect();
        let expected = Bearer {
            resource_metadata: Some("https://a/b".into()),
            scope: Some("a b".into()),
            error: Some("x".into()),
        };
        assert_eq!(bearer(&headers), expected);
        assert_eq!(bearer(&[]), Bearer::default());
    }
}
