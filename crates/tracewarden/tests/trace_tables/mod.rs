//! Every layout of a trace table that the documents list: discovered, bound, and asked, on the engine and on a real server.
//!
//! `TRACEWARDEN_TEST_CLICKHOUSE` selects the store: `engine` (the default), `server` or `all`.

mod document;
mod explain;
mod real_writers;
mod rejection;
mod store;
mod walk;

use tracewarden_testkit::trace_tables::{Outcome, all};

use store::{Store, selected_stores};

/// Tests a layout on each selected store.
async fn run(name: &str) {
    let fixture = all().into_iter().find(|fixture| fixture.name == name).unwrap();
    for kind in selected_stores() {
        let store = Store::start(kind);
        for statement in fixture.statements(store.version) {
            store.run(&statement).await;
        }
        match &fixture.outcome {
            Outcome::Bound(bound) => walk::walk(&store, &fixture, bound).await,
            Outcome::Rejected(rejection) => rejection::check(&store, &fixture, rejection).await,
        }
    }
}

/// Generates a test of each layout.
macro_rules! layouts {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                run(stringify!($name)).await;
            }
        )*

        #[test]
        fn every_layout_has_a_test() {
            let names: Vec<&str> = all().iter().map(|fixture| fixture.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

layouts!(
    exporter_2022,
    exporter_2024,
    exporter_2026,
    exporter_json,
    clickstack,
    coroot,
    signoz_v2,
    signoz_v3,
    jaeger,
    jaeger_clickhouse,
    langfuse_v3,
    langfuse_v4,
    laminar,
    uptrace,
    gigapipe,
    posthog,
    sentry,
    opik,
    weave,
    helicone,
    langwatch,
    trigger_dev,
    traceroot,
    latitude,
    highlight,
    deepflow,
    langdb,
    span_log,
);
