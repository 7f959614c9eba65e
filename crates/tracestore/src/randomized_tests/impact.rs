//! The impact of policy changes, collateral access and matching spans: compared with the queries of users, and with the
//! policies' own evaluation of every span.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{AccessModel, Binding, Caller, Filter, LogicalType, MarkedField, Timestamp, Window};
use tracewarden_policy::{
    AccessScope, CompiledPolicies, FieldValue, KeyConstraint, Predicate, RolePolicy, Span, authorise,
};
use tracewarden_testkit::policies::Generator;

use super::{HOUR, MAX_TRACE_DURATION, NOON, SECOND, StoredSpan, Verdicts, World, expected, raw};
use crate::cancellation::everything;
use crate::filter_reference::strings;
use crate::impact::SamplingPlan;
use crate::{
    CollateralGrouping, CollateralQuery, CollateralValues, Comparison, Difference, ImpactRequest,
    MAX_FIRST_SPANS, MAX_VALUE_BYTES, SelectRequest, SharedValue, TraceCounts, TraceStore,
};

const TIMEOUT: Duration = Duration::from_secs(120);

/// What was seen, with a random generator of its own: the data sets then do not depend on it.
pub(super) struct Changes {
    random: ChaCha8Rng,
    generator: Generator,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    gained: u64,
    lost: u64,
    unchanged: u64,
    /// Number of changed traces that may not be read.
    unread: u64,
    /// Number of changed traces in samples of all traces.
    sampled: u64,
    only_shared: u64,
    hidden: u64,
    listed: u64,
    /// Number of predicates that a trace satisfies, and of those that none of its spans satisfies.
    satisfied: u64,
    unsatisfied: u64,
}

impl Changes {
    pub(super) fn new(seed: u64) -> Self {
        let seed = seed ^ 0x1a9;
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            generator: Generator::new(seed),
            seen: Seen::default(),
        }
    }

    pub(super) fn enough(&self, worlds: usize) -> bool {
        let Seen { gained, lost, unchanged, unread, sampled, .. } = self.seen;
        let Seen { only_shared, hidden, listed, satisfied, unsatisfied, .. } = self.seen;
        let least =
            [gained, lost, unchanged, unread, sampled, only_shared, hidden, listed, satisfied, unsatisfied];
        least.into_iter().all(|seen| seen > worlds as u64 / 2)
    }

    /// Asserts, at the end, that enough was seen for the comparisons to prove something.
    pub(super) fn conclude(&self, worlds: usize) {
        println!("{:?}", self.seen);
        assert!(self.enough(worlds), "hardly anything changes: {:?}", self.seen);
    }
}

/// Policies of a caller, each alone.
struct Asked {
    caller: Caller,
    expressions: Vec<String>,
    /// In the order of the expressions.
    predicates: Vec<Predicate>,
    referenced_fields: Vec<Arc<MarkedField>>,
    /// Whether each predicate is satisfied by each span of the data set.
    met: Vec<Vec<bool>>,
}

impl Asked {
    fn new(changes: &mut Changes, world: &World, model: &AccessModel) -> Self {
        let caller = changes.generator.caller();
        let number = changes.random.random_range(4..8);
        let expressions: Vec<String> = (0..number).map(|_| changes.generator.expression()).collect();
        let (mut predicates, mut referenced_fields) = (Vec::new(), Vec::new());
        let spans: Vec<Span> = world.spans.iter().map(|span| span.values.clone()).collect();
        let mut met = Vec::new();
        for expression in &expressions {
            let scope = scope(std::slice::from_ref(expression), None, &caller, model);
            predicates.push(scope.predicate().clone());
            referenced_fields.extend(scope.referenced_fields().iter().cloned());
            met.push(Verdicts::of(std::slice::from_ref(expression), None, &caller, &spans).granted);
        }
        Self { caller, expressions, predicates, referenced_fields, met }
    }

    fn some(&self, random: &mut ChaCha8Rng) -> Vec<usize> {
        (0..self.predicates.len()).filter(|_| random.random_bool(0.4)).collect()
    }

