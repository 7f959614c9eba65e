//! Outcomes of a policy on spans, as transports return them.

use serde::Serialize;
use tracewarden_policy::{Decision, Outcome, Verdict};
use utoipa::ToSchema;

/// Outcome of the expression on one span.
#[derive(Debug, Serialize, ToSchema)]
pub struct Evaluation {
    /// Only `true` satisfies a policy.
    outcome: Outcome,
    /// Reason for an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
    /// The parts that determine the outcome, in text order.
    decided_by: Vec<Decision>,
}

impl From<Verdict> for Evaluation {
    fn from(verdict: Verdict) -> Self {
        let Verdict { outcome, decided_by } = verdict;
        let reason = decided_by.iter().find_map(|decision| decision.reason.clone());
        let detail = reason.filter(|_| outcome == Outcome::Error);
        Self { outcome, detail, decided_by }
    }
}

/// Outcome of an expression on each span.
#[derive(Debug, Serialize, ToSchema)]
pub struct EvaluateResult {
    /// In the order of the spans.
    results: Vec<Evaluation>,
}

impl From<Vec<Verdict>> for EvaluateResult {
    fn from(verdicts: Vec<Verdict>) -> Self {
        Self { results: verdicts.into_iter().map(Into::into).collect() }
    }
}
