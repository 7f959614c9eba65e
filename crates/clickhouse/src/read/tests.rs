use tracewarden_model::{Filter, Timestamp, Window};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::ClickHouseError;
use crate::agreement::{binding, connect, execute, unrestricted_scope};
use crate::{Result, SelectRequest, TraceOrder};

const TRACES: usize = 40;

impl ClickHouse {
    /// Like [`ClickHouse::read_span_lines`], but returns only the JSON objects.
    pub(crate) async fn read_spans(
        &self,
        max_bytes: usize,
        binding: &Binding,
        selection: &Selection,
        span_ids: &[String],
        columns: Option<&[String]>,
    ) -> Result<Vec<String>> {
        let lines = self.read_span_lines(max_bytes, binding, selection, span_ids, columns).await?;
        Ok(lines.into_iter().map(|line| line.json).collect())
    }
}

/// Returns forty traces of 1 to 7 spans, whose spans are interleaved.
async fn selected(local: &LocalStore) -> (ClickHouse, Binding, Selection) {
    let (store, binding) = (connect(local), binding("default", "mixed"));
    fill(local).await;
    let selection = select(&store, &binding).await;
    (store, binding, selection)
}

pub(super) async fn fill(local: &LocalStore) {
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
}

pub(super) async fn select(store: &ClickHouse, binding: &Binding) -> Selection {
    let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let request = SelectRequest {
        binding,
        scope: &unrestricted_scope(),
        filter: &Filter::default(),
        window: Window::new(at(1_789_999_000), at(1_790_001_000)).unwrap(),
        order: TraceOrder::Newest,
        limit: 200,
        after: None,
        progress: None,
    };
    let selection = store.select(request).await.unwrap();
    assert_eq!(selection.len(), TRACES);
    selection
}

pub(super) async fn text(spans: &mut SpanStream) -> Result<String> {
    let mut text = String::new();
    while let Some(chunk) = spans.next().await {
        text.push_str(std::str::from_utf8(&chunk?.lines).unwrap());
    }
    Ok(text)
}

#[tokio::test]
async fn a_page_read_in_parts_is_complete() {
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let mut whole = store.read(&binding, &selection, None).await.unwrap();
    let whole = text(&mut whole).await.unwrap();
    for (first, most) in [(1, 1), (1, 20), (3, 50), (100, 100)] {
        let sizes = PartSizes { first, most, ..PartSizes::default() };
        let mut parts = store.read_in_parts(sizes, &binding, &selection, None).await.unwrap();
        assert_eq!(text(&mut parts).await.unwrap(), whole, "{sizes:?}");
        assert!(parts.next().await.is_none());
    }
    let spans = whole.lines().count() as u64;
    assert_eq!(store.trace_sizes.mean_spans_per_trace(selection.table.key()), Some(spans / TRACES as u64));
}

/// ClickHouse aborts an answer of which the client takes nothing for long: the statement of a part that has waited is sent
/// again.
#[tokio::test]
async fn a_page_read_slowly_is_complete() {
    const MAX_WAIT: std::time::Duration = std::time::Duration::from_millis(200);
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let mut whole = store.read(&binding, &selection, None).await.unwrap();
    let whole = text(&mut whole).await.unwrap();
    let sizes = PartSizes { first: 1, most: 1, max_wait: MAX_WAIT };
    let before = answered(&store);
    let mut parts = store.read_in_parts(sizes, &binding, &selection, None).await.unwrap();
    let mut slow = String::new();
    while answered(&store) < before + 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    tokio::time::sleep(MAX_WAIT * 2).await;
    while let Some(chunk) = parts.next().await {
        slow.push_str(std::str::from_utf8(&chunk.unwrap().lines).unwrap());
    }
    assert_eq!(slow, whole);
    // One statement for each trace, and the second one again; on a slow machine, others too.
    assert!(answered(&store) - before > TRACES as u64);
}

