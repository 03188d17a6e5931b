//! Whether a value keeps to a schema: as much of JSON Schema as ours uses, and an end to the test where it uses more.
//!
//! A whole validator would bring three dozen crates for these few rules.

use serde_json::Value;

/// The first thing that is wrong.
pub(crate) fn check(root: &Value, value: &Value) -> Result<(), String> {
    check_at(root, root, value)
}

fn check_at(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let wrong = |keyword: &str| Err(format!("{value} breaks {keyword} of {schema}"));
    for (keyword, rule) in schema.as_object().unwrap() {
        let keeps = match keyword.as_str() {
            "$schema" | "$id" | "title" | "description" | "default" | "definitions" => true,
            "$ref" => {
                let target = root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
                check_at(root, target, value)?;
                true
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|rule| is_of(rule.as_str().unwrap(), value)),
                rule => is_of(rule.as_str().unwrap(), value),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "pattern" => {
                let pattern = regex_lite::Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minProperties" => value.as_object().is_none_or(|it| it.len() as u64 >= rule.as_u64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "dependencies" => value.as_object().is_none_or(|object| {
                let rules = rule.as_object().unwrap().iter().filter(|(name, _)| object.contains_key(*name));
                let mut needed = rules.flat_map(|(_, names)| names.as_array().unwrap());
                needed.all(|name| object.contains_key(name.as_str().unwrap()))
            }),
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|item| check_at(root, rule, item))?;
                true
            }
            "required" => {
                let mut names = rule.as_array().unwrap().iter();
                value
                    .as_object()
                    .is_none_or(|object| names.all(|name| object.contains_key(name.as_str().unwrap())))
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    rule.get(name).map_or(Ok(()), |rule| check_at(root, rule, member))?;
                }
                true
            }
            "propertyNames" => value.as_object().is_none_or(|object| {
                object.keys().all(|name| check_at(root, rule, &name.as_str().into()).is_ok())
            }),
            "additionalProperties" => {
                let known =
                    |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
                let mut others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                match rule {
                    Value::Bool(allowed) => *allowed || others.next().is_none(),
                    rule => {
                        others.try_for_each(|(_, member)| check_at(root, rule, member))?;
                        true
                    }
                }
            }
            "allOf" => rule.as_array().unwrap().iter().all(|rule| check_at(root, rule, value).is_ok()),
            "anyOf" => rule.as_array().unwrap().iter().any(|rule| check_at(root, rule, value).is_ok()),
            "not" => check_at(root, rule, value).is_err(),
            other => panic!("{other} is not known here; teach it"),
        };
        if !keeps {
            return wrong(keyword);
        }
    }
    Ok(())
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    }
}
