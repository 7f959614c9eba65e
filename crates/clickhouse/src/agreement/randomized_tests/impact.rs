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

use super::{DataSet, HOUR, MAX_TRACE_DURATION, NOON, SECOND, StoredSpan, Verdicts, expected, field_value};
use crate::aggregate::SamplingPlan;
use crate::agreement::cancellation::unrestricted_scope;
use crate::agreement::filter_reference::strings;
use crate::{
    ClickHouse, CollateralGrouping, CollateralQuery, CollateralValues, Comparison, Difference, ImpactRequest,
    MAX_FIRST_SPANS, MAX_VALUE_BYTES, SelectRequest, SharedValue, TraceCounts, TraceOrder,
};

const TIMEOUT: Duration = Duration::from_secs(120);

/// What was seen, with a random generator of its own: the data sets then do not depend on it.
pub(super) struct ImpactCoverage {
    random: ChaCha8Rng,
    generator: Generator,
    seen: ImpactCounts,
}

#[derive(Debug, Default)]
struct ImpactCounts {
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

impl ImpactCoverage {
    pub(super) fn new(seed: u64) -> Self {
        let seed = seed ^ 0x1a9;
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            generator: Generator::new(seed),
            seen: ImpactCounts::default(),
        }
    }

    pub(super) fn is_sufficient(&self, data_sets: usize) -> bool {
        let ImpactCounts { gained, lost, unchanged, unread, sampled, .. } = self.seen;
        let ImpactCounts { only_shared, hidden, listed, satisfied, unsatisfied, .. } = self.seen;
        let least =
            [gained, lost, unchanged, unread, sampled, only_shared, hidden, listed, satisfied, unsatisfied];
        least.into_iter().all(|seen| seen > data_sets as u64 / 2)
    }

    /// Asserts, at the end, that enough was seen for the comparisons to prove something.
    pub(super) fn assert_sufficient(&self, data_sets: usize) {
        println!("{:?}", self.seen);
        assert!(self.is_sufficient(data_sets), "hardly anything changes: {:?}", self.seen);
    }
}

/// Policies of a caller, each alone.
struct CallerPolicies {
    caller: Caller,
    expressions: Vec<String>,
    /// In the order of the expressions.
    predicates: Vec<Predicate>,
    referenced_fields: Vec<Arc<MarkedField>>,
    /// Whether each predicate is satisfied by each span of the data set.
    matched: Vec<Vec<bool>>,
}

impl CallerPolicies {
    fn new(coverage: &mut ImpactCoverage, data_set: &DataSet, model: &AccessModel) -> Self {
        let caller = coverage.generator.caller();
        let number = coverage.random.random_range(4..8);
        let expressions: Vec<String> = (0..number).map(|_| coverage.generator.expression()).collect();
        let (mut predicates, mut referenced_fields) = (Vec::new(), Vec::new());
        let spans: Vec<Span> = data_set.spans.iter().map(|span| span.values.clone()).collect();
        let mut matched = Vec::new();
        for expression in &expressions {
            let scope = scope(std::slice::from_ref(expression), None, &caller, model);
            predicates.push(scope.predicate().clone());
            referenced_fields.extend(scope.referenced_fields().iter().cloned());
            matched.push(Verdicts::evaluate(std::slice::from_ref(expression), None, &caller, &spans).granted);
        }
        Self { caller, expressions, predicates, referenced_fields, matched }
    }

    fn random_subset(&self, random: &mut ChaCha8Rng) -> Vec<usize> {
        (0..self.predicates.len()).filter(|_| random.random_bool(0.4)).collect()
    }