/// Returns how many statements have been answered, at least their first bytes.
fn answered(store: &ClickHouse) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    store.register_metrics(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let samples =
        text.lines().filter(|line| line.starts_with("tracewarden_clickhouse_endpoint_requests_total{"));
    samples.map(|sample| sample.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn nothing_follows_a_failed_part() {
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let sizes = PartSizes { first: 1, most: 1, ..PartSizes::default() };
    let before = answered(&store);
    let mut parts = store.read_in_parts(sizes, &binding, &selection, None).await.unwrap();
    let first = parts.next().await.unwrap().unwrap();
    // The second part is requested while the first is passed on, and has arrived before the table is dropped; the third has
    // not.
    let begun = std::time::Instant::now();
    while answered(&store) < before + 2 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "the second part was not requested");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
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
    // The failed page records nothing about the size of traces.
    assert_eq!(store.trace_sizes.mean_spans_per_trace(selection.table.key()), None);
}

/// Returns the spans of a trace from `lines` of a page, each with its id.
fn with_ids(lines: &[String]) -> Vec<(String, String)> {
    let with_id = |line: &String| {
        let span: serde_json::Value = serde_json::from_str(line).unwrap();
        (span["SpanId"].as_str().unwrap().to_owned(), line.clone())
    };
    lines.iter().map(with_id).collect()
}

#[tokio::test]
async fn spans_read_by_id_are_those_of_the_page() {
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let mut whole = store.read(&binding, &selection, None).await.unwrap();
    let whole: Vec<String> = text(&mut whole).await.unwrap().lines().map(str::to_owned).collect();
    let of = |trace: &str| -> Vec<(String, String)> {
        let prefix = format!("{{\"TraceId\":\"{trace}\",");
        with_ids(&whole).into_iter().filter(|(_, line)| line.starts_with(&prefix)).collect()
    };
    let mut traces = selection.trace_ids();
    let (first, second) = (of(traces.next().unwrap()), of(traces.next().unwrap()));
    assert!(first.len() > 1);
    // Only from the first trace, whatever others are selected; and ids are values, never SQL.
    let mut ids: Vec<String> = first.iter().chain(&second).map(|(id, _)| id.clone()).rev().collect();
    ids.extend(["', ) OR 1 = 1 --", "\\", "", "it's\t\n\0"].map(str::to_owned));
    let lines: Vec<String> = first.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(store.read_spans(MAX_SPANS_BYTES, &binding, &selection, &ids, None).await.unwrap(), lines);
    assert_eq!(
        store.read_spans(MAX_SPANS_BYTES, &binding, &selection, &ids[..0], None).await.unwrap(),
        lines[..0]
    );
    let columns = ["ParentSpanId".to_owned()];
    let few = store.read_spans(MAX_SPANS_BYTES, &binding, &selection, &ids, Some(&columns)).await.unwrap();
    let mut page = store.read(&binding, &selection, Some(&columns)).await.unwrap();
    let page = text(&mut page).await.unwrap();
    assert!(page.lines().take(few.len()).eq(&few) && few.len() == lines.len(), "{few:?}");
    let unknown = store
        .read_spans(MAX_SPANS_BYTES, &binding, &selection, &ids[..0], Some(&["Spanid".to_owned()]))
        .await;
    assert!(matches!(unknown, Err(ClickHouseError::UnknownColumn { .. })), "{unknown:?}");

    // Up to this number of bytes, newlines included.
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    let within = |most| store.read_spans(most, &binding, &selection, &ids, None);
    assert_eq!(within(bytes).await, Ok(lines));
    assert!(matches!(within(bytes - 1).await, Err(ClickHouseError::TooLarge(_))));
    execute(&local, "DROP TABLE default.mixed SYNC".to_owned()).await;
    assert!(within(bytes).await.is_err());
}

#[tokio::test]
async fn one_span_id_sent_a_thousand_times_hides_no_other_span() {
    let local = LocalStore::start().unwrap();
    let (store, binding, selection) = selected(&local).await;
    let trace = selection.trace_ids().next().unwrap();
    let insert = |id: &str, seconds: i64, times: u32| {
        let row =
            format!("toDateTime64({}, 9), '{trace}', '{id}', toString(number)", 1_790_000_000 + seconds);
        execute(&local, format!("INSERT INTO default.mixed SELECT {row} FROM numbers({times})"))
    };
    insert("often", 1, 1_000).await;
    insert("other", 2, 1).await;
    let ids = ["other", "often", "often"].map(str::to_owned);
    let found = with_ids(&store.read_spans(MAX_SPANS_BYTES, &binding, &selection, &ids, None).await.unwrap());
    let found: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(found, ["often", "often", "often", "often", "other"]);
}
