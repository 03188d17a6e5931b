//! Which tools of a server clients get, and what they are called; pure.

use std::collections::{BTreeMap, BTreeSet};

use wildmatch::WildMatch;

use crate::catalog::Item;

/// The options `tools` and `readOnly` of a server. Without a rule, all tools are offered under their usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only tools that match one of these; without it, all.
    pub allow: Option<Vec<Glob>>,
    /// No tools that match one of these.
    pub deny: Vec<Glob>,
    /// Other names, by the server's own.
    pub rename: BTreeMap<String, String>,
    /// What stands before each name, in place of the server's name.
    pub prefix: Option<String>,
    /// Only tools that declare `readOnlyHint`.
    pub read_only: bool,
}

/// A pattern for names: `*` is any text, `?` any character.
#[derive(Clone, Debug, PartialEq)]
pub struct Glob(WildMatch);

impl Eq for Glob {}

impl Glob {
    /// From its text.
    pub fn new(text: &str) -> Glob {
        Glob(WildMatch::new(text))
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.0.pattern()
    }

    /// Whether this name is one of those.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

impl ToolFilter {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == ToolFilter::default()
    }

    /// Whether it changes names.
    pub fn renames(&self) -> bool {
        self.prefix.is_some() || !self.rename.is_empty()
    }

    /// Whether clients get this tool.
    pub fn offers(&self, tool: &Item) -> bool {
        self.allows(tool.key()) && (!self.read_only || tool.is_read_only())
    }

    /// What the server's tool of this name is called, without the prefix.
    pub fn renamed<'a>(&'a self, key: &'a str) -> &'a str {
        self.rename.get(key).map_or(key, String::as_str)
    }

    /// The server's own name of a tool that it has not listed yet, by what clients call it without the prefix. None where it is not
    /// offered, or may not be: only the list tells which tools are read-only.
    pub fn original<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let renamed = self.rename.iter().find(|(_, new)| *new == name).map(|(key, _)| key.as_str());
        let original = renamed.or_else(|| (!self.rename.contains_key(name)).then_some(name))?;
        (!self.read_only && !original.is_empty() && self.allows(original)).then_some(original)
    }

    /// The rules to which no tool on the server's list fits, for people.
    pub fn unmatched(&self, tools: &[Item]) -> Vec<String> {
        let is_listed = |name: &str| tools.iter().any(|tool| tool.key() == name);
        let fits_none = |glob: &&Glob| !tools.iter().any(|tool| glob.matches(tool.key()));
        let allow = self.allow.iter().flatten().filter(fits_none).map(|glob| ("allow", glob.text()));
        let deny = self.deny.iter().filter(fits_none).map(|glob| ("deny", glob.text()));
        let rename = self.rename.keys().filter(|key| !is_listed(key)).map(|key| ("rename", key.clone()));
        let named = allow.chain(deny).chain(rename).map(|(rule, text)| format!("{rule} \"{text}\""));
        let none_reads = self.read_only && !tools.iter().any(Item::is_read_only);
        named.chain(none_reads.then(|| "readOnly".to_owned())).collect()
    }

    fn allows(&self, name: &str) -> bool {
        let is_in = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name));
        self.allow.as_deref().is_none_or(is_in) && !is_in(&self.deny)
    }

    /// The first new name that two tools would get.
    pub(crate) fn ambiguous_name(&self) -> Option<&str> {
        let mut seen = BTreeSet::new();
        self.rename.values().map(String::as_str).find(|name| !seen.insert(*name))
    }
}

#[cfg(test)]
mod tests {
    use regrow_protocol::list::List;
    use serde_json::json;

    use super::*;

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| Glob::new(text)).collect()
    }

    fn tool(name: &str, reads: bool) -> Item {
        let raw = json!({ "name": name, "annotations": { "readOnlyHint": reads } }).to_string();
        Item::read(List::Tools, serde_json::from_str(&raw).unwrap()).unwrap()
    }

    #[test]
    fn what_is_denied_is_not_offered_even_if_it_is_allowed() {
        let filter = ToolFilter {
            allow: Some(globs(&["get_*", "set"])),
            deny: globs(&["get_?ecret"]),
            ..ToolFilter::default()
        };
        let offered = |name: &str| filter.offers(&tool(name, false));
        let names = ["get_a", "set", "sets", "get_secret", "Get_a", "a"];
        assert_eq!(names.map(offered), [true, true, false, false, false, false]);
        assert_eq!(names.map(|name| filter.original(name).is_some()), names.map(offered));
        let none = ToolFilter { allow: Some(vec![]), ..ToolFilter::default() };
        assert!(!none.offers(&tool("a", true)), "an empty list allows nothing");
    }

    #[test]
    fn only_a_declaration_makes_a_tool_read_only() {
        let filter = ToolFilter { read_only: true, ..ToolFilter::default() };
        assert!(filter.offers(&tool("a", true)) && !filter.offers(&tool("a", false)));
        for raw in [
            r#"{"name":"a"}"#,
            r#"{"name":"a","annotations":{"readOnlyHint":"true"}}"#,
            r#"{"name":"a","readOnlyHint":true}"#,
        ] {
            assert!(!filter.offers(&Item::read(List::Tools, serde_json::from_str(raw).unwrap()).unwrap()));
        }
        assert_eq!(filter.original("a"), None, "nobody knows yet what it does");
    }

    #[test]
    fn a_tool_with_another_name_has_only_that() {
        let rename = [("old", "new"), ("a", "b"), ("b", "a")].map(|(key, new)| (key.into(), new.into()));
        let filter = ToolFilter { rename: rename.into(), deny: globs(&["a"]), ..ToolFilter::default() };
        assert_eq!((filter.renamed("old"), filter.renamed("other")), ("new", "other"));
        let original = |name: &'static str| filter.original(name);
        assert_eq!((original("new"), original("old"), original("other")), (Some("old"), None, Some("other")));
        assert_eq!((original("a"), original("b")), (Some("b"), None), "rules are for the server's names");
    }

    #[test]
    fn rules_to_which_nothing_fits_are_told() {
        let filter = ToolFilter {
            allow: Some(globs(&["get_*", "typo_*"])),
            deny: globs(&["gone"]),
            rename: [("get_a".into(), "a".into()), ("get_b".into(), "b".into())].into(),
            read_only: true,
            ..ToolFilter::default()
        };
        let tools = [tool("get_a", false)];
        assert_eq!(
            filter.unmatched(&tools),
            ["allow \"typo_*\"", "deny \"gone\"", "rename \"get_b\"", "readOnly"]
        );
        assert!(ToolFilter::default().unmatched(&tools).is_empty());
    }
}
