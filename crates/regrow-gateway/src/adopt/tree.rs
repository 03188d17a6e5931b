//! Edits of a syntax tree that leave every other byte of its text as it is.

use std::ops::Range;

use jsonc_parser::cst::{CstContainerNode, CstInputValue, CstNode};

/// Puts `text` in the place of these children of an array or an object, which is one piece of text from then on.
pub(super) fn splice(container: impl Into<CstContainerNode>, children: Range<usize>, text: &str) {
    let container = container.into();
    let mut parts: Vec<String> = container.children().iter().map(ToString::to_string).collect();
    parts.splice(children, [text.to_owned()]);
    let placeholder = CstInputValue::String(String::new());
    let replaced = match container {
        CstContainerNode::Array(array) => array.replace_with(placeholder),
        CstContainerNode::Object(object) => object.replace_with(placeholder),
        CstContainerNode::ObjectProp(_) | CstContainerNode::Root(_) => None,
    };
    if let Some(literal) = replaced.and_then(|node| node.as_string_lit()) {
        literal.set_raw_value(parts.concat());
    }
}

/// What goes between a new neighbour and a node with these siblings before it: the line break and the indentation if the node
/// begins a line, otherwise a space.
pub(super) fn separator(previous_siblings: impl Iterator<Item = CstNode>) -> String {
    let mut gap = String::new();
    for sibling in previous_siblings {
        gap.insert_str(0, &sibling.to_string());
        if sibling.is_newline() {
            return gap;
        }
        if !sibling.is_whitespace() {
            break;
        }
    }
    " ".to_owned()
}

/// The text in JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