    /// Returns the ids of the traces that some of the policies grant access to, with real queries.
    async fn opened(
        &self,
        numbers: &[usize],
        store: &TraceStore,
        binding: &Binding,
        model: &AccessModel,
        window: Window,
    ) -> BTreeSet<String> {
        let chosen: Vec<String> = numbers.iter().map(|number| self.expressions[*number].clone()).collect();
        let scope = scope(&chosen, None, &self.caller, model);
        all(store, binding, &scope, window).await
    }
}

fn scope(expressions: &[String], within: Option<&str>, caller: &Caller, model: &AccessModel) -> AccessScope {
    let policies = expressions.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
    let within = within.map(|expression| KeyConstraint { expression, knows_policy_fields: true });
    authorise(policies, within, caller, model, &CompiledPolicies::new()).unwrap()
}

/// Returns the trace ids of all pages of a query.
async fn all(store: &TraceStore, binding: &Binding, scope: &AccessScope, window: Window) -> BTreeSet<String> {
    let (filter, mut after, mut ids) = (Filter::default(), None, BTreeSet::new());
    loop {
        let (filter, limit, progress) = (&filter, 20, None);
        let page = SelectRequest { binding, scope, filter, window, limit, after, progress };
        let page = store.select(page).await.unwrap();
        ids.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() {
            return ids;
        }
    }
}

pub(super) async fn of_changes(
    store: &TraceStore,
    world: &World,
    binding: &Binding,
    model: &AccessModel,
    changes: &mut Changes,
) {
    for _ in 0..2 {
        let asked = Asked::new(changes, world, model);
        let readable = match changes.random.random_range(0..4) {
            0 => everything(),
            1 => scope(&[], None, &asked.caller, model),
            number => {
                let granting: Vec<String> = (0..4).map(|_| changes.generator.expression()).collect();
                let within = format!("({}) || ({})", changes.generator.expression(), granting[0]);
                scope(&granting, (number == 2).then_some(within.as_str()), &asked.caller, model)
            }
        };
        let from = NOON + changes.random.random_range(-6..2) * HOUR / 2 + changes.random.random_range(-1..=1);
        let length = match changes.random.random_range(0..6) {
            0 => *[1, SECOND, HOUR].choose(&mut changes.random).unwrap(),
            _ => 24 * HOUR,
        };
        let at = Timestamp::from_nanos;
        let window = Window::new(at(from), at(from + length)).unwrap();
        let whole = SamplingPlan::within(TIMEOUT);
        let mut sampling_plan = vec![whole];
        // A sample of all traces, which reads the same range as the definitions.
        if world.index.is_none() {
            sampling_plan.push(SamplingPlan { whole: Duration::ZERO, first_share: Some(1.0), ..whole });
        }
        let round = Round {
            store,
            world,
            binding,
            model,
            asked: &asked,
            readable: &readable,
            window,
            sampling_plan: &sampling_plan,
        };
        round.differences(changes).await;
        round.values(changes).await;
    }
    let asked = Asked::new(changes, world, model);
    matching_spans(store, world, binding, &asked, changes).await;
}

struct Round<'a> {
    store: &'a TraceStore,
    world: &'a World,
    binding: &'a Binding,
    model: &'a AccessModel,
    asked: &'a Asked,
    readable: &'a AccessScope,
    window: Window,
    sampling_plan: &'a [SamplingPlan],
}

