//! `svc_filter_schema`: the fields that conditions can use. Contains each member of `GET /filter/schema`, with the
//! same value.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracewarden_model::{LogicalType, Operator};
use tracewarden_service::{FieldDescriptor, Tool};

use super::{Context, Definition, start_call};
use crate::answer::{Budget, NextCall, Rendered, next_text};
use crate::failure::Failure;
use crate::span_text::one_line;

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Fields of filters",
    "Fields that conditions and group_by can name, with the operators of each type and an example.",
    |context| start_call(call, context),
);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Only fields whose name contains this text, ignoring case.
    containing: Option<String>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// A field.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Field {
    /// The map column; empty for a top-level column.
    map: String,
    /// The key within the map, or the column's name.
    name: String,
    /// Value for `ref` of conditions and svc_field_values, and for group_by.
    #[serde(rename = "ref")]
    reference: String,
    #[serde(rename = "type")]
    logical: &'static str,
    /// Absent for a field that conditions cannot use.
    operators: Option<Vec<&'static str>>,
    /// For administrators: whether conditions can use it.
    filterable: Option<bool>,
    /// For administrators: whether role policies can use it.
    policy: Option<bool>,
}

/// Operators of a type, with an example.
#[derive(Debug, Serialize, JsonSchema)]
struct Type {
    operators: Vec<&'static str>,
    /// A condition, ready to use.
    #[schemars(with = "serde_json::Map<String, Value>")]
    example: Value,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// How conditions work.
    description: &'static str,
    /// Units of numbers.
    units: &'static str,
    fields: Vec<Field>,
    /// By field type.
    types: BTreeMap<&'static str, Type>,
    limits: Limits,
    /// Version of the access model.
    version: u64,
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Limits {
    max_conditions: usize,
    max_values: usize,
    max_limit: u32,
}

/// Units are the most frequent cause of a second attempt.
const UNITS: &str = "Numbers are compared as they are stored; OpenTelemetry's durations are in nanoseconds.";

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    // Without the complete list, agents guess fields.
    let budget = Budget::new(arguments.max_tokens)?.doubled_if_complete();
    let schema = context.service.traces().filter_schema(context.principal).await?;
    let wanted = arguments.containing.unwrap_or_default().to_lowercase();
    let fields: Vec<&FieldDescriptor> =
        schema.fields.iter().filter(|field| field.reference.to_lowercase().contains(&wanted)).collect();
    context.service.core().record_tool_call(context.principal, Tool::FilterSchema).await?;
    let render = |count: usize| {
        let shown = fields.iter().take(count);
        let mut types = BTreeMap::new();
        // A key of a map is a better example of a field's name than a column.
        let usable = shown.clone().filter(|field| field.operators.is_some());
        for field in usable.sorted_by_key(|field| field.map.is_empty()) {
            types.entry(field.logical.as_str()).or_insert_with(|| Type {
                operators: Operator::of_type(field.logical).into_iter().map(Operator::as_str).collect(),
                example: example(field),
            });
        }
        let answer = Answer {
            description: schema.description,
            units: UNITS,
            fields: shown.map(|field| described(field)).collect(),
            types,
            limits: Limits {
                max_conditions: schema.limits.max_conditions,
                max_values: schema.limits.max_values,
                max_limit: schema.limits.max_limit,
            },
            version: schema.version,
            returned: count,
            total: fields.len(),
            truncated: count < fields.len(),
            next: context.next_calls(next(&fields), budget, count < fields.len()),
        };
        Rendered::new(text(&answer), &answer)
    };
    budget.fit(fields.len(), render)
}

fn described(field: &FieldDescriptor) -> Field {
    Field {
        map: field.map.clone(),
        name: field.name.clone(),
        reference: field.reference.clone(),
        logical: field.logical.as_str(),
        operators: field.operators.as_ref().map(|list| list.iter().copied().map(Operator::as_str).collect()),
        filterable: field.filterable,
        policy: field.policy,
    }
}

fn example(field: &FieldDescriptor) -> Value {
    let (operator, value) = match field.logical {
        LogicalType::String => (Operator::Eq, json!("…")),
        LogicalType::StringArray => (Operator::Has, json!("…")),
        LogicalType::Boolean => (Operator::Eq, json!(true)),
        LogicalType::Number => (Operator::Gte, json!(1)),
    };
    json!({ "ref": field.reference, "op": operator.as_str(), "value": value })
}

/// Returns the first call for an agent that does not know the data: where the errors are.
fn next(fields: &[&FieldDescriptor]) -> Option<NextCall> {
    let text = |field: &&&FieldDescriptor| field.operators.is_some() && field.logical == LogicalType::String;
    let service = fields.iter().filter(text).find(|field| field.reference.to_lowercase().contains("service"));
    let field = service.or_else(|| fields.iter().find(text))?;
    let arguments = json!({ "group_by": [field.reference], "measure": "errors", "last": "1h" });
    Some(NextCall::new("see where errors are", Tool::TraceStats, arguments))
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{} {}\n", answer.description, answer.units);
    let Limits { max_conditions, max_values, max_limit } = answer.limits;
    text += &format!(
        "at most {max_conditions} conditions, {max_values} values in one, {max_limit} traces in a page; version {} of the access model\n",
        answer.version
    );
    if answer.fields.is_empty() {
        text += "No searchable field: none is marked, or none contains the text in `containing`.\n";
    }
    for (name, kind) in &answer.types {
        text += &format!("{name}: {}; e.g. {}\n", kind.operators.join(" "), kind.example);
    }
    for field in &answer.fields {
        let only = match (field.filterable, field.policy) {
            (Some(false), _) => " (policies only)",
            (_, Some(true)) => " (policies too)",
            _ => "",
        };
        text += &format!("- {} {}{only}\n", one_line(&field.reference, 512), field.logical);
    }
    if answer.truncated {
        let Answer { returned, total, .. } = answer;
        text += &format!("{returned} of {total} fields; use `containing` or a larger `max_tokens`\n");
    }
    text + &next_text(&answer.next)
}
