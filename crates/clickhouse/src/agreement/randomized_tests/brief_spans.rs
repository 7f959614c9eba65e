//! The brief form of one trace's spans, and some of them in full, compared with the stored spans.

use tracewarden_model::{Binding, Timestamp};
use tracewarden_policy::FieldValue;

use super::{DataSet, StoredSpan};
use crate::{ClickHouse, MAX_SPANS_BYTES, Selection, SpanSummary};

/// Checks the first trace of a page that was read: `lines` are all lines of the page.
pub(super) async fn check_first_trace(
    store: &ClickHouse,
    data_set: &DataSet,
    binding: &Binding,
    page: &Selection,
    lines: &[String],
) {
    let Some(trace) = page.trace_ids().next() else {
        assert_eq!(store.span_summaries(binding, page, 5).await.unwrap(), []);
        assert_eq!(
            store.read_spans(MAX_SPANS_BYTES, binding, page, &["x".to_owned()], None).await.unwrap(),
            [""; 0]
        );
        return;
    };
    let mut spans: Vec<&StoredSpan> =
        data_set.spans.iter().filter(|span| span.trace == trace.as_bytes()).collect();
    spans.sort_by_key(|span| (span.at, span.id.clone()));
    for most in [2, 1_000] {
        let brief = store.span_summaries(binding, page, most).await.unwrap();
        assert_eq!(brief.len(), spans.len().min(most as usize));
        brief.iter().zip(&spans).for_each(|(brief, span)| check(brief, span));
    }

    // A repeated id is returned once, and an absent one is not.
    let requested_ids: Vec<String> =
        [&spans[spans.len() / 2].id, &spans[0].id, &spans[0].id, "absent"].map(str::to_owned).to_vec();
    let wanted = |line: &&String| {
        let span: serde_json::Value = serde_json::from_str(line).unwrap();
        span["TraceId"] == trace && requested_ids.iter().any(|id| span["SpanId"] == id.as_str())
    };
    let expected: Vec<String> = lines.iter().filter(wanted).cloned().collect();
    assert_eq!(
        store.read_spans(MAX_SPANS_BYTES, binding, page, &requested_ids, None).await.unwrap(),
        expected
    );
}

fn check(brief: &SpanSummary, span: &StoredSpan) {
    // Text that is not UTF-8 arrives in another form.
    let text = |name: &str| match span.values.get(name) {
        Some(FieldValue::String(bytes)) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        other => panic!("{name} is {other:?}"),
    };
    let cut = |text: String| text.chars().take(100).collect::<String>();
    for (found, name) in [(&brief.name, "SpanName"), (&brief.service, "ServiceName"), (&brief.kind, "Kind")] {
        let found = found.as_ref().unwrap();
        assert!(text(name).is_none_or(|text| *found == cut(text)), "{name}: {found:?} of {:?}", span.values);
    }
    let SpanSummary { span_id, parent_span_id, start, duration_nanos, duration_invalid, error, .. } = brief;
    let parent = if span.parent.ends_with('1') { span.parent } else { "" };
    assert_eq!((span_id, parent_span_id.as_str()), (&span.id, parent));
    assert_eq!((*start, *duration_nanos), (Timestamp::from_nanos(span.at), Some(span.nanos())));
    assert_eq!((*duration_invalid, *error), (span.is_invalid(), span.failed()));
}
