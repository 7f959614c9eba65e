//! What an explanation tells of spans, to who may read the trace: names, services, and what decided on one of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::time::{Duration, Instant};
use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{self as policy, Outcome, Span};
use tracewarden_tracestore::{Selection, StoreError};

use super::policies::FoundSatisfied;
use super::{DecidedBy, NearestSpan, PolicyExplanation, PolicyVerdict, SpanMention, SpanReader};
use crate::access::Access;
use crate::open_trace::LITTLE_BYTES;
use crate::service::blocking;

/// Longest text that is shown of a span, in characters: whoever sends spans chooses how long their names are.
const MAX_TEXT: usize = 100;
/// Spans that decide are told without what decided on them when they are larger together: as policies see them, they take several
/// times as much.
const DECIDING_MAX_BYTES: usize = 4 * LITTLE_BYTES;
/// How long evaluating all policies on their spans may take; those for which there is no time are told without.
const PATIENCE: Duration = Duration::from_secs(2);

/// A trace that the asker may read.
pub(super) struct Trace<'a> {
    pub(super) access: &'a Access,
    pub(super) selection: &'a Selection,
    /// For whom policies are evaluated.
    pub(super) caller: &'a Caller,
    /// Whether the asker administers.
    pub(super) admin: bool,
    pub(super) read: Option<SpanReader>,
}

/// Evaluating ends soon after nobody waits for it any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A policy whose decision on a span is wanted.
struct Wanted {
    /// Its place.
    at: usize,
    expression: String,
    span_id: String,
    satisfied: bool,
}

impl Trace<'_> {
    /// Adds to each policy what there is to tell of spans; of the nearest one where `nearest` says so.
    pub(super) async fn tell(
        &self,
        told: &mut [PolicyExplanation],
        found: &FoundSatisfied,
        nearest: Vec<bool>,
    ) -> Result<(), StoreError> {
        let found: Vec<_> = found
            .each
            .iter()
            .zip(nearest)
            .map(|(satisfied, nearest)| {
                let first = satisfied.as_ref().map(|found| found.first.as_slice()).unwrap_or_default();
                (first, satisfied.as_ref().and_then(|found| found.nearest.as_ref()).filter(|_| nearest))
            })
            .collect();
        let ids = found.iter().flat_map(|(first, nearest)| {
            first.iter().map(String::as_str).chain(nearest.map(|nearest| nearest.span_id.as_str()))
        });
        let ids: BTreeSet<&str> = ids.collect();
        let mentions = self.mentions(&ids).await?;
        let mention = |id: &str| {
            let unnamed = || SpanMention { span_id: id.to_owned(), name: None, service: None };
            mentions.get(id).cloned().unwrap_or_else(unnamed)
        };
        for (policy, (first, nearest)) in told.iter_mut().zip(&found) {
            policy.spans = first.iter().map(|id| mention(id)).collect();
            policy.nearest =
                nearest.map(|nearest| NearestSpan { span: mention(&nearest.span_id), score: nearest.score });
        }
        self.decide(told).await
    }

    /// Names and services of spans, by id; of several with one id, those of the first.
    async fn mentions(&self, ids: &BTreeSet<&str>) -> Result<HashMap<String, SpanMention>, StoreError> {
        let Access { store, binding, .. } = self.access;
        let display = &binding.display;
        let columns: Vec<String> = [&display.name, &display.service].into_iter().flatten().cloned().collect();
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        if ids.is_empty() || columns.is_empty() {
            return Ok(HashMap::new());
        }
        let spans = store.read_spans(LITTLE_BYTES, binding, self.selection, &ids, Some(&columns));
        let spans = match spans.await {
            // Then they are told by their ids alone. A display column that is gone decides nothing either.
            Err(StoreError::TooLarge(_) | StoreError::UnknownColumn { .. }) => Vec::new(),
            spans => spans?,
        };
        let mut mentions = HashMap::new();
        for span in spans {
            let Ok(span) = serde_json::from_str::<Value>(&span) else { continue };
            let text = |column: &Option<String>| {
                let text = span.get(column.as_ref()?)?.as_str()?;
                Some(text.chars().take(MAX_TEXT).collect::<String>())
            };
            let Some(id) = span.get(&binding.span_id).and_then(Value::as_str) else { continue };
            mentions.entry(id.to_owned()).or_insert_with(|| SpanMention {
                span_id: id.to_owned(),
                name: text(&display.name),
                service: text(&display.service),
            });
        }
        Ok(mentions)
    }

    /// Says for each policy which parts of its text decided on one span.
    async fn decide(&self, told: &mut [PolicyExplanation]) -> Result<(), StoreError> {
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
                    span_id: span.span_id.clone(),
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

    /// The spans as policies see them, by id; an id can have several.
    async fn typed_spans(
        &self,
        wanted: &[Wanted],
        model: &AccessModel,
        read: SpanReader,
    ) -> Result<HashMap<String, Vec<Span>>, StoreError> {
        let Access { store, binding, .. } = self.access;
        let ids: BTreeSet<String> = wanted.iter().map(|wanted| wanted.span_id.clone()).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let columns: BTreeSet<String> = model
            .fields
            .iter()
            .filter(|field| field.policy)
            .map(|field| field.field.map.clone().unwrap_or_else(|| field.field.name.clone()))
            .collect();
        let columns: Vec<String> = columns.into_iter().collect();
        let spans = store.read_spans(DECIDING_MAX_BYTES, binding, self.selection, &ids, Some(&columns));
        let lines = match spans.await {
            Err(StoreError::TooLarge(_) | StoreError::UnknownColumn { .. }) => Vec::new(),
            lines => lines?,
        };
        let (span_id, model) = (binding.span_id.clone(), model.clone());
        let typed = blocking(move || typed(lines, &span_id, &model, read)).await;
        typed.map_err(|error| StoreError::Internal(error.inside().unwrap_or_default()))
    }
}

/// Spans as policies see them, by id. Of megabytes of spans, this keeps a thread busy.
fn typed(
    lines: Vec<String>,
    span_id: &str,
    model: &AccessModel,
    read: SpanReader,
) -> HashMap<String, Vec<Span>> {
    let mut spans: HashMap<String, Vec<Span>> = HashMap::new();
    for line in lines {
        let Ok(json) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = json.get(span_id).and_then(Value::as_str) else { continue };
        if let Some(span) = read(&line, model) {
            spans.entry(id.to_owned()).or_default().push(span);
        }
    }
    spans
}

/// What the reference evaluator says. Where it does not say what the store said, which reads bytes that JSON cannot hold,
/// nothing is told: an explanation must not contradict the decision.
fn decided(
    wanted: Vec<Wanted>,
    spans: &HashMap<String, Vec<Span>>,
    model: &AccessModel,
    caller: &Caller,
    stopped: &AtomicBool,
) -> Vec<(usize, DecidedBy)> {
    let deadline = Instant::now() + PATIENCE;
    let mut decided = Vec::new();
    for Wanted { at, expression, span_id, satisfied } in wanted {
        if stopped.load(Ordering::Relaxed) || Instant::now() >= deadline {
            break;
        }
        let Some(spans) = spans.get(&span_id) else { continue };
        let Ok(verdicts) = policy::explain(&expression, model, caller, spans, stopped) else { continue };
        let verdict = verdicts.into_iter().find(|verdict| (verdict.outcome == Outcome::True) == satisfied);
        decided.extend(verdict.map(|verdict| (at, DecidedBy { span_id, verdict })));
    }
    decided
}
