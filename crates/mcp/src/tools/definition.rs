//! The definition of a tool: its entry in the list of tools, and how it is called.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::common::Context;
use crate::arguments::parse_arguments;
use crate::failure::Failure;
use crate::schemas;

/// A call whose arguments were read.
pub(crate) type StartedCall<'a> = BoxFuture<'a, Result<CallToolResult, Failure>>;

/// A tool, as its file defines it.
#[derive(Clone, Copy)]
pub(crate) struct Definition {
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) arguments_schema: fn() -> JsonObject,
    pub(crate) answer_schema: fn() -> JsonObject,
    /// Deserialises the arguments and starts the call.
    pub(crate) start: for<'a> fn(&'a Context<'a>) -> Result<StartedCall<'a>, Failure>,
    /// Deserialises arguments that the schema accepted.
    #[cfg(test)]
    pub(crate) check_arguments: fn(&serde_json::Value) -> Result<(), Failure>,
}

impl Definition {
    pub(crate) const fn new<Arguments, Answer>(
        title: &'static str,
        description: &'static str,
        start: for<'a> fn(&'a Context<'a>) -> Result<StartedCall<'a>, Failure>,
    ) -> Self
    where
        Arguments: JsonSchema + DeserializeOwned,
        Answer: JsonSchema,
    {
        Self {
            title,
            description,
            arguments_schema: schemas::arguments_schema::<Arguments>,
            answer_schema: schemas::answer_schema::<Answer>,
            start,
            #[cfg(test)]
            check_arguments: |arguments| parse_arguments::<Arguments>(arguments).map(|_| ()),
        }
    }
}

/// Deserialises the arguments and starts a call. A function of its own for each tool: in one function, the futures of all
/// tools would take stack space at the same time.
pub(crate) fn start_call<'a, Arguments, Call>(
    call: impl FnOnce(&'a Context<'a>, Arguments) -> Call,
    context: &'a Context<'a>,
) -> Result<StartedCall<'a>, Failure>
where
    Arguments: DeserializeOwned,
    Call: Future<Output = Result<CallToolResult, Failure>> + Send + 'a,
{
    Ok(call(context, parse_arguments(context.sent)?).boxed())
}