impl Round<'_> {
    async fn differences(&self, changes: &mut Changes) {
        let Self { store, world, binding, model, asked, readable, window, .. } = *self;
        let only_readable = changes.random.random_bool(0.3);
        let samples = *[0, 2, 1_000].choose(&mut changes.random).unwrap();
        let mut comparisons: Vec<Comparison> = (0..3)
            .map(|_| Comparison {
                before: asked.some(&mut changes.random),
                after: asked.some(&mut changes.random),
            })
            .collect();
        comparisons.push(comparisons[0].clone());
        let verdicts = Verdicts { granted: vec![true; world.spans.len()], within: None };
        let looked_at = expected(world, &verdicts, &Filter::default(), window);
        let may_read = all(store, binding, readable, window).await;
        let counted = |id: &&String| !only_readable || may_read.contains(*id);
        let mut compared = Vec::new();
        for Comparison { before, after } in &comparisons {
            let before = asked.opened(before, store, binding, model, window).await;
            let after = asked.opened(after, store, binding, model, window).await;
            // Those with the latest span in the window first, then by id, as they are sorted here.
            let of = |test: &dyn Fn(&String) -> bool| -> Vec<&String> {
                looked_at.iter().filter(counted).filter(|id| test(id)).collect()
            };
            let gained = of(&|id| after.contains(id) && !before.contains(id));
            let lost = of(&|id| before.contains(id) && !after.contains(id));
            let ids = |changed: &[&String]| {
                let readable = changed.iter().filter(|id| may_read.contains(**id));
                readable.take(samples as usize).map(|id| (*id).clone()).collect::<Vec<String>>()
            };
            let difference = Difference {
                gained: gained.len() as u64,
                lost: lost.len() as u64,
                unchanged: of(&|id| before.contains(id) && after.contains(id)).len() as u64,
                gained_ids: ids(&gained),
                lost_ids: ids(&lost),
            };
            let unread = gained.iter().chain(&lost).filter(|id| !may_read.contains(**id)).count();
            let seen = &mut changes.seen;
            seen.gained += difference.gained;
            seen.lost += difference.lost;
            seen.unchanged += difference.unchanged;
            seen.unread += unread as u64;
            seen.sampled +=
                if self.sampling_plan.len() > 1 { difference.gained + difference.lost } else { 0 };
            compared.push(difference);
        }
        for sampling_plan in self.sampling_plan {
            let request = ImpactRequest {
                binding,
                predicates: &asked.predicates,
                comparisons: &comparisons,
                collateral: None,
                window,
                readable,
                only_readable,
                referenced_fields: &asked.referenced_fields,
                samples,
                timeout: TIMEOUT,
            };
            let found = store.impact_by(request, *sampling_plan).await.unwrap();
            let context = format!("{sampling_plan:?}, {window:?}, {:?}, {comparisons:?}", asked.expressions);
            assert_eq!(found.compared, compared, "{context}");
            let traces = looked_at.iter().filter(counted).count() as u64;
            assert_eq!(found.traces, traces, "{context}");
            // A sample is reported as one, even if it reads everything. If nothing may be counted, nothing is read.
            let nothing = only_readable && readable.is_empty();
            assert_eq!(found.fraction < 1.0, sampling_plan.whole.is_zero() && !nothing, "{context}");
        }
    }

    async fn values(&self, changes: &mut Changes) {
        let Self { store, world, binding, model, asked, readable, window, .. } = *self;
        // Several predicates together, sometimes one of them twice.
        let many = changes.random.random_range(1..=4);
        let numbers: Vec<usize> =
            (0..many).map(|_| changes.random.random_range(0..asked.predicates.len())).collect();
        let only_readable = changes.random.random_bool(0.3);
        let limit = *[0, 2, 1_000, 1_000].choose(&mut changes.random).unwrap();
        let fields: Vec<&MarkedField> = model
            .fields
            .iter()
            .filter(|field| matches!(field.logical, LogicalType::String | LogicalType::StringArray))
            .collect();
        let by = match changes.random.random_bool(0.3) {
            true => CollateralGrouping::Column("ServiceName"),
            false => CollateralGrouping::Field(fields.choose(&mut changes.random).unwrap()),
        };
        let may_read = all(store, binding, readable, window).await;
        let mut expected = Vec::new();
        let mut opened_by_any = BTreeSet::new();
        for number in &numbers {
            let opened = asked.opened(&[*number], store, binding, model, window).await;
            opened_by_any
                .extend(opened.iter().filter(|id| !only_readable || may_read.contains(*id)).cloned());
            let (mut traces, mut values) = (0, BTreeMap::<Vec<u8>, (u64, u64, bool)>::new());
            for id in opened.iter().filter(|id| !only_readable || may_read.contains(*id)) {
                traces += 1;
                let (low, high) = bounds(world, id.as_bytes(), window);
                let (mut all, mut matching) = (BTreeSet::new(), BTreeSet::new());
                for (span, met) in world.spans.iter().zip(&asked.met[*number]) {
                    if span.trace == id.as_bytes() && (low..high).contains(&span.at) {
                        let of_span = of_span(span, by);
                        matching.extend(of_span.iter().filter(|_| *met).cloned());
                        all.extend(of_span);
                    }
                }
                for value in all {
                    let own = u64::from(matching.contains(&value));
                    let known = values.entry(value).or_default();
                    *known = (known.0 + 1, known.1 + own, known.2 || may_read.contains(id));
                }
            }
            let distinct = values.len() as u64;
            let only_shared = values.values().filter(|(_, own, _)| *own == 0).count() as u64;
            let mut listed: Vec<SharedValue> = values
                .into_iter()
                .filter(|(value, (.., open))| *open && value.len() <= MAX_VALUE_BYTES)
                .filter_map(|(value, (traces, matching_traces, _))| {
                    Some(SharedValue { value: String::from_utf8(value).ok()?, traces, matching_traces })
                })
                .collect();
            let hidden_values = distinct - listed.len() as u64;
            let key =
                |shared: &SharedValue| (Reverse(shared.traces), shared.matching_traces, shared.value.clone());
            listed.sort_by_key(key);
            listed.truncate(limit as usize);
            expected.push(CollateralValues { traces, values: listed, distinct, hidden_values, only_shared });
        }
        let predicates: Vec<Predicate> =
            numbers.iter().map(|number| asked.predicates[*number].clone()).collect();
        let predicate_sets: Vec<Vec<usize>> = (0..numbers.len()).map(|number| vec![number]).collect();
        // Alone, and together with a comparison.
        let all_gained = Comparison { before: Vec::new(), after: (0..numbers.len()).collect() };
        let comparisons = if changes.random.random_bool(0.5) { vec![all_gained] } else { Vec::new() };
        for sampling_plan in self.sampling_plan {
            let request = ImpactRequest {
                binding,
                predicates: &predicates,
                comparisons: &comparisons,
                collateral: Some(CollateralQuery { predicate_sets: &predicate_sets, by, limit }),
                window,
                readable,
                only_readable,
                referenced_fields: &asked.referenced_fields,
                samples: 0,
                timeout: TIMEOUT,
            };
            let found = store.impact_by(request, *sampling_plan).await.unwrap();
            let expressions: Vec<_> = numbers.iter().map(|number| &asked.expressions[*number]).collect();
            let context = format!("{sampling_plan:?}, {window:?}, {by:?}, {expressions:?}, {comparisons:?}");
            // A sample is reported as one, even if it reads everything. If nothing may be counted, nothing is read.
            let unopened = predicates.iter().all(|predicate| matches!(predicate, Predicate::False));
            let nothing = (comparisons.is_empty() && unopened) || (only_readable && readable.is_empty());
            assert_eq!(found.fraction < 1.0, sampling_plan.whole.is_zero() && !nothing, "{context}");
            assert_eq!(found.shared, expected, "{context}");
            for compared in &found.compared {
                assert_eq!(compared.gained, opened_by_any.len() as u64, "{context}");
            }
        }
        let seen = &mut changes.seen;
        for shared in &expected {
            seen.only_shared += shared.only_shared;
            seen.hidden += shared.hidden_values;
            seen.listed += shared.values.len() as u64;
        }
    }
}

