//! Statistics of all matching traces, compared with direct counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{AccessModel, Binding, Filter, LogicalType, MarkedField, Timestamp, Window};

use super::{
    DataSet, HOUR, MAX_TRACE_DURATION, NOON, Query, StoredSpan, Verdicts, expected, field_value, is_match,
};
use crate::agreement::cancellation::unrestricted_scope;
use crate::agreement::filter_reference::strings;
use crate::{
    Buckets, ClickHouse, FacetValue, MAX_FACET_VALUES, MAX_VALUE_BYTES, Stats, StatsGroup, StatsNumbers,
    StatsOrder, StatsRequest, StatsUnit,
};

/// What was counted, with a random generator of its own: the data sets then do not depend on these counts.
#[derive(Debug)]
pub(super) struct StatsCoverage {
    random: ChaCha8Rng,
    /// Number of groups by no field, one field, and two fields.
    groups: [usize; 3],
    /// Number of answers about the newest traces only.
    cut: usize,
    unlisted: u64,
    /// Number of buckets with spans, per span and per trace, and of values of facets.
    buckets: [usize; 2],
    facet_values: usize,
}

impl StatsCoverage {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            groups: [0; 3],
            cut: 0,
            unlisted: 0,
            buckets: [0; 2],
            facet_values: 0,
        }
    }

    pub(super) fn is_sufficient(&self, data_sets: usize) -> bool {
        let [none, one, two] = self.groups;
        none == 0
            && one.min(two) > data_sets * 3
            && self.cut > data_sets / 2
            && self.unlisted > 0
            && self.buckets.iter().chain([&self.facet_values]).all(|seen| *seen > data_sets * 3)
    }
}

/// Counts all traces of a data set, since most callers see few.
pub(super) async fn check_all_traces(
    store: &ClickHouse,
    data_set: &DataSet,
    binding: &Binding,
    model: &AccessModel,
    coverage: &mut StatsCoverage,
) {
    let (scope, filter) = (unrestricted_scope(), Filter::default());
    let verdicts = Verdicts { granted: vec![true; data_set.spans.len()], within: None };
    for hours in [1, 24] {
        let at = |hours: i64| Timestamp::from_nanos(NOON + hours * HOUR);
        let query = Query {
            binding,
            scope: &scope,
            filter: &filter,
            window: Window::new(at(-hours), at(hours)).unwrap(),
        };
        let expected = expected(data_set, &verdicts, &filter, query.window);
        for fields in 0..=2 {
            check_groups(fields, store, data_set, &query, (&expected, &verdicts), model, coverage).await;
        }
    }
}

/// Counts the traces that a query selects.
pub(super) async fn check_query(
    store: &ClickHouse,
    data_set: &DataSet,
    query: &Query<'_>,
    (expected, verdicts): (&[String], &Verdicts),
    model: &AccessModel,
    coverage: &mut StatsCoverage,
) {
    let fields = coverage.random.random_range(0..=2);
    check_groups(fields, store, data_set, query, (expected, verdicts), model, coverage).await;
}

