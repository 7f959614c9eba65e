//! Values of fields, compared with direct counts in the traces that the definitions select.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{AccessModel, LogicalType, MarkedField};

use super::{DataSet, MAX_TRACE_DURATION, Query, StoredSpan, field_value, random_text};
use crate::agreement::filter_reference::strings;
use crate::{ClickHouse, MAX_VALUE_BYTES, ValueCount, ValuesRequest};

/// What was listed, with a random generator of its own: the data sets then do not depend on these lists.
#[derive(Debug)]
pub(super) struct ValuesCoverage {
    random: ChaCha8Rng,
    values: usize,
    /// Number of values listed with a prefix.
    with_prefix: usize,
    /// Number of lists of values that contain a text.
    with_contained: usize,
    unlisted: u64,
    /// Number of lists that end before the last value.
    cut: usize,
}

impl ValuesCoverage {
    pub(super) fn new(seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { random, values: 0, with_prefix: 0, with_contained: 0, unlisted: 0, cut: 0 }
    }

    pub(super) fn is_sufficient(&self, data_sets: usize) -> bool {
        self.values > data_sets * 4
            && self.with_prefix > data_sets / 2
            && self.with_contained > data_sets / 2
            && self.unlisted > 0
            && self.cut > data_sets / 2
    }
}

/// Lists the values of a few fields in the traces that a query selects.
pub(super) async fn check_fields(
    store: &ClickHouse,
    data_set: &DataSet,
    query: &Query<'_>,
    expected: &[String],
    model: &AccessModel,
    coverage: &mut ValuesCoverage,
) {
    let Query { window, .. } = *query;
    let limit = *[2, 1_000].choose(&mut coverage.random).unwrap();
    let request = query.request(limit, None);
    let page = store.select(request).await.unwrap();
    let evaluated_traces = &expected[..expected.len().min(limit as usize)];
    // If another page follows, this one covers the time from its last trace on, where that trace has a time of its own.
    let oldest = match page.next() {
        Some(end) if end.tier == 1 => end.key * data_set.shape.nanos_per_tick,
        _ => window.from().as_nanos(),
    };
    let near = oldest - MAX_TRACE_DURATION..window.to().as_nanos() + MAX_TRACE_DURATION;
    let spans: Vec<&StoredSpan> = (data_set.spans.iter())
        .filter(|span| {
            near.contains(&span.at) && evaluated_traces.iter().any(|id| id.as_bytes() == span.trace)
        })
        .collect();
    let text_fields: Vec<&MarkedField> = (model.fields.iter())
        .filter(|field| matches!(field.logical, LogicalType::String | LogicalType::StringArray))
        .collect();
    // Values that are too long or not UTF-8 are rare: until one was counted, prefer fields that have one.
    let has_unlisted_value = |field: &MarkedField| {
        let mut values = spans.iter().flat_map(|span| strings(field_value(span, field).as_ref(), field));
        values.any(|value| value.len() > MAX_VALUE_BYTES || std::str::from_utf8(&value).is_err())
    };
    let with_unlisted: Vec<&MarkedField> =
        text_fields.iter().copied().filter(|field| has_unlisted_value(field)).collect();
    for _ in 0..2 {
        let random = &mut coverage.random;
        let field = match with_unlisted.choose(random) {
            Some(field) if coverage.unlisted == 0 => *field,
            _ => *text_fields.choose(random).unwrap(),
        };
        let prefix = random.random_bool(0.4).then(|| {
            let text = random_text(random);
            text.chars().take(random.random_range(0..3)).collect::<String>()
        });
        let contained = random.random_bool(0.3).then(|| *["a", "B", "1", "e", ""].choose(random).unwrap());
        let limit = *[1, 3, 1_000].choose(random).unwrap();
        let (prefix_text, contains) = (prefix.as_deref(), contained);
        let request = ValuesRequest { field, prefix: prefix_text, contains, selection: &page, window, limit };
        let found = store.values(request).await.unwrap();

        let context = format!("{} from {prefix:?} with {contained:?}, {limit}, {window:?}", field.field);
        let is_wanted = |value: &Vec<u8>| {
            let (lower, text) =
                (value.to_ascii_lowercase(), contained.unwrap_or_default().to_ascii_lowercase());
            let contains = text.is_empty() || lower.windows(text.len()).any(|part| part == text.as_bytes());
            contains && prefix.as_ref().is_none_or(|prefix| value.starts_with(prefix.as_bytes()))
        };
        let mut counts: BTreeMap<Vec<u8>, (BTreeSet<&[u8]>, u64)> = BTreeMap::new();
        for span in &spans {
            for value in strings(field_value(span, field).as_ref(), field).into_iter().filter(is_wanted) {
                let entry = counts.entry(value).or_default();
                entry.0.insert(&span.trace);
                entry.1 += 1;
            }
        }
        let distinct = counts.len() as u64;
        let mut values: Vec<ValueCount> = (counts.into_iter())
            .filter(|(value, _)| value.len() <= MAX_VALUE_BYTES)
            .filter_map(|(value, (traces, spans))| {
                Some(ValueCount { value: String::from_utf8(value).ok()?, traces: traces.len() as u64, spans })
            })
            .collect();
        let unlisted = distinct - values.len() as u64;
        values.sort_by(|a, b| {
            let sort_key = |count: &ValueCount| (Reverse(count.traces), Reverse(count.spans));
            sort_key(a).cmp(&sort_key(b)).then_with(|| a.value.cmp(&b.value))
        });
        let listable = values.len();
        values.truncate(limit as usize);
        assert_eq!(found.values, values, "{context}");
        assert_eq!(found.traces, evaluated_traces.len() as u64, "{context}");
        assert_eq!((found.distinct, found.unlisted), (listable as u64, unlisted), "{context}");
        coverage.values += values.len();
        coverage.with_prefix += usize::from(prefix.is_some() && !values.is_empty());
        coverage.with_contained += usize::from(contained.is_some() && !values.is_empty());
        coverage.unlisted += unlisted;
        coverage.cut += usize::from(listable > values.len());
    }
}