/// Returns the time bounds within which the spans of a trace count, in nanoseconds, the end exclusive.
pub(super) fn bounds(world: &World, trace: &[u8], window: Window) -> (i64, i64) {
    let index = world.index.as_ref();
    let finer = index.and_then(|index| index.finer).unwrap_or_default();
    // In whole ticks of the spans' own times, which may be coarser.
    let time = |second: i64| {
        (second * SECOND + finer).div_euclid(world.shape.nanos_per_tick) * world.shape.nanos_per_tick
    };
    let around = (window.from().as_nanos() - MAX_TRACE_DURATION, window.to().as_nanos() + MAX_TRACE_DURATION);
    // The index has an entry for its first second and one for its last.
    let is_near =
        |second: i64| second * SECOND + finer < around.1 && (second + 1) * SECOND + finer > around.0;
    match index.and_then(|index| index.seconds.get(trace)) {
        Some((start, end)) if is_near(*start) || is_near(*end) => (time(*start), time(end + 1)),
        _ => around,
    }
}

fn of_span(span: &StoredSpan, by: CollateralGrouping<'_>) -> Vec<Vec<u8>> {
    match by {
        CollateralGrouping::Field(field) => strings(raw(span, field).as_ref(), field),
        CollateralGrouping::Column(name) => match span.values.get(name) {
            Some(FieldValue::String(value)) if !value.is_empty() => vec![value.clone()],
            _ => Vec::new(),
        },
    }
}