/// Counts in groups by this number of fields.
async fn check_groups(
    fields: usize,
    store: &ClickHouse,
    data_set: &DataSet,
    query: &Query<'_>,
    (expected, verdicts): (&[String], &Verdicts),
    model: &AccessModel,
    coverage: &mut StatsCoverage,
) {
    let groupable: Vec<&MarkedField> = model
        .fields
        .iter()
        .filter(|field| matches!(field.logical, LogicalType::String | LogicalType::StringArray))
        .collect();
    let random = &mut coverage.random;
    let group: Vec<MarkedField> = (0..fields).map(|_| (*groupable.choose(random).unwrap()).clone()).collect();
    let per = *[StatsUnit::Span, StatsUnit::Trace].choose(random).unwrap();
    let order = [StatsOrder::Count, StatsOrder::Errors, StatsOrder::ErrorRate, StatsOrder::Duration];
    let order = *order.choose(random).unwrap();
    let limit = *[1, 3, 1_000, 1_000].choose(random).unwrap();
    let max_traces = if random.random_bool(0.3) { random.random_range(1..5) } else { 1_000 };
    let Query { binding, scope, filter, window } = *query;
    let buckets = random.random_bool(0.5).then(|| Buckets::covering(window, random.random_range(1..30)));
    let facets: Vec<MarkedField> =
        (0..random.random_range(0..3)).map(|_| (*groupable.choose(random).unwrap()).clone()).collect();
    let request = StatsRequest {
        binding,
        scope,
        filter,
        window,
        group: &group,
        per,
        order,
        limit,
        max_traces,
        buckets,
        facets: &facets,
    };
    let found = store.stats(request).await.unwrap();

    let evaluated_traces = &expected[..expected.len().min(max_traces as usize)];
    let (from, to) = (window.from().as_nanos(), window.to().as_nanos());
    let near = from - MAX_TRACE_DURATION..to + MAX_TRACE_DURATION;
    let spans: Vec<&StoredSpan> = data_set
        .spans
        .iter()
        .filter(|span| near.contains(&span.at))
        .filter(|span| evaluated_traces.iter().any(|id| id.as_bytes() == span.trace))
        .collect();
    let mut groups: BTreeMap<Vec<Vec<u8>>, Vec<&StoredSpan>> = BTreeMap::new();
    for span in &spans {
        for values in values(span, &group) {
            groups.entry(values).or_default().push(span);
        }
    }
    let compute = |chosen: &[&StoredSpan]| match per {
        StatsUnit::Span => span_numbers(chosen),
        StatsUnit::Trace => trace_numbers(chosen, &spans),
    };
    let distinct = groups.len() as u64;
    let mut listed: Vec<StatsGroup> = groups
        .into_iter()
        .filter_map(|(values, chosen)| {
            Some(StatsGroup { values: as_text(values)?, numbers: compute(&chosen) })
        })
        .collect();
    let unlisted = distinct - listed.len() as u64;
    listed.sort_by_key(|group| sort_key(group, per, order));
    listed.truncate(limit as usize);

    let no_traces = StatsNumbers { errors: Some(0), ..StatsNumbers::default() };
    let total = if spans.is_empty() { no_traces.clone() } else { compute(&spans) };
    assert_eq!(total.traces, evaluated_traces.len() as u64);
    let context = format!("by {group:?} {per:?} {order:?}, {limit} groups of {max_traces}, {window:?}");
    assert_eq!(found.total, total, "{context}");
    assert_eq!(
        (found.complete, found.distinct),
        (evaluated_traces.len() == expected.len(), distinct),
        "{context}"
    );
    assert_eq!(found.groups, listed, "{context}");
    let in_bucket = |span: &StoredSpan| match per {
        StatsUnit::Span => Some(span.at),
        StatsUnit::Trace => order_time(data_set, verdicts, query, span, &spans),
    };
    for bucket in &found.buckets {
        let range = bucket.from.as_nanos()..bucket.to.as_nanos();
        let chosen: Vec<&StoredSpan> = (spans.iter().copied())
            .filter(|span| in_bucket(span).is_some_and(|at| range.contains(&at)))
            .collect();
        let expected = if chosen.is_empty() { no_traces.clone() } else { compute(&chosen) };
        assert_eq!(bucket.numbers, expected, "{range:?}, {context}");
        coverage.buckets[usize::from(per == StatsUnit::Trace)] += usize::from(!chosen.is_empty());
    }
    check_facets(&found, &facets, &spans, &context);
    coverage.facet_values += found.facets.iter().map(|facet| facet.values.len()).sum::<usize>();
    coverage.groups[fields] += listed.len();
    coverage.cut += usize::from(!found.complete);
    coverage.unlisted += unlisted;
}

/// Time of a span's trace in the order `newest`, of the spans that are counted.
fn order_time(
    data_set: &DataSet,
    verdicts: &Verdicts,
    query: &Query<'_>,
    span: &StoredSpan,
    spans: &[&StoredSpan],
) -> Option<i64> {
    let window = query.window.from().as_nanos()..query.window.to().as_nanos();
    let inside = || spans.iter().filter(|other| other.trace == span.trace && window.contains(&other.at));
    let matching = inside().filter(|other| {
        let at = data_set.spans.iter().position(|span| std::ptr::eq(span, **other)).unwrap();
        is_match(data_set, verdicts, query.filter, at)
    });
    matching.map(|span| span.at).max().or_else(|| inside().map(|span| span.at).max())
}

fn check_facets(found: &Stats, facets: &[MarkedField], spans: &[&StoredSpan], context: &str) {
    assert_eq!(found.facets.len(), facets.len(), "{context}");
    for (found, field) in found.facets.iter().zip(facets) {
        let mut traces: BTreeMap<Vec<u8>, BTreeSet<&[u8]>> = BTreeMap::new();
        for span in spans {
            for values in values(span, std::slice::from_ref(field)) {
                traces.entry(values.concat()).or_default().insert(&span.trace);
            }
        }
        assert_eq!(found.distinct, traces.len() as u64, "{field:?}, {context}");
        let mut expected: Vec<FacetValue> = traces
            .into_iter()
            .filter_map(|(value, traces)| {
                let value = as_text(vec![value])?.remove(0);
                Some(FacetValue { value, traces: traces.len() as u64 })
            })
            .collect();
        expected.sort_by_key(|value| (Reverse(value.traces), value.value.clone()));
        expected.truncate(MAX_FACET_VALUES);
        assert_eq!(found.values, expected, "{field:?}, {context}");
    }
}

