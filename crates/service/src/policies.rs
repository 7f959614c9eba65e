//! Evaluation of policies on spans, and advice about them.

mod advice;
mod evaluation;
mod explanation;
mod summary;
mod user_policies;
mod verdict;

pub(crate) use advice::{AdviceRequest, CHECK_TIMEOUT, ROLE_TIMEOUT};
pub use evaluation::{EVALUATED_SPANS_MAX, Policies};
pub use explanation::{
    DecidedBy, ExplainVerdict, ExplainedPolicy, ExplainedUser, Explanation, OwnAccess, OwnPolicy, OwnRole,
    PolicyExplanation, PolicyVerdict, SpanReader,
};
pub(crate) use summary::{access_summary, decision_summary};
pub(crate) use user_policies::{
    Block, PolicyInputs, PolicyMatches, UserPolicies, match_policies, policy_explanation, policy_requirement,
};
pub use verdict::EvaluateResult;