    /// Returns the ids of the traces that some of the policies grant access to, with real queries.
    async fn granted_traces(
        &self,
        numbers: &[usize],
        store: &ClickHouse,
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
async fn all(store: &ClickHouse, binding: &Binding, scope: &AccessScope, window: Window) -> BTreeSet<String> {
    let (filter, mut after, mut ids) = (Filter::default(), None, BTreeSet::new());
    loop {
        let (filter, limit, progress) = (&filter, 20, None);
        let page = SelectRequest {
            binding,
            scope,
            filter,
            window,
            order: TraceOrder::Newest,
            limit,
            after,
            progress,
        };
        let page = store.select(page).await.unwrap();
        ids.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() {
            return ids;
        }
    }
}

pub(super) async fn check_changes(
    store: &ClickHouse,
    data_set: &DataSet,
    binding: &Binding,
    model: &AccessModel,
    coverage: &mut ImpactCoverage,
) {
    for _ in 0..2 {
        let caller_policies = CallerPolicies::new(coverage, data_set, model);
        let readable = match coverage.random.random_range(0..4) {
            0 => unrestricted_scope(),
            1 => scope(&[], None, &caller_policies.caller, model),
            number => {
                let granting: Vec<String> = (0..4).map(|_| coverage.generator.expression()).collect();
                let within = format!("({}) || ({})", coverage.generator.expression(), granting[0]);
                scope(&granting, (number == 2).then_some(within.as_str()), &caller_policies.caller, model)
            }
        };
        let from =
            NOON + coverage.random.random_range(-6..2) * HOUR / 2 + coverage.random.random_range(-1..=1);
        let length = match coverage.random.random_range(0..6) {
            0 => *[1, SECOND, HOUR].choose(&mut coverage.random).unwrap(),
            _ => 24 * HOUR,
        };
        let at = Timestamp::from_nanos;
        let window = Window::new(at(from), at(from + length)).unwrap();
        let full_count = SamplingPlan::within(TIMEOUT);
        let mut sampling_plan = vec![full_count];
        // A sample of all traces, which reads the same range as the definitions.
        if data_set.index.is_none() {
            sampling_plan.push(SamplingPlan {
                full_count: Duration::ZERO,
                first_share: Some(1.0),
                ..full_count
            });
        }
        let check = ImpactCheck {
            store,
            data_set,
            binding,
            model,
            caller_policies: &caller_policies,
            readable: &readable,
            window,
            sampling_plan: &sampling_plan,
        };
        check.differences(coverage).await;
        check.values(coverage).await;
    }
    let caller_policies = CallerPolicies::new(coverage, data_set, model);
    matching_spans(store, data_set, binding, &caller_policies, coverage).await;
}

struct ImpactCheck<'a> {
    store: &'a ClickHouse,
    data_set: &'a DataSet,
    binding: &'a Binding,
    model: &'a AccessModel,
    caller_policies: &'a CallerPolicies,
    readable: &'a AccessScope,
    window: Window,
    sampling_plan: &'a [SamplingPlan],
}

impl ImpactCheck<'_> {
    async fn differences(&self, coverage: &mut ImpactCoverage) {
        let Self { store, data_set, binding, model, caller_policies, readable, window, .. } = *self;
        let only_readable = coverage.random.random_bool(0.3);
        let samples = *[0, 2, 1_000].choose(&mut coverage.random).unwrap();
        let mut comparisons: Vec<Comparison> = (0..3)
            .map(|_| Comparison {
                before: caller_policies.random_subset(&mut coverage.random),
                after: caller_policies.random_subset(&mut coverage.random),
            })
            .collect();
        comparisons.push(comparisons[0].clone());
        let verdicts = Verdicts { granted: vec![true; data_set.spans.len()], within: None };
        let evaluated_traces = expected(data_set, &verdicts, &Filter::default(), window);
        let readable_ids = all(store, binding, readable, window).await;
        let counted = |id: &&String| !only_readable || readable_ids.contains(*id);
        let mut compared = Vec::new();
        for Comparison { before, after } in &comparisons {
            let before = caller_policies.granted_traces(before, store, binding, model, window).await;
            let after = caller_policies.granted_traces(after, store, binding, model, window).await;
            // Those with the latest span in the window first, then by id, as they are sorted here.
            let traces_where = |test: &dyn Fn(&String) -> bool| -> Vec<&String> {
                evaluated_traces.iter().filter(counted).filter(|id| test(id)).collect()
            };
            let gained = traces_where(&|id| after.contains(id) && !before.contains(id));
            let lost = traces_where(&|id| before.contains(id) && !after.contains(id));
            let ids = |changed: &[&String]| {
                let readable = changed.iter().filter(|id| readable_ids.contains(**id));
                readable.take(samples as usize).map(|id| (*id).clone()).collect::<Vec<String>>()
            };
            let difference = Difference {
                gained: gained.len() as u64,
                lost: lost.len() as u64,
                unchanged: traces_where(&|id| before.contains(id) && after.contains(id)).len() as u64,
                gained_ids: ids(&gained),
                lost_ids: ids(&lost),
            };
            let unread = gained.iter().chain(&lost).filter(|id| !readable_ids.contains(**id)).count();
            let seen = &mut coverage.seen;
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
                binding_after: None,
                predicates: &caller_policies.predicates,
                comparisons: &comparisons,
                collateral: None,
                window,
                readable,
                only_readable,
                referenced_fields: &caller_policies.referenced_fields,
                samples,
                timeout: TIMEOUT,
            };
            let found = store.impact_with_plan(request, *sampling_plan).await.unwrap();
            let context =
                format!("{sampling_plan:?}, {window:?}, {:?}, {comparisons:?}", caller_policies.expressions);
            assert_eq!(found.compared, compared, "{context}");
            let traces = evaluated_traces.iter().filter(counted).count() as u64;
            assert_eq!(found.traces, traces, "{context}");
            // A sample is reported as one, even if it reads everything. If nothing may be counted, nothing is read.
            let nothing = only_readable && readable.is_empty();
            assert_eq!(found.fraction < 1.0, sampling_plan.full_count.is_zero() && !nothing, "{context}");
        }
    }

    async fn values(&self, coverage: &mut ImpactCoverage) {
        let Self { store, data_set, binding, model, caller_policies, readable, window, .. } = *self;
        // Several predicates together, sometimes one of them twice.
        let many = coverage.random.random_range(1..=4);
        let numbers: Vec<usize> =
            (0..many).map(|_| coverage.random.random_range(0..caller_policies.predicates.len())).collect();
        let only_readable = coverage.random.random_bool(0.3);
        let limit = *[0, 2, 1_000, 1_000].choose(&mut coverage.random).unwrap();
        let fields: Vec<&MarkedField> = model
            .fields
            .iter()
            .filter(|field| matches!(field.logical, LogicalType::String | LogicalType::StringArray))
            .collect();
        let by = match coverage.random.random_bool(0.3) {
            true => CollateralGrouping::Column("ServiceName".to_owned()),
            false => {
                CollateralGrouping::Field(Box::new((*fields.choose(&mut coverage.random).unwrap()).clone()))
            }
        };
        let readable_ids = all(store, binding, readable, window).await;
        let mut expected = Vec::new();
        let mut granted_by_any = BTreeSet::new();
        for number in &numbers {
            let granted_traces =
                caller_policies.granted_traces(&[*number], store, binding, model, window).await;
            granted_by_any.extend(
                granted_traces.iter().filter(|id| !only_readable || readable_ids.contains(*id)).cloned(),
            );
            let (mut traces, mut values) = (0, BTreeMap::<Vec<u8>, (u64, u64, bool)>::new());
            for id in granted_traces.iter().filter(|id| !only_readable || readable_ids.contains(*id)) {
                traces += 1;
                let (low, high) = bounds(data_set, id.as_bytes(), window);
                let (mut all, mut matching) = (BTreeSet::new(), BTreeSet::new());
                for (span, matched) in data_set.spans.iter().zip(&caller_policies.matched[*number]) {
                    if span.trace == id.as_bytes() && (low..high).contains(&span.at) {
                        let span_values = span_values(span, &by);
                        matching.extend(span_values.iter().filter(|_| *matched).cloned());
                        all.extend(span_values);
                    }
                }
                for value in all {
                    let own = u64::from(matching.contains(&value));
                    let known = values.entry(value).or_default();
                    *known = (known.0 + 1, known.1 + own, known.2 || readable_ids.contains(id));
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
            numbers.iter().map(|number| caller_policies.predicates[*number].clone()).collect();
        let predicate_sets: Vec<Vec<usize>> = (0..numbers.len()).map(|number| vec![number]).collect();
        // Alone, and together with a comparison.
        let all_gained = Comparison { before: Vec::new(), after: (0..numbers.len()).collect() };
        let comparisons = if coverage.random.random_bool(0.5) { vec![all_gained] } else { Vec::new() };
        for sampling_plan in self.sampling_plan {
            let request = ImpactRequest {
                binding,
                binding_after: None,
                predicates: &predicates,
                comparisons: &comparisons,
                collateral: Some(CollateralQuery { predicate_sets: &predicate_sets, by: &by, limit }),
                window,
                readable,
                only_readable,
                referenced_fields: &caller_policies.referenced_fields,
                samples: 0,
                timeout: TIMEOUT,
            };
            let found = store.impact_with_plan(request, *sampling_plan).await.unwrap();
            let expressions: Vec<_> =
                numbers.iter().map(|number| &caller_policies.expressions[*number]).collect();
            let context = format!("{sampling_plan:?}, {window:?}, {by:?}, {expressions:?}, {comparisons:?}");
            // A sample is reported as one, even if it reads everything. If nothing may be counted, nothing is read.
            let grants_nothing = predicates.iter().all(|predicate| matches!(predicate, Predicate::False));
            let nothing =
                (comparisons.is_empty() && grants_nothing) || (only_readable && readable.is_empty());
            assert_eq!(found.fraction < 1.0, sampling_plan.full_count.is_zero() && !nothing, "{context}");
            assert_eq!(found.collateral_values, expected, "{context}");
            for compared in &found.compared {
                assert_eq!(compared.gained, granted_by_any.len() as u64, "{context}");
            }
        }
        let seen = &mut coverage.seen;
        for shared in &expected {
            seen.only_shared += shared.only_shared;
            seen.hidden += shared.hidden_values;
            seen.listed += shared.values.len() as u64;
        }
    }
}

/// Returns the time bounds within which the spans of a trace count, in nanoseconds, the end exclusive.
pub(super) fn bounds(data_set: &DataSet, trace: &[u8], window: Window) -> (i64, i64) {
    let index = data_set.index.as_ref();
    let offset_nanos = index.and_then(|index| index.offset_nanos).unwrap_or_default();
    // In whole ticks of the spans' own times, which may be coarser.
    let time = |second: i64| {
        (second * SECOND + offset_nanos).div_euclid(data_set.shape.nanos_per_tick)
            * data_set.shape.nanos_per_tick
    };
    let around = (window.from().as_nanos() - MAX_TRACE_DURATION, window.to().as_nanos() + MAX_TRACE_DURATION);
    // The index has an entry for its first second and one for its last.
    let is_near = |second: i64| {
        second * SECOND + offset_nanos < around.1 && (second + 1) * SECOND + offset_nanos > around.0
    };
    match index.and_then(|index| index.seconds.get(trace)) {
        Some((start, end)) if is_near(*start) || is_near(*end) => (time(*start), time(end + 1)),
        _ => around,
    }
}

fn span_values(span: &StoredSpan, by: &CollateralGrouping) -> Vec<Vec<u8>> {
    match by {
        CollateralGrouping::Field(field) => strings(field_value(span, field).as_ref(), field),
        CollateralGrouping::Column(name) => match span.values.get(name) {
            Some(FieldValue::String(value)) if !value.is_empty() => vec![value.clone()],
            _ => Vec::new(),
        },
    }
}

/// Checks some traces of a data set, each completely.
async fn matching_spans(
    store: &ClickHouse,
    data_set: &DataSet,
    binding: &Binding,
    caller_policies: &CallerPolicies,
    coverage: &mut ImpactCoverage,
) {
    let (predicates, referenced_fields) =
        (caller_policies.predicates.as_slice(), caller_policies.referenced_fields.as_slice());
    let ids: BTreeSet<&[u8]> = data_set.spans.iter().map(|span| span.trace.as_slice()).collect();
    for id in ids.into_iter().filter_map(|id| std::str::from_utf8(id).ok()).take(8) {
        let found = store.find(binding, &unrestricted_scope(), id).await.unwrap();
        let counts = store.matching_span_counts(binding, id, predicates, referenced_fields).await.unwrap();
        let Some(found) = found else {
            assert_eq!(counts, None, "{id:?}");
            continue;
        };
        let satisfied = store.matching_spans(binding, &found, predicates, referenced_fields).await.unwrap();
        assert_eq!(satisfied.len(), predicates.len());
        let of_trace = |at: &usize| data_set.spans[*at].trace == id.as_bytes();
        let spans: Vec<usize> = (0..data_set.spans.len()).filter(of_trace).collect();
        let mut expected =
            TraceCounts { trace_id: id.to_owned(), spans: spans.len() as u64, matching_spans: Vec::new() };
        for (number, satisfied) in satisfied.iter().enumerate() {
            let context = format!("{id:?}, {:?}", caller_policies.expressions[number]);
            let matched: Vec<usize> =
                spans.iter().copied().filter(|at| caller_policies.matched[number][*at]).collect();
            expected.matching_spans.push(matched.len() as u64);
            assert_eq!(satisfied.spans, matched.len() as u64, "{context}");
            let first: BTreeSet<(i64, &String)> =
                matched.iter().map(|at| (data_set.spans[*at].at, &data_set.spans[*at].id)).collect();
            let first: Vec<&String> = first.into_iter().map(|(_, id)| id).collect();
            assert!(first.len() <= MAX_FIRST_SPANS);
            assert!(satisfied.first.iter().map(|span| &span.span_id).eq(first), "{context}");
            assert_eq!(satisfied.nearest.is_some(), matched.is_empty(), "{context}");
            if let Some(nearest) = &satisfied.nearest {
                assert!((0.0..1.0).contains(&nearest.score), "{context}: {nearest:?}");
                assert!(spans.iter().any(|at| data_set.spans[*at].id == nearest.span.span_id), "{context}");
                coverage.seen.unsatisfied += 1;
            } else {
                coverage.seen.satisfied += 1;
            }
        }
        assert_eq!(counts, Some(expected));
    }
    let absent = store.matching_span_counts(binding, "absent", predicates, referenced_fields).await.unwrap();
    assert_eq!(absent, None);
}
