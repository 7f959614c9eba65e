//! Span data in an explanation, for callers who may read the trace: names, services and the deciding parts of a policy.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::{Duration, Instant};
use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{self as policy, Outcome, Span};
use tracewarden_tracestore::{ClickHouseError, Selection, SpanIdentity, SpanLine};

use super::policies::FoundSatisfied;
use super::{DecidedBy, NearestSpan, PolicyExplanation, PolicyVerdict, SpanMention, SpanReader};
use crate::access::Access;
use crate::open_trace::LITTLE_BYTES;
use crate::service::blocking;

/// Maximum total size of the spans whose deciding parts are explained; above it, the explanation omits these parts. As
/// policies see them, spans take several times as much memory.
const DECIDING_MAX_BYTES: usize = 4 * LITTLE_BYTES;
/// Time-out for evaluating all policies on their spans; the explanation of a policy that is not evaluated in time omits its
/// deciding parts.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A trace that the caller may read.
pub(super) struct Trace<'a> {
    pub(super) access: &'a Access,
    pub(super) selection: &'a Selection,
    /// User for whom policies are evaluated.
    pub(super) caller: &'a Caller,
    /// Whether the caller is an administrator.
    pub(super) admin: bool,
    pub(super) read: Option<SpanReader>,
}

impl From<&SpanIdentity> for SpanMention {
    fn from(span: &SpanIdentity) -> Self {
        let SpanIdentity { span_id, start, name, service } = span.clone();
        Self { span_id, start, name, service }
    }
}

impl From<&SpanMention> for SpanIdentity {
    fn from(span: &SpanMention) -> Self {
        let SpanMention { span_id, start, name, service } = span.clone();
        Self { span_id, start, name, service }
    }
}

/// Stops the evaluation when dropped, soon after the client disconnects.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A policy whose verdict on a span is to be explained.
struct Wanted {
    /// Index of the policy.
    at: usize,
    expression: String,
    span: SpanMention,
    satisfied: bool,
}

impl Trace<'_> {
    /// Adds span data to each policy; the nearest span only where `nearest` is true.
    pub(super) async fn tell(
        &self,
        told: &mut [PolicyExplanation],
        found: &FoundSatisfied,
        nearest: Vec<bool>,
    ) -> Result<(), ClickHouseError> {
        let found: Vec<_> = found
            .each
            .iter()
            .zip(nearest)
            .map(|(satisfied, nearest)| {
                let first = satisfied.as_ref().map(|found| found.first.as_slice()).unwrap_or_default();
                (first, satisfied.as_ref().and_then(|found| found.nearest.as_ref()).filter(|_| nearest))
            })
            .collect();
        for (policy, (first, nearest)) in told.iter_mut().zip(&found) {
            policy.spans = first.iter().map(SpanMention::from).collect();
            policy.nearest =
                nearest.map(|nearest| NearestSpan { span: (&nearest.span).into(), score: nearest.score });
        }
        self.decide(told).await
    }

    /// Adds to each policy which parts of its text decided on one span.
    async fn decide(&self, told: &mut [PolicyExplanation]) -> Result<(), ClickHouseError> {
        let Some(read) = self.read.filter(|_| self.admin) else { return Ok(()) };
        let wanted: Vec<Wanted> = told
            .iter()
            .enumerate()
            .filter_map(|(at, policy)| {
                let nearest = policy.nearest.as_ref().map(|nearest| &nearest.span);
                let span = policy.spans.first().or(nearest)?;
                Some(Wanted {
                    at,
                    expression: policy.expression.clone()?,
                    span: span.clone(),
                    satisfied: policy.outcome == PolicyVerdict::Satisfied,
                })
            })
            .collect();
        let model = self.access.authority.model.clone();
        let spans = self.typed_spans(&wanted, &model, read).await?;
        let (caller, stop) = (self.caller.clone(), Stop(Arc::default()));
        let stopped = Arc::clone(&stop.0);
        let decided = blocking(move || decided(wanted, &spans, &model, &caller, &stopped)).await;
        drop(stop);
        for (at, decided_by) in decided.unwrap_or_default() {
            if let Some(policy) = told.get_mut(at) {
                policy.decided_by = Some(decided_by);
            }
        }
        Ok(())
    }

    /// Returns the spans as policies see them, grouped by identity; spans with equal identities cannot be distinguished.
    async fn typed_spans(
        &self,
        wanted: &[Wanted],
        model: &AccessModel,
        read: SpanReader,
    ) -> Result<HashMap<SpanIdentity, Vec<Span>>, ClickHouseError> {
        let Access { store, binding, .. } = self.access;
        let identities: HashSet<SpanIdentity> = wanted.iter().map(|wanted| (&wanted.span).into()).collect();
        let identities: Vec<SpanIdentity> = identities.into_iter().collect();
        let columns: BTreeSet<String> = model
            .fields
            .iter()
            .filter(|field| field.policy)
            .map(|field| field.field.map.clone().unwrap_or_else(|| field.field.name.clone()))
            .collect();
        let columns: Vec<String> = columns.into_iter().collect();
        let (selection, columns) = (self.selection, Some(columns.as_slice()));
        let spans =
            store.read_spans_by_identity(DECIDING_MAX_BYTES, binding, selection, &identities, columns);
        let lines = match spans.await {
            Err(ClickHouseError::TooLarge(_) | ClickHouseError::UnknownColumn { .. }) => Vec::new(),
            lines => lines?,
        };
        let model = model.clone();
        let typed = blocking(move || typed(lines, &model, read)).await;
        typed.map_err(|error| ClickHouseError::Internal(error.inside().unwrap_or_default()))
    }
}

/// Converts spans to the form that policies see. Blocks its thread for megabytes of spans.
fn typed(
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
fn decided(
    wanted: Vec<Wanted>,
    spans: &HashMap<SpanIdentity, Vec<Span>>,
    model: &AccessModel,
    caller: &Caller,
    stopped: &AtomicBool,
) -> Vec<(usize, DecidedBy)> {
    let deadline = Instant::now() + TIMEOUT;
    let mut decided = Vec::new();
    for Wanted { at, expression, span, satisfied } in wanted {
        if stopped.load(Ordering::Relaxed) || Instant::now() >= deadline {
            break;
        }
        let Some(spans) = spans.get(&SpanIdentity::from(&span)) else { continue };
        let Ok(verdicts) = policy::explain(&expression, model, caller, spans, stopped) else { continue };
        let verdict = verdicts.into_iter().find(|verdict| (verdict.outcome == Outcome::True) == satisfied);
        decided.extend(verdict.map(|verdict| (at, DecidedBy { span, verdict })));
    }
    decided
}
