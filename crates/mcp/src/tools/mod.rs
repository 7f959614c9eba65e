//! The tools, one file each: definition, arguments, response, and its form as text.

mod common;
mod compare_traces;
mod critical_path;
mod definition;
mod explain_access;
mod field_values;
mod filter_schema;
mod get_spans;
mod get_trace;
mod query_traces;
pub(crate) mod span_values;
mod trace_stats;

use tracewarden_service::Tool;

pub(crate) use common::{
    Context, DETAIL_LEVELS, DetailLevel, NO_RESULTS, OpenedTrace, Totals, TraceOutline,
    join_service_and_name, left_out, pluralize, run_blocking, service_and_name,
};
pub(crate) use definition::{Definition, start_call};

/// Returns the definition of a tool.
pub(crate) fn definition(tool: Tool) -> Definition {
    match tool {
        Tool::FilterSchema => filter_schema::DEFINITION,
        Tool::FieldValues => field_values::DEFINITION,
        Tool::TraceStats => trace_stats::DEFINITION,
        Tool::QueryTraces => query_traces::DEFINITION,
        Tool::GetTrace => get_trace::DEFINITION,
        Tool::GetSpans => get_spans::DEFINITION,
        Tool::CriticalPath => critical_path::DEFINITION,
        Tool::CompareTraces => compare_traces::DEFINITION,
        Tool::ExplainAccess => explain_access::DEFINITION,
    }
}
