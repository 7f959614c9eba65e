//! Schemas of arguments and responses, in the subset of JSON Schema that all hosts accept.
//!
//! Hosts pass the schemas of tools to models of several vendors, which support different parts of JSON Schema. So
//! these schemas use only the common part: one `type` per value (an optional member is not required, and never null),
//! except for operands of conditions, which have one of three types; no references, no number formats, choices as
//! `enum`, and a schema for the elements of each list.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the schema of a tool's arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> JsonObject {
    made::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// Returns the schema of a tool's response.
pub(crate) fn of_answer<T: JsonSchema>() -> JsonObject {
    made::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn made<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

/// Returns the schema of a condition's operand: a text, a number or a boolean.
pub(crate) fn scalar(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "anyOf": one_of_scalars() })
}

/// Returns the schema of a list of operands.
pub(crate) fn scalars(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "items": { "anyOf": one_of_scalars() } })
}

fn one_of_scalars() -> Value {
    json!([{ "type": "string" }, { "type": "number" }, { "type": "boolean" }])
}

/// Reduces a schema and its subschemas to the common subset.
fn plain(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    for name in ["$schema", "$defs", "title", "format", "default"] {
        members.remove(name);
    }
    for within in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = members.get_mut(within) {
            properties.values_mut().for_each(plain);
        }
    }
    for within in ["items", "additionalProperties"] {
        members.get_mut(within).into_iter().for_each(plain);
    }
    for choice in ["anyOf", "oneOf"] {
        let Some(Value::Array(mut choices)) = members.remove(choice) else { continue };
        choices.iter_mut().for_each(plain);
        choices.retain(|schema| schema.get("type") != Some(&json!("null")));
        let names: Option<Vec<Vec<Value>>> = choices.iter().map(names).collect();
        let only = if choices.len() == 1 { choices.pop() } else { None };
        if let Some(Value::Object(only)) = only {
            // The member's own description takes precedence.
            only.into_iter().for_each(|(name, value)| _ = members.entry(name).or_insert(value));
        } else if let Some(names) = names.filter(|names| !names.is_empty()) {
            members.insert("type".to_owned(), json!("string"));
            members.insert("enum".to_owned(), names.concat().into());
        } else {
            members.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
    if let Some(Value::Array(types)) = members.get("type") {
        let one = types.iter().find(|name| **name != "null").cloned().unwrap_or_default();
        members.insert("type".to_owned(), one);
    }
    if let Some(Value::Array(names)) = members.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
}

/// Returns the values of a schema with `const` or `enum`.
fn names(schema: &Value) -> Option<Vec<Value>> {
    let one = schema.get("const").map(|name| vec![name.clone()]);
    one.or_else(|| schema.get("enum").and_then(Value::as_array).cloned())
}

#[cfg(test)]
mod tests {
    use tracewarden_service::Tool;

    use super::*;
    use crate::catalogue::listed;

    /// Checks a schema and its subschemas, and counts them.
    fn walk(schema: &Value, place: &str) -> usize {
        let members = schema.as_object().unwrap_or_else(|| panic!("{place}: {schema}"));
        const TAKEN: [&str; 9] = [
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "anyOf",
            "minimum",
        ];
        for name in members.keys() {
            assert!(TAKEN.contains(&name.as_str()), "{place}: {name}");
        }
        let mut count = 1;
        match (members.get("type"), members.get("anyOf")) {
            (Some(Value::String(name)), None) => {
                const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
                assert!(TYPES.contains(&name.as_str()), "{place}: {name}");
                assert_eq!(name == "array", members.contains_key("items"), "{place}");
                assert!(!members.contains_key("enum") || name == "string", "{place}");
            }
            (None, Some(Value::Array(choices))) => {
                assert!(choices.len() > 1, "{place}");
                count += choices.iter().map(|choice| walk(choice, &format!("{place}|"))).sum::<usize>();
            }
            other => panic!("{place}: {other:?}"),
        }
        let properties = members.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            count += walk(schema, &format!("{place}.{name}"));
        }
        for name in members.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(properties.unwrap().contains_key(name.as_str().unwrap()), "{place}: {name}");
        }
        if let Some(items) = members.get("items") {
            count += walk(items, &format!("{place}[]"));
        }
        if let Some(others) = members.get("additionalProperties").filter(|others| !others.is_boolean()) {
            count += walk(others, &format!("{place}.*"));
        }
        count
    }

    #[test]
    fn schemas_use_only_widely_supported_keywords() {
        let mut count = 0;
        for tool in Tool::ALL {
            let listed = listed(tool);
            let answer = listed.output_schema.as_deref().unwrap();
            for (side, schema) in [("takes", &*listed.input_schema), ("gives", answer)] {
                count += walk(&Value::Object(schema.clone()), &format!("{} {side}", tool.name()));
            }
        }
        assert!(count > 150, "{count}");
    }
}
