//! Span data in an explanation, for callers who may read the trace: names, services and the deciding parts of a policy.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::{Duration, Instant};
use tracewarden_clickhouse::{ClickHouseError, Selection, SpanIdentity, SpanLine};
use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{self as policy, Outcome, Span};

use crate::core::{Access, CancelOnDrop, Result, blocking};
use crate::policies::{DecidedBy, PolicyExplanation, PolicyMatches, PolicyVerdict, SpanReader};
use crate::traces::reader::MAX_BYTES_WITHOUT_PERMIT;

/// Maximum total size of the spans whose deciding parts are explained; above it, the explanation omits these parts. As
/// policies see them, spans take several times as much memory.
const MAX_VERDICT_BYTES: usize = 4 * MAX_BYTES_WITHOUT_PERMIT;
/// Time-out for evaluating all policies on their spans; the explanation of a policy that is not evaluated in time omits its
/// deciding parts.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A trace that the caller may read.
pub(super) struct Trace<'a> {
    pub(super) access: &'a Access,
    pub(super) selection: &'a Selection,
    /// User for whom policies are evaluated.
    pub(super) caller: &'a Caller,
    pub(super) admin: bool,
    pub(super) read: Option<SpanReader>,
}

/// A policy whose verdict on a span is to be explained.
struct VerdictRequest {
    at: usize,
    expression: String,
    span: SpanIdentity,
    satisfied: bool,
}

impl Trace<'_> {
    /// Adds span data to each policy; the nearest span only where `nearest` is true.
    pub(super) async fn add_span_data(
        &self,
        explanations: &mut [PolicyExplanation],
        found: &PolicyMatches,
        nearest: Vec<bool>,
    ) -> Result<()> {
        for ((policy, satisfied), nearest) in explanations.iter_mut().zip(&found.results).zip(nearest) {
            let Some(satisfied) = satisfied else { continue };
            policy.spans = satisfied.first.clone();
            policy.nearest = satisfied.nearest.clone().filter(|_| nearest);
        }
        self.add_verdicts(explanations).await
    }

    /// Adds to each policy which parts of its text decided on one span.
    async fn add_verdicts(&self, explanations: &mut [PolicyExplanation]) -> Result<()> {
        let Some(read) = self.read.filter(|_| self.admin) else { return Ok(()) };
        let requested: Vec<VerdictRequest> = explanations
            .iter()
            .enumerate()
            .filter_map(|(at, policy)| {
                let nearest = policy.nearest.as_ref().map(|nearest| &nearest.span);
                let span = policy.spans.first().or(nearest)?;
                Some(VerdictRequest {
                    at,
                    expression: policy.expression.clone()?,
                    span: span.clone(),
                    satisfied: policy.outcome == PolicyVerdict::Satisfied,
                })
            })
            .collect();
        let model = self.access.authority.model.clone();
        let spans = self.read_policy_spans(&requested, &model, read).await?;
        let (caller, cancel) = (self.caller.clone(), CancelOnDrop(Arc::default()));
        let cancelled = Arc::clone(&cancel.0);
        let span_verdicts =
            blocking(move || span_verdicts(requested, &spans, &model, &caller, &cancelled)).await;
        drop(cancel);
        for (at, decided_by) in span_verdicts.unwrap_or_default() {
            if let Some(policy) = explanations.get_mut(at) {
                policy.decided_by = Some(decided_by);
            }
        }
        Ok(())
    }

    /// Returns the spans as policies see them, grouped by identity; spans with equal identities cannot be distinguished.
    async fn read_policy_spans(
        &self,
        requested: &[VerdictRequest],
        model: &AccessModel,
        read: SpanReader,
    ) -> Result<HashMap<SpanIdentity, Vec<Span>>> {
        let Access { store, binding, .. } = self.access;
        let identities: HashSet<&SpanIdentity> = requested.iter().map(|requested| &requested.span).collect();
        let identities: Vec<SpanIdentity> = identities.into_iter().cloned().collect();
        let inputs = model.fields.iter().filter(|field| field.policy).map(|field| &field.field);
        let columns: BTreeSet<&String> =
            inputs.map(|field| field.map.as_ref().unwrap_or(&field.name)).collect();
        let columns: Vec<String> = columns.into_iter().cloned().collect();
        let (selection, columns) = (self.selection, Some(columns.as_slice()));
        let spans = store.read_spans_by_identity(MAX_VERDICT_BYTES, binding, selection, &identities, columns);
        let lines = match spans.await {
            Err(ClickHouseError::TooLarge(_) | ClickHouseError::UnknownColumn { .. }) => Vec::new(),
            lines => lines?,
        };
        let model = model.clone();
        blocking(move || policy_spans(lines, &model, read)).await
    }
}

/// Converts spans to the form that policies see. Blocks its thread for megabytes of spans.
fn policy_spans(
    lines: Vec<(SpanIdentity, SpanLine)>,
    model: &AccessModel,
    read: SpanReader,
) -> HashMap<SpanIdentity, Vec<Span>> {
    let mut spans: HashMap<SpanIdentity, Vec<Span>> = HashMap::new();
    for (identity, line) in lines {
        if let Some(span) = read(&line.json, model) {
            spans.entry(identity).or_default().push(span);
        }
    }
    spans
}

/// Returns the verdicts of the reference evaluator. Omits a verdict that differs from ClickHouse's, which reads bytes that
/// JSON cannot hold: an explanation must not contradict the decision.
fn span_verdicts(
    requested: Vec<VerdictRequest>,
    spans: &HashMap<SpanIdentity, Vec<Span>>,
    model: &AccessModel,
    caller: &Caller,
    cancelled: &AtomicBool,
) -> Vec<(usize, DecidedBy)> {
    let deadline = Instant::now() + TIMEOUT;
    let mut span_verdicts = Vec::new();
    for VerdictRequest { at, expression, span, satisfied } in requested {
        if cancelled.load(Ordering::Relaxed) || Instant::now() >= deadline {
            break;
        }
        let Some(spans) = spans.get(&span) else { continue };
        let Ok(verdicts) = policy::explain(&expression, model, caller, spans, cancelled) else { continue };
        let verdict = verdicts.into_iter().find(|verdict| (verdict.outcome == Outcome::True) == satisfied);
        span_verdicts.extend(verdict.map(|verdict| (at, DecidedBy::new(span, verdict, &expression))));
    }
    span_verdicts
}
