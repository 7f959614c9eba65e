//! `svc_get_trace`: one trace in one of four views, each within the size limit and always with the totals of the whole
//! trace.

mod call;
mod full;
mod views;
mod wire;

use rmcp::model::CallToolResult;

use super::{Context, Definition, start_call};
use crate::answer::Budget;
use crate::failure::Failure;

use call::Call;

use wire::{Answer, Arguments, View};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Read a trace",
    "One trace: outline (folded tree), errors (where they came from), slowest (what took time) or full (all values, paged).",
    |context| start_call(call, context),
);

async fn call(context: &Context<'_>, mut arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let view = arguments.view.unwrap_or_default();
    refuse_unsupported_arguments(&arguments, view)?;
    let opened = context.open(&arguments.trace_id, arguments.columns.clone()).await?;
    // The stored id, if the argument used another notation.
    arguments.trace_id = opened.trace.trace_id().to_owned();
    let call = Call { context, arguments: &arguments, budget };
    match view {
        View::Outline => views::outline(&call, opened).await,
        View::Errors => views::errors(&call, opened).await,
        View::Slowest => views::slowest(&call, opened).await,
        View::Full => full::full(&call, opened).await,
    }
}

/// Rejects arguments that have no effect in the view.
fn refuse_unsupported_arguments(arguments: &Arguments, view: View) -> Result<(), Failure> {
    let is_outline = view == View::Outline;
    if arguments.depth.is_some() && !is_outline {
        return Err(Failure::argument("depth", "only for the view outline"));
    }
    if arguments.depth.is_some_and(|depth| depth < 0) {
        return Err(Failure::argument("depth", "0 or more: 0 shows the outermost spans alone"));
    }
    if arguments.root.is_some() && !is_outline {
        return Err(Failure::argument("root", "only for the view outline"));
    }
    if arguments.columns.is_some() && view != View::Full {
        return Err(Failure::argument("columns", "only for the view full; svc_get_spans takes columns too"));
    }
    Ok(())
}
