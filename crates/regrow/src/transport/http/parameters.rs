//! Which arguments of a tool are to be said in headers as well, learnt from the lists of tools that pass.

use std::collections::{BTreeMap, HashMap, HashSet};

use http::HeaderName;
use regrow_protocol::frame::Frame;
use regrow_protocol::header;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The tools that have such arguments.
#[derive(Default)]
pub(super) struct Parameters {
    tools: HashMap<String, MirroredArguments>,
}

/// The arguments of one tool that a modern request also carries in `Mcp-Param-*` headers: `x-mcp-header` in its input schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirroredArguments(Vec<Mirrored>);

/// One argument, by the way to it, and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirrored {
    path: Vec<String>,
    header: HeaderName,
}

const MAX_LIST: usize = 16 << 20;
const MAX_TOOLS: usize = 4096;
const MAX_PER_TOOL: usize = 64;
const MAX_DEPTH: usize = 16;
/// Beyond these not every reader of JSON sees the same number.
const SAFE: f64 = 9_007_199_254_740_991.0;

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "inputSchema")]
    schema: Value,
}

impl Parameters {
    /// Takes note of the tools in the result of a list. Returns the result without those whose marks break the rules, where there are
    /// such: the specification wants that nobody uses them.
    pub(super) fn learn(&mut self, result: &[u8]) -> Option<Vec<u8>> {
        if result.len() > MAX_LIST {
            return None; // The calls that would need it are refused, and told so.
        }
        let list = serde_json::from_slice::<List>(result).ok()?;
        let mut barred = HashSet::new();
        for (at, tool) in list.tools.into_iter().enumerate() {
            let Some(mirrored) = MirroredArguments::of(&tool.schema) else {
                tracing::warn!(tool = tool.name, "left out of the list: invalid x-mcp-header");
                self.tools.remove(&tool.name);
                barred.insert(at);
                continue;
            };
            if mirrored.is_empty() {
                self.tools.remove(&tool.name);
            } else if self.tools.len() < MAX_TOOLS || self.tools.contains_key(&tool.name) {
                self.tools.insert(tool.name, mirrored);
            }
        }
        (!barred.is_empty()).then(|| without(result, &barred)).flatten()
    }

    /// Whether this tool is known to have some.
    pub(super) fn knows(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// The headers that a call needs. A value that is absent or null has none.
    pub(super) fn headers(&self, call: &Frame, tool: &str) -> Vec<(HeaderName, String)> {
        let Some(mirrored) = self.tools.get(tool) else { return vec![] };
        let params = call.params().and_then(|params| serde_json::from_slice::<Value>(params).ok());
        let Some(arguments) = params.as_ref().and_then(|params| params.get("arguments")) else {
            return vec![];
        };
        let header = |(header, value): (&HeaderName, Option<&Value>)| {
            Some((header.clone(), MirroredArguments::text(value?)?))
        };
        mirrored.values(arguments).filter_map(header).collect()
    }
}

impl MirroredArguments {
    /// Those of a tool with this input schema. None if an `x-mcp-header` in it breaks the rules: no client may use such a tool.
    pub fn of(schema: &Value) -> Option<MirroredArguments> {
        let mut found = vec![];
        collect(schema, &mut vec![], &mut found)?;
        Some(MirroredArguments(found))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each header, and the value of its argument among these; none where that is absent.
    pub fn values<'a>(
        &'a self,
        arguments: &'a Value,
    ) -> impl Iterator<Item = (&'a HeaderName, Option<&'a Value>)> {
        self.0
            .iter()
            .map(move |one| (&one.header, one.path.iter().try_fold(arguments, |value, key| value.get(key))))
    }

    /// The text of a header for this value, before it is encoded. None where a client sends no header for it.
    pub fn text(value: &Value) -> Option<String> {
        text(value)
    }
}

/// The result of a list without some of its tools; all else as it came.
fn without(result: &[u8], barred: &HashSet<usize>) -> Option<Vec<u8>> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(result).ok()?;
    let tools: Vec<Box<RawValue>> = serde_json::from_str(members.get("tools")?.get()).ok()?;
    let left = tools.iter().enumerate().filter(|(at, _)| !barred.contains(at));
    let left: Vec<_> = left.map(|(_, tool)| tool).collect();
    members.insert("tools".into(), serde_json::value::to_raw_value(&left).ok()?);
    serde_json::to_vec(&members).ok()
}

/// Finds the marked properties; none if the marks break the rules.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) -> Option<()> {
    if let Some(mark) = schema.get("x-mcp-header") {
        let header = HeaderName::try_from(format!(
            "{}{}",
            header::PARAMETER_PREFIX,
            mark.as_str().filter(|it| !it.is_empty())?
        ));
        let header = header.ok()?;
        // Not numbers of every kind: not every reader sees the same fraction.
        let primitive = matches!(schema.get("type")?.as_str()?, "string" | "integer" | "boolean");
        let twice = found.iter().any(|other| other.header == header);
        if !primitive || twice || path.is_empty() || found.len() == MAX_PER_TOOL {
            return None;
        }
        found.push(Mirrored { path: path.clone(), header });
    }
    let Some(Value::Object(properties)) = schema.get("properties") else { return Some(()) };
    if path.len() == MAX_DEPTH {
        return Some(());
    }
    for (name, property) in properties {
        path.push(name.clone());
        collect(property, path, found)?;
        path.pop();
    }
    Some(())
}