/// Checks some traces of a data set, each completely.
async fn matching_spans(
    store: &TraceStore,
    world: &World,
    binding: &Binding,
    asked: &Asked,
    changes: &mut Changes,
) {
    let (predicates, referenced_fields) = (asked.predicates.as_slice(), asked.referenced_fields.as_slice());
    let ids: BTreeSet<&[u8]> = world.spans.iter().map(|span| span.trace.as_slice()).collect();
    for id in ids.into_iter().filter_map(|id| std::str::from_utf8(id).ok()).take(8) {
        let found = store.find(binding, &everything(), id).await.unwrap();
        let counts = store.satisfied_counts(binding, id, predicates, referenced_fields).await.unwrap();
        let Some(found) = found else {
            assert_eq!(counts, None, "{id:?}");
            continue;
        };
        let satisfied = store.satisfied(binding, &found, predicates, referenced_fields).await.unwrap();
        assert_eq!(satisfied.len(), predicates.len());
        let of_trace = |at: &usize| world.spans[*at].trace == id.as_bytes();
        let spans: Vec<usize> = (0..world.spans.len()).filter(of_trace).collect();
        let mut expected =
            TraceCounts { trace_id: id.to_owned(), spans: spans.len() as u64, satisfied: Vec::new() };
        for (number, satisfied) in satisfied.iter().enumerate() {
            let context = format!("{id:?}, {:?}", asked.expressions[number]);
            let met: Vec<usize> = spans.iter().copied().filter(|at| asked.met[number][*at]).collect();
            expected.satisfied.push(met.len() as u64);
            assert_eq!(satisfied.spans, met.len() as u64, "{context}");
            let first: BTreeSet<(i64, &String)> =
                met.iter().map(|at| (world.spans[*at].at, &world.spans[*at].id)).collect();
            let first: Vec<&String> = first.into_iter().map(|(_, id)| id).collect();
            assert!(first.len() <= MAX_FIRST_SPANS);
            assert!(satisfied.first.iter().map(|span| &span.span_id).eq(first), "{context}");
            assert_eq!(satisfied.nearest.is_some(), met.is_empty(), "{context}");
            if let Some(nearest) = &satisfied.nearest {
                assert!((0.0..1.0).contains(&nearest.score), "{context}: {nearest:?}");
                assert!(spans.iter().any(|at| world.spans[*at].id == nearest.span.span_id), "{context}");
                changes.seen.unsatisfied += 1;
            } else {
                changes.seen.satisfied += 1;
            }
        }
        assert_eq!(counts, Some(expected));
    }
    let absent = store.satisfied_counts(binding, "absent", predicates, referenced_fields).await.unwrap();
    assert_eq!(absent, None);
}
