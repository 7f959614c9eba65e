use tracewarden_model::{Filter, Timestamp, Window};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::cancellation::{binding, everything};
use crate::differential::{connect, execute};
use crate::{SelectRequest, plan};

const TRACES: usize = 40;

/// Forty traces whose spans lie among each other, of 1 to 7 spans.
async fn selected(local: &LocalStore) -> (TraceStore, Binding, Selection) {
    let (store, binding) = (connect(local), binding("default", "mixed"));
    execute(
        local,
        "CREATE TABLE default.mixed (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String) \
         ENGINE = MergeTree ORDER BY SpanId"
            .to_owned(),
    )
    .await;
    execute(
        local,
        format!(
            "INSERT INTO default.mixed SELECT toDateTime64(1790000000, 9) + number, toString(number % {TRACES} + 1), \
             hex(sipHash64(number)), '' FROM numbers(280) WHERE intDiv(number, {TRACES}) <= number % {TRACES} % 7"
        ),
    )
    .await;
    let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let request = SelectRequest {
        binding: &binding,
        scope: &everything(),
        filter: &Filter::default(),
        window: Window::new(at(1_789_999_000), at(1_790_001_000)).unwrap(),
        limit: 200,
        after: None,
        progress: None,
    };
    let selection = store.select(request).await.unwrap();
    assert_eq!(selection.len(), TRACES);
    (store, binding, selection)
}

async fn text(spans: &mut SpanStream) -> Result<String, StoreError> {
    let mut text = String::new();
    while let Some(chunk) = spans.next().await {
        text.push_str(std::str::from_utf8(&chunk?.lines).unwrap());
    }
    Ok(text)
}

#[tokio::test]
async fn a_page_in_parts_is_the_page() {
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let mut whole = store.read(&binding, &selection, None).await.unwrap();
    let whole = text(&mut whole).await.unwrap();
    for (first, most) in [(1, 1), (1, 20), (3, 50), (100, 100)] {
        let sizes = PartSizes { first, most };
        let mut parts = store.read_in(sizes, &binding, &selection, None).await.unwrap();
        assert_eq!(text(&mut parts).await.unwrap(), whole, "{sizes:?}");
        assert!(parts.next().await.is_none());
    }
    let spans = whole.lines().count() as u64;
    assert_eq!(
        store.memory.spans_of_a_trace(plan::subject(&selection.table.name)),
        Some(spans / TRACES as u64)
    );
}

#[tokio::test]
async fn nothing_follows_a_part_that_fails() {
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let sizes = PartSizes { first: 1, most: 1 };
    let mut parts = store.read_in(sizes, &binding, &selection, None).await.unwrap();
    let first = parts.next().await.unwrap().unwrap();
    // The second part is asked for while the first is passed on, and is here before the table goes; the third is not.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    execute(&local, "DROP TABLE default.mixed SYNC".to_owned()).await;
    let (mut traces, mut spans) = (0, first.spans);
    let failure = loop {
        match parts.next().await {
            Some(Ok(chunk)) => (traces, spans) = (traces + 1, spans + chunk.spans),
            other => break other,
        }
    };
    assert!(matches!(failure, Some(Err(_))), "{failure:?}");
    assert_eq!(traces, 1);
    let (first, second) = (&selection.traces[0], &selection.traces[1]);
    assert_eq!(spans, first.spans + second.spans);
    assert!(parts.next().await.is_none());
    // What came of it says nothing about the size of traces.
    assert_eq!(store.memory.spans_of_a_trace(plan::subject(&selection.table.name)), None);
}
