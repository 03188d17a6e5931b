//! Whether a URI may come from a template (RFC 6570), told in bounded time.

/// At most this many steps may go into one server's templates; then none matches.
const STEPS: u32 = 1_000_000;
/// Longer URIs match none,
const MAX_URI: usize = 4096;
/// and templates of more parts are not understood.
const MAX_PARTS: usize = 64;

/// What the templates of one server may cost, for one URI.
pub(super) fn budget() -> u32 {
    STEPS
}

/// A template, as far as matching needs it.
#[derive(Debug)]
pub(super) struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Debug)]
enum TemplatePart {
    Text(String),
    /// `{x}`: something without a slash.
    Segment,
    /// `{+x}`, `{/x}`, `{?x}` and the like: anything, or nothing.
    Anything,
}

impl Template {
    /// None where it is not one, or too long.
    pub(super) fn parse(text: &str) -> Option<Template> {
        let mut parts = vec![];
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}')?;
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            parts.push(match expression.chars().next()? {
                '+' | '#' | '/' | '?' | '&' | ';' => TemplatePart::Anything,
                _ => TemplatePart::Segment,
            });
            if parts.len() >= MAX_PARTS {
                return None;
            }
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Some(Template { parts })
    }

    /// Whether it says nothing of the URIs that it is for, not even their scheme.
    pub(super) fn is_catch_all(&self) -> bool {
        !matches!(self.parts.first(), Some(TemplatePart::Text(text)) if text.contains(':'))
    }

    /// Goes through the parts with all places at once where the URI may have been read up to, so there is nothing to go back to.
    pub(super) fn matches(&self, uri: &str, steps: &mut u32) -> bool {
        let uri = uri.as_bytes();
        if uri.len() > MAX_URI {
            return false;
        }
        if let Some(TemplatePart::Text(start)) = self.parts.first()
            && !uri.starts_with(start.as_bytes())
        {
            return false; // Most end here.
        }
        let mut places = vec![false; uri.len() + 1];
        places[0] = true;
        for part in &self.parts {
            let compared = match part {
                TemplatePart::Text(text) => {
                    places.iter().filter(|place| **place).count() * text.len().min(uri.len())
                }
                TemplatePart::Segment | TemplatePart::Anything => 0,
            };
            let cost = uri.len() + compared;
            let Some(left) = u32::try_from(cost).ok().and_then(|cost| steps.checked_sub(cost)) else {
                return false;
            };
            *steps = left;
            places = part.read(uri, &places);
        }
        places[uri.len()]
    }
}

impl TemplatePart {
    /// Where the URI may have been read up to after this part.
    fn read(&self, uri: &[u8], before: &[bool]) -> Vec<bool> {
        let mut after = vec![false; before.len()];
        let mut open = false;
        for at in 0..before.len() {
            match self {
                TemplatePart::Text(text) => {
                    if before[at] && uri[at..].starts_with(text.as_bytes()) {
                        after[at + text.len()] = true;
                    }
                }
                TemplatePart::Segment => {
                    after[at] = open;
                    open = (open || before[at]) && uri.get(at) != Some(&b'/');
                }
                TemplatePart::Anything => {
                    open |= before[at];
                    after[at] = open;
                }
            }
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(template: &str, uri: &str) -> bool {
        Template::parse(template).is_some_and(|template| template.matches(uri, &mut budget()))
    }

    #[test]
    fn an_expression_stays_within_its_segment_unless_it_says_otherwise() {
        assert!(matches("note://{id}", "note://7"));
        assert!(!matches("note://{id}", "note://7/8"));
        assert!(!matches("note://{id}", "note://"));
        assert!(matches("file:///{+path}", "file:///a/b/c"));
        assert!(matches("repo://{owner}/{name}/issues/{n}", "repo://a/b/issues/1"));
        assert!(!matches("repo://{owner}/{name}/issues/{n}", "repo://a/issues/1"));
        assert!(matches("q://find{?text,limit}", "q://find?text=a/b&limit=3"));
        assert!(matches("q://find{?text,limit}", "q://find"));
        assert!(matches("x:{a}b{c}", "x:1b2b3"));
        assert!(matches("x:plain", "x:plain") && !matches("x:plain", "x:plain2"));
    }

    #[test]
    fn what_is_no_template_matches_nothing() {
        for template in ["x:{", "x:{}", "x:{a", &"{a}".repeat(MAX_PARTS + 1)] {
            assert!(Template::parse(template).is_none(), "{template}");
        }
    }

    #[test]
    fn nasty_templates_cost_no_more_than_their_budget() {
        let nasty = Template::parse(&"{+a}aaaaaaaa".repeat(30)).unwrap();
        let uri = "a".repeat(MAX_URI - 1) + "b";
        let mut steps = budget();
        for _ in 0..10_000 {
            assert!(!nasty.matches(&uri, &mut steps));
        }
        assert!(!nasty.matches(&"a".repeat(MAX_URI + 1), &mut budget()));
    }
}
