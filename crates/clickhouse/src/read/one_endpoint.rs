//! Traces that were selected at one endpoint are read there or not at all: another one may hold other spans of the same
//! traces.

use tracewarden_model::{FieldRef, FieldSource, Filter, LogicalType, MarkedField, Timestamp};
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::local_store::LocalStore;

use super::tests::{fill, select, text};
use super::*;
use crate::ClickHouseError;
use crate::agreement::{binding, connect_at, unrestricted_scope};
use crate::{Result, SpanIdentity, ValuesRequest};

struct Fixture {
    first: ChaosProxy,
    second: ChaosProxy,
    store: ClickHouse,
    binding: Binding,
    _local: LocalStore,
}

/// Two endpoints, of which the first is preferred.
async fn fixture() -> Fixture {
    let local = LocalStore::start().unwrap();
    let address = local.url.trim_start_matches("http://").parse().unwrap();
    let [first, second] = [(), ()].map(|()| ChaosProxy::start(address).unwrap());
    let store = connect_at(&format!("{},{}", first.url(), second.url()), &local.password);
    fill(&local).await;
    Fixture { first, second, store, binding: binding("default", "mixed"), _local: local }
}

impl Fixture {
    /// Asserts that only the first endpoint was used, and that it refused.
    fn assert_unavailable<T: std::fmt::Debug>(&self, what: &str, answer: Result<T>) {
        assert!(matches!(answer, Err(ClickHouseError::Unavailable { .. })), "{what}: {answer:?}");
        assert_eq!(self.second.forwarded_bytes(), 0, "{what}: the second endpoint was queried");
    }
}

#[tokio::test]
async fn nothing_about_chosen_traces_comes_from_another_endpoint() {
    let fixture = fixture().await;
    let (store, binding) = (fixture.store.session(), &fixture.binding);
    let (filter, selection) = (Filter::default(), select(&store, binding).await);
    let found = store.find(binding, &unrestricted_scope(), "7").await.unwrap().unwrap();
    fixture.first.set(Fault::Refuse);
    let window = tracewarden_model::Window::new(
        tracewarden_model::Timestamp::from_nanos(1_789_999_000_000_000_000),
        tracewarden_model::Timestamp::from_nanos(1_790_001_000_000_000_000),
    )
    .unwrap();
    let field = MarkedField {
        field: FieldRef::column("SpanId"),
        logical: LogicalType::String,
        source: FieldSource::Column,
        column_type: tracewarden_model::ColumnType::STRING,
        filterable: true,
        policy: true,
        column: None,
    };
    let ids = ["x".to_owned()];
    let page = async { text(&mut store.read(binding, &selection, None).await?).await };
    fixture.assert_unavailable("a page", page.await);
    fixture.assert_unavailable(
        "given spans",
        store.read_spans(MAX_SPANS_BYTES, binding, &found, &ids, None).await,
    );
    let identity =
        SpanIdentity { span_id: "x".to_owned(), start: Timestamp::from_nanos(0), name: None, service: None };
    let identified = store.read_spans_by_identity(MAX_SPANS_BYTES, binding, &found, &[identity], None).await;
    fixture.assert_unavailable("identified spans", identified);
    fixture.assert_unavailable("summaries", store.summarise(binding, &selection, &filter).await);
    fixture.assert_unavailable("the earliest spans", store.span_summaries(binding, &found, 3).await);
    let predicates = [unrestricted_scope().predicate().clone()];
    fixture.assert_unavailable(
        "which spans satisfy",
        store.matching_spans(binding, &found, &predicates, &[]).await,
    );
    let values = ValuesRequest {
        field: &field,
        prefix: None,
        contains: None,
        selection: &selection,
        window,
        limit: 3,
    };
    fixture.assert_unavailable("values", store.values(values).await.map(|_| ()));
    // A new request uses the other endpoint from the beginning.
    let again = fixture.store.session();
    let selection = select(&again, binding).await;
    let page = text(&mut again.read(binding, &selection, None).await.unwrap()).await.unwrap();
    assert_eq!(page.lines().count() as u64, selection.span_count());
    assert!(fixture.second.forwarded_bytes() > 0);
}

#[tokio::test]
async fn a_page_ends_when_its_endpoint_fails() {
    let fixture = fixture().await;
    let (store, binding) = (fixture.store.session(), &fixture.binding);
    let selection = select(&store, binding).await;
    let sizes = PartSizes { first: 1, most: 1, ..PartSizes::default() };
    let mut page = store.read_in_parts(sizes, binding, &selection, None).await.unwrap();
    page.next().await.unwrap().unwrap();
    fixture.first.set(Fault::Refuse);
    let failure = loop {
        match page.next().await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(
        matches!(
            failure,
            Some(Err(ClickHouseError::Unavailable { .. } | ClickHouseError::IncompleteResponse(_)))
        ),
        "{failure:?}"
    );
    assert_eq!(fixture.second.forwarded_bytes(), 0);
}

/// A second statement would repeat spans that the reader has already passed on.
#[tokio::test]
async fn an_answer_that_is_cut_is_not_requested_again() {
    let fixture = fixture().await;
    let (store, binding) = (fixture.store.session(), &fixture.binding);
    let selection = select(&store, binding).await;
    let whole = text(&mut store.read(binding, &selection, None).await.unwrap()).await.unwrap();
    fixture.first.set(Fault::CutResponsesAfter(whole.len() as u64 / 2));
    let mut page = store.read(binding, &selection, None).await.unwrap();
    let failure = text(&mut page).await.unwrap_err();
    assert!(matches!(failure, ClickHouseError::IncompleteResponse(_)), "{failure}");
    assert!(page.next().await.is_none());
    assert_eq!(fixture.second.forwarded_bytes(), 0);
}