/// A value as a header says it; none where it cannot.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Number(number) => {
            let float = number.as_f64()?;
            if float.fract() != 0.0 {
                return Some(number.to_string());
            }
            // `42.0` is the integer 42.
            (float.abs() <= SAFE).then(|| format!("{}", float as i64))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn said(schema: Value, arguments: Value) -> Vec<(String, String)> {
        let mut parameters = Parameters::default();
        let list = json!({ "tools": [{ "name": "other" }, { "name": "t", "inputSchema": schema }] });
        parameters.learn(list.to_string().as_bytes());
        let call =
            json!({ "id": 1, "method": "tools/call", "params": { "name": "t", "arguments": arguments } });
        let call = Frame::parse(Bytes::from(call.to_string())).unwrap();
        let headers = parameters.headers(&call, "t");
        headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    #[test]
    fn marked_arguments_are_said_at_any_depth() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "limit": { "type": "integer", "x-mcp-header": "Limit" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry-Run" },
            "gone": { "type": "string", "x-mcp-header": "Gone" },
            "null": { "type": "string", "x-mcp-header": "Null" },
            "plain": { "type": "string" },
            "in": { "type": "object", "properties": { "deep": { "type": "string", "x-mcp-header": "Deep" } } },
        }});
        let arguments = json!({ "region": "us", "limit": 42.0, "dry": false, "null": null, "plain": "x",
            "in": { "deep": "d" } });
        let mut said = said(schema, arguments);
        said.sort();
        let expected = [
            ("mcp-param-deep", "d"),
            ("mcp-param-dry-run", "false"),
            ("mcp-param-limit", "42"),
            ("mcp-param-region", "us"),
        ];
        assert_eq!(said, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn marks_that_break_the_rules_say_nothing() {
        let good = json!({ "type": "string", "x-mcp-header": "A" });
        for bad in [
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "string", "x-mcp-header": "a" }),
            json!({ "type": "string", "x-mcp-header": "B C" }),
            json!({ "type": "string", "x-mcp-header": "B\r\nX: y" }),
            json!({ "type": "string", "x-mcp-header": 5 }),
            json!({ "type": "array", "x-mcp-header": "B" }),
            json!({ "type": "number", "x-mcp-header": "B" }),
            json!({ "type": "string", "x-mcp-header": "Région" }),
            json!({ "x-mcp-header": "B" }),
        ] {
            let schema = json!({ "properties": { "a": good, "b": bad } });
            assert_eq!(said(schema, json!({ "a": "x", "b": "y" })), [], "{bad}");
        }
        assert_eq!(said(json!({ "type": "string", "x-mcp-header": "Root" }), json!({})), []);
    }

    #[test]
    fn tools_whose_marks_break_the_rules_are_left_out_of_the_list() {
        let mut parameters = Parameters::default();
        let tool = |name: &str, mark: &str| json!({ "name": name, "inputSchema": { "properties": { "a": { "type": "string", "x-mcp-header": mark } } } });
        let list = json!({ "nextCursor": "2", "tools": [tool("good", "A"), tool("bad", "A B"), { "name": "plain" }] });
        let left = parameters.learn(list.to_string().as_bytes()).unwrap();
        let expected = json!({ "nextCursor": "2", "tools": [tool("good", "A"), { "name": "plain" }] });
        assert_eq!(serde_json::from_slice::<Value>(&left).unwrap(), expected);
        assert_eq!(parameters.learn(&left), None, "nothing to leave out");
    }

    #[test]
    fn numbers_that_not_everybody_reads_alike_are_not_said() {
        let schema = json!({ "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } });
        assert_eq!(said(schema.clone(), json!({ "n": 9_007_199_254_740_993_u64 })), []);
        assert_eq!(said(schema, json!({ "n": -5 })), [("mcp-param-n".to_owned(), "-5".to_owned())]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_with_the_marks() {
        let mut parameters = Parameters::default();
        let tool = |name: String, mark: &str| json!({ "name": name, "inputSchema": { "properties": { "a": { "type": "string", mark: "A" } } } });
        let many: Vec<_> = (0..MAX_TOOLS + 10).map(|n| tool(n.to_string(), "x-mcp-header")).collect();
        parameters.learn(json!({ "tools": many }).to_string().as_bytes());
        assert_eq!(parameters.tools.len(), MAX_TOOLS);
        parameters.learn(json!({ "tools": [tool("5".into(), "x")] }).to_string().as_bytes());
        assert!(!parameters.knows("5") && parameters.knows("6"));
    }
}
