//! The list of tools.

use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool as ToolDefinition, ToolAnnotations};
use schemars::JsonSchema;
use tracewarden_service::Tool;

use crate::schemas;
use crate::tools::{
    compare_traces, critical_path, explain_access, field_values, filter_schema, get_spans, get_trace,
    query_traces, trace_stats,
};

static TOOL_DEFINITIONS: LazyLock<Vec<(Tool, ToolDefinition)>> =
    LazyLock::new(|| Tool::ALL.into_iter().map(|tool| (tool, build_definition(tool))).collect());

/// Returns a tool as it appears in the list of tools.
pub(crate) fn tool_definition(tool: Tool) -> ToolDefinition {
    let found = TOOL_DEFINITIONS.iter().find(|(known, _)| *known == tool);
    found.map_or_else(|| build_definition(tool), |(_, tool_definition)| tool_definition.clone())
}

fn build_definition(tool: Tool) -> ToolDefinition {
    use Tool::{
        CompareTraces, CriticalPath, ExplainAccess, FieldValues, FilterSchema, GetSpans, GetTrace,
        QueryTraces, TraceStats,
    };
    match tool {
        FilterSchema => definition::<filter_schema::Arguments, filter_schema::Answer>(
            tool,
            "Fields of filters",
            "Fields that conditions and group_by can name, with the operators of each type and an example.",
        ),
        FieldValues => definition::<field_values::Arguments, field_values::Answer>(
            tool,
            "Values of a field",
            "Most frequent values of a field in the newest traces that you may read, for use in conditions.",
        ),
        TraceStats => definition::<trace_stats::Arguments, trace_stats::Answer>(
            tool,
            "Statistics of traces",
            "Counts, error rates and duration percentiles over all matching traces, by up to two fields. Start here to find where \
             errors or slowness are.",
        ),
        QueryTraces => definition::<query_traces::Arguments, query_traces::Answer>(
            tool,
            "Search traces",
            "Traces that match all conditions, newest first, a summary each, with the ids of matched spans.",
        ),
        GetTrace => definition::<get_trace::Arguments, get_trace::Answer>(
            tool,
            "Read a trace",
            "One trace: outline (folded tree), errors (where they came from), slowest (what took time) or full (all values, paged).",
        ),
        GetSpans => definition::<get_spans::Arguments, get_spans::Answer>(
            tool,
            "Spans in full",
            "Up to 20 spans of a trace with all attributes and events; long values cut.",
        ),
        CriticalPath => definition::<critical_path::Arguments, critical_path::Answer>(
            tool,
            "Critical path",
            "Which spans decided how long a trace took, longest first.",
        ),
        CompareTraces => definition::<compare_traces::Arguments, compare_traces::Answer>(
            tool,
            "Compare two traces",
            "What differs between two traces, by kind of work: numbers, errors, time.",
        ),
        ExplainAccess => definition::<explain_access::Arguments, explain_access::Answer>(
            tool,
            "Your access",
            "The access that your roles grant, in words; with trace_id, why you can read that trace.",
        ),
    }
}

fn definition<Arguments: JsonSchema + 'static, Answer: JsonSchema + 'static>(
    tool: Tool,
    title: &str,
    description: &'static str,
) -> ToolDefinition {
    let annotations = ToolAnnotations::with_title(title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    let mut tool_definition = ToolDefinition::default();
    tool_definition.name = tool.name().into();
    tool_definition.description = Some(description.into());
    tool_definition.input_schema = Arc::new(schemas::arguments_schema::<Arguments>());
    tool_definition.output_schema = Some(Arc::new(schemas::answer_schema::<Answer>()));
    tool_definition.with_title(title).with_annotations(annotations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_listed_as_read_only_with_both_schemas() {
        let mut taken = 0;
        for tool in Tool::ALL {
            let tool_definition = tool_definition(tool);
            assert_eq!(tool_definition.name, tool.name());
            assert_eq!(
                tool_definition.annotations.as_ref().and_then(|hints| hints.read_only_hint),
                Some(true)
            );
            assert_eq!(tool_definition.input_schema["type"], "object");
            assert_eq!(
                tool_definition.input_schema["additionalProperties"], false,
                "{}",
                tool_definition.name
            );
            assert_eq!(tool_definition.output_schema.as_ref().unwrap()["type"], "object");
            // The part of the list that a model sees.
            let shown = serde_json::json!({"name": tool_definition.name, "description": tool_definition.description, "parameters": tool_definition.input_schema});
            taken += tiktoken_rs::o200k_base_singleton().encode_ordinary(&shown.to_string()).len();
        }
        println!("the list of tools takes {taken} tokens");
        assert!(taken < 3_500, "{taken}");
    }
}
