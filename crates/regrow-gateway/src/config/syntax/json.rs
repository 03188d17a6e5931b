//! JSON with comments, as most hosts write it.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

/// Comments and trailing commas are let pass. Everything else is JSON, as the hosts that share the file read it.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The object that a text is, with positions in bytes; or where it is none, and why.
pub(super) fn parse(text: &str) -> Result<Object<'_>, (usize, String)> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    let value = match parsed {
        Ok(parsed) => parsed.value,
        Err(error) => {
            let what = error.kind().to_string();
            return Err((error.range().start, format!("this is not JSON: {}; fix it here", lowered(&what))));
        }
    };
    match value {
        Some(Value::Object(object)) => Ok(object),
        Some(other) => Err((other.start(), "the file must be an object; begin it with {".into())),
        None => Err((0, "the file is empty; write { \"mcpServers\": { } } with your servers in it".into())),
    }
}

fn lowered(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