/// Returns the groups of a span.
fn values(span: &StoredSpan, fields: &[MarkedField]) -> Vec<Vec<Vec<u8>>> {
    let compute = |field: &MarkedField| strings(field_value(span, field).as_ref(), field);
    match fields {
        [] => Vec::new(),
        [field] => compute(field).into_iter().map(|value| vec![value]).collect(),
        [field, other, ..] => {
            let others = compute(other);
            let pairs = |value: Vec<u8>| others.iter().map(move |other| vec![value.clone(), other.clone()]);
            compute(field).into_iter().flat_map(pairs).collect()
        }
    }
}

fn as_text(values: Vec<Vec<u8>>) -> Option<Vec<String>> {
    let as_text =
        |value: Vec<u8>| String::from_utf8(value).ok().filter(|value| value.len() <= MAX_VALUE_BYTES);
    values.into_iter().map(as_text).collect()
}

type SortKey = (Reverse<u64>, Reverse<u64>, Vec<String>);

fn sort_key(group: &StatsGroup, per: StatsUnit, order: StatsOrder) -> SortKey {
    let StatsNumbers { traces, spans, errors, p95_nanos, .. } = group.numbers;
    let count = if per == StatsUnit::Span { spans } else { traces };
    let first = match order {
        StatsOrder::Count => count,
        StatsOrder::Errors => errors.unwrap(),
        // Positive floats are sorted like their bits.
        StatsOrder::ErrorRate => (errors.unwrap() as f64 / count as f64).to_bits(),
        StatsOrder::Duration => p95_nanos.unwrap() as u64,
    };
    (Reverse(first), Reverse(count), group.values.clone())
}

fn span_numbers(spans: &[&StoredSpan]) -> StatsNumbers {
    let traces: BTreeSet<&[u8]> = spans.iter().map(|span| span.trace.as_slice()).collect();
    let errors = spans.iter().filter(|span| span.failed()).count();
    let durations = spans.iter().map(|span| span.nanos()).collect();
    let invalid = spans.iter().any(|span| span.is_invalid());
    numbers(traces.len(), spans.len(), errors, durations, invalid)
}

/// Counts the traces of some spans, each with all its spans.
fn trace_numbers(chosen: &[&StoredSpan], all: &[&StoredSpan]) -> StatsNumbers {
    let ids: BTreeSet<&[u8]> = chosen.iter().map(|span| span.trace.as_slice()).collect();
    let (mut spans, mut errors, mut durations, mut invalid) = (0, 0, Vec::new(), false);
    for id in &ids {
        let of_trace: Vec<_> = all.iter().filter(|span| span.trace == *id).collect();
        let start = of_trace.iter().map(|span| i128::from(span.at)).min().unwrap();
        let end = of_trace.iter().map(|span| i128::from(span.at) + i128::from(span.nanos())).max().unwrap();
        durations.push(i64::try_from(end - start).unwrap_or(i64::MAX));
        spans += of_trace.len();
        invalid |= of_trace.iter().any(|span| span.is_invalid());
        errors += usize::from(of_trace.iter().any(|span| span.failed()));
    }
    numbers(ids.len(), spans, errors, durations, invalid)
}

fn numbers(
    traces: usize,
    spans: usize,
    errors: usize,
    mut durations: Vec<i64>,
    duration_invalid: bool,
) -> StatsNumbers {
    durations.sort_unstable();
    let longest = *durations.last().unwrap();
    let percentile = |level: f64| {
        let rank = (durations.len() as f64 * level).ceil() as usize;
        let exact = durations[rank.max(1) - 1];
        // Eight significant binary digits; the rest is cut off.
        let cut = f32::from_bits((exact as f32).to_bits() & 0xffff_0000);
        let reported = (f64::from(cut) as i64).min(longest);
        assert!(reported.abs_diff(exact) as f64 <= 0.0079 * exact as f64, "{reported} for {exact}");
        Some(reported)
    };
    StatsNumbers {
        traces: traces as u64,
        spans: spans as u64,
        errors: Some(errors as u64),
        p50_nanos: percentile(0.5),
        p95_nanos: percentile(0.95),
        p99_nanos: percentile(0.99),
        max_nanos: Some(longest),
        duration_invalid,
    }
}
