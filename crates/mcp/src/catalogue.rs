//! The list of tools.

use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool as ToolDefinition, ToolAnnotations};
use tracewarden_service::Tool;

use crate::tools;

static TOOL_DEFINITIONS: LazyLock<Vec<(Tool, ToolDefinition)>> =
    LazyLock::new(|| Tool::ALL.into_iter().map(|tool| (tool, build_definition(tool))).collect());

/// Returns a tool as it appears in the list of tools.
pub(crate) fn tool_definition(tool: Tool) -> ToolDefinition {
    let found = TOOL_DEFINITIONS.iter().find(|(known, _)| *known == tool);
    found.map_or_else(|| build_definition(tool), |(_, tool_definition)| tool_definition.clone())
}

fn build_definition(tool: Tool) -> ToolDefinition {
    let definition = tools::definition(tool);
    let annotations = ToolAnnotations::with_title(definition.title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    let mut tool_definition = ToolDefinition::default();
    tool_definition.name = tool.name().into();
    tool_definition.description = Some(definition.description.into());
    tool_definition.input_schema = Arc::new((definition.arguments_schema)());
    tool_definition.output_schema = Some(Arc::new((definition.answer_schema)()));
    tool_definition.with_title(definition.title).with_annotations(annotations)
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
