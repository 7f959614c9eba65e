//! Outcomes of a policy on spans, as transports return them.

use serde::Serialize;
use tracewarden_policy::{Decision, Outcome, Verdict};
use utoipa::ToSchema;

/// Value of an expression or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyOutcome)]
pub enum EvaluatedOutcome {
    /// True: the span satisfies the policy.
    True,
    /// False.
    False,
    /// Evaluation failed: the span satisfies neither the policy nor its negation.
    Error,
}

impl From<&Outcome> for EvaluatedOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::True => Self::True,
            Outcome::False => Self::False,
            Outcome::Error(_) => Self::Error,
        }
    }
}

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
    outcome: EvaluatedOutcome,
    /// Reason for an error, and the values that the part read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("`SpanAttributes[\"team\"]` is absent on this span"))]
    detail: Option<String>,
}

impl From<Decision> for EvaluatedDecision {
    fn from(decision: Decision) -> Self {
        let detail = decision.detail();
        let Decision { line, column, length, outcome, .. } = decision;
        Self { line, column, length, outcome: (&outcome).into(), detail }
    }
}

/// Outcome of the expression on one span.
#[derive(Debug, Serialize, ToSchema)]
pub struct Evaluation {
    /// Only `true` satisfies a policy.
    outcome: EvaluatedOutcome,
    /// Reason for an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
    /// The parts that determine the outcome, in text order.
    decided_by: Vec<EvaluatedDecision>,
}

impl From<Verdict> for Evaluation {
    fn from(verdict: Verdict) -> Self {
        let outcome = EvaluatedOutcome::from(&verdict.outcome);
        let reason = verdict.decided_by.iter().find_map(|decision| match &decision.outcome {
            Outcome::Error(reason) => Some(reason.clone()),
            _ => None,
        });
        let detail = reason.filter(|_| outcome == EvaluatedOutcome::Error);
        Self { outcome, detail, decided_by: verdict.decided_by.into_iter().map(Into::into).collect() }
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
