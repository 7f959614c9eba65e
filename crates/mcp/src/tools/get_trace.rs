//! `svc_get_trace`: one trace in one of four views, each within the size limit and always with the totals of the whole
//! trace.

mod call;
mod full;
mod views;
mod wire;

use rmcp::model::CallToolResult;

use super::{Context, Definition, run_blocking, start_call};
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
    let mut opened = context.open(&arguments.trace_id, arguments.columns.clone()).await?;
    // The stored id, if the argument used another notation.
    arguments.trace_id = opened.trace.trace_id().to_owned();
    let call = Call { context, arguments: &arguments, budget };
    let result = match view {
        View::Outline => run_blocking(|| views::outline(&call, &opened)),
        View::Errors => views::errors(&call, &mut opened).await?,
        View::Slowest => run_blocking(|| views::slowest(&call, &opened)),
        View::Full => full::full(&call, &mut opened).await?,
    };
    opened.trace.close().await?;
    result
}

/// Rejects arguments that have no effect in the view.
fn refuse_unsupported_arguments(arguments: &Arguments, view: View) -> Result<(), Failure> {
    let is_outline = view == View::Outline;
    let (argument, detail) = match arguments {
        Arguments { depth: Some(_), .. } if !is_outline => ("depth", "only for the view outline"),
        Arguments { depth: Some(..0), .. } => ("depth", "0 or more: 0 shows the outermost spans alone"),
        Arguments { root: Some(_), .. } if !is_outline => ("root", "only for the view outline"),
        Arguments { columns: Some(_), .. } if view != View::Full => {
            ("columns", "only for the view full; svc_get_spans takes columns too")
        }
        _ => return Ok(()),
    };
    Err(Failure::argument(argument, detail))
}
