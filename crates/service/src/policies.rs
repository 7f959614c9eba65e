//! Evaluation of policies on spans, and advice about them.

mod advice;
mod evaluation;
mod explanation;
mod summary;
mod user_policies;

pub(crate) use advice::{AdviceRequest, CHECK_TIMEOUT, ROLE_TIMEOUT};
pub use evaluation::{EVALUATED_SPANS_MAX, Policies};
pub use explanation::{
    ExplainVerdict, ExplainedPolicy, ExplainedUser, Explanation, NearestSpan, OwnAccess, OwnPolicy, OwnRole,
    PolicyExplanation, PolicyVerdict, SpanReader, SpanReference, SpanVerdict,
};
pub(crate) use summary::{access_summary, decision_summary};
pub(crate) use user_policies::{
    PolicyInputs, PolicyMatches, UserPolicies, match_policies, policy_explanation, requirement_in_words,
};
