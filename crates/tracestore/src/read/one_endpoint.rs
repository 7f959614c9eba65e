//! Traces that were selected at one endpoint are read there or not at all: another one may hold other spans of the same
//! traces.

use tracewarden_model::{FieldRef, FieldSource, Filter, LogicalType, MarkedField, Timestamp};
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::local_store::LocalStore;

use super::tests::{fill, select, text};
use super::*;
use crate::cancellation::{binding, everything};
use crate::differential::connect_at;
use crate::{SpanIdentity, ValuesRequest};

struct World {
    first: ChaosProxy,
    second: ChaosProxy,
    store: TraceStore,
    binding: Binding,
    _local: LocalStore,
}

/// Two endpoints, of which the first is preferred.
async fn world() -> World {
    let local = LocalStore::start().unwrap();
    let address = local.url.trim_start_matches("http://").parse().unwrap();
    let [first, second] = [(), ()].map(|()| ChaosProxy::start(address).unwrap());
    let store = connect_at(&format!("{},{}", first.url(), second.url()), &local.password);
    fill(&local).await;
    World { first, second, store, binding: binding("default", "mixed"), _local: local }
}

impl World {
    /// Asserts that only the first endpoint was used, and that it refused.
    fn refused<T: std::fmt::Debug>(&self, what: &str, answer: Result<T, StoreError>) {
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{what}: {answer:?}");
        assert_eq!(self.second.passed(), 0, "{what}: the second endpoint was queried");
    }
}

#[tokio::test]
async fn nothing_about_chosen_traces_comes_from_another_endpoint() {
    let world = world().await;
    let (store, binding) = (world.store.session(), &world.binding);
    let (filter, selection) = (Filter::default(), select(&store, binding).await);
    let found = store.find(binding, &everything(), "7").await.unwrap().unwrap();
    world.first.set(Fault::Refuse);
    let window = tracewarden_model::Window::new(
        tracewarden_model::Timestamp::from_nanos(1_789_999_000_000_000_000),
        tracewarden_model::Timestamp::from_nanos(1_790_001_000_000_000_000),
    )
    .unwrap();
    let field = MarkedField {
        field: FieldRef::column("SpanId"),
        logical: LogicalType::String,
        source: FieldSource::Column,
        column_type: tracewarden_model::ColumnType::String,
        filterable: true,
        policy: true,
        column: None,
    };
    let ids = ["x".to_owned()];
    let page = async { text(&mut store.read(binding, &selection, None).await?).await };
    world.refused("a page", page.await);
    world.refused("given spans", store.read_spans(SPANS_MAX_BYTES, binding, &found, &ids, None).await);
    let identity =
        SpanIdentity { span_id: "x".to_owned(), start: Timestamp::from_nanos(0), name: None, service: None };
    let identified = store.read_identified(SPANS_MAX_BYTES, binding, &found, &[identity], None).await;
    world.refused("identified spans", identified);
    world.refused("summaries", store.summarise(binding, &selection, &filter).await);
    world.refused("the earliest spans", store.brief(binding, &found, 3).await);
    let predicates = [everything().predicate().clone()];
    world.refused("which spans satisfy", store.satisfied(binding, &found, &predicates, &[]).await);
    let values = ValuesRequest { field: &field, prefix: None, selection: &selection, window, limit: 3 };
    world.refused("values", store.values(values).await.map(|_| ()));
    // A new request uses the other endpoint from the beginning.
    let again = world.store.session();
    let selection = select(&again, binding).await;
    let page = text(&mut again.read(binding, &selection, None).await.unwrap()).await.unwrap();
    assert_eq!(page.lines().count() as u64, selection.span_count());
    assert!(world.second.passed() > 0);
}

#[tokio::test]
async fn a_page_ends_when_its_endpoint_fails() {
    let world = world().await;
    let (store, binding) = (world.store.session(), &world.binding);
    let selection = select(&store, binding).await;
    let sizes = PartSizes { first: 1, most: 1, ..PartSizes::default() };
    let mut page = store.read_in(sizes, binding, &selection, None).await.unwrap();
    page.next().await.unwrap().unwrap();
    world.first.set(Fault::Refuse);
    let failure = loop {
        match page.next().await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(
        matches!(failure, Some(Err(StoreError::Unavailable { .. } | StoreError::Short(_)))),
        "{failure:?}"
    );
    assert_eq!(world.second.passed(), 0);
}
