//! Evaluation of policies on spans, and advice about them.

mod advice;
mod evaluation;

pub(crate) use advice::{AdviceRequest, CHECK_TIMEOUT, ROLE_TIMEOUT};
pub(crate) use evaluation::CancelOnDrop;
pub use evaluation::{EVALUATED_SPANS_MAX, Policies};
