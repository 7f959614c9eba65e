//! Outcomes of a policy on spans, as transports return them.

use serde::Serialize;
use tracewarden_policy::{Decision, Outcome, Verdict};
use utoipa::ToSchema;

/// A deciding part of the expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Decision)]
pub struct EvaluatedDecision {
    /// Line, from 1.
    line: u32,
    /// Column, from 1, in code points.
    column: u32,
    /// Length, in code points.
    length: u32,
    /// Outcome of this part by itself.
    outcome: Outcome,
    /// Reason for an error, and the values that the part read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("`SpanAttributes[\"team\"]` is absent on this span"))]
    detail: Option<String>,
}

impl From<Decision> for EvaluatedDecision {
    fn from(decision: Decision) -> Self {
        let detail = decision.detail();
        let Decision { line, column, length, outcome, .. } = decision;
        Self { line, column, length, outcome, detail }
    }
}

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
    decided_by: Vec<EvaluatedDecision>,
}

impl From<Verdict> for Evaluation {
    fn from(verdict: Verdict) -> Self {
        let Verdict { outcome, decided_by } = verdict;
        let reason = decided_by.iter().find_map(|decision| decision.reason.clone());
        let detail = reason.filter(|_| outcome == Outcome::Error);
        Self { outcome, detail, decided_by: decided_by.into_iter().map(Into::into).collect() }
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
