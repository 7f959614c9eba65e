//! Versions of the access model.

use futures::TryStreamExt as _;
use tracewarden_appdb::DbError;
use tracewarden_model::{
    AccessModel, Binding, ColumnType, Display, FieldRef, FieldSource, LogicalType, MarkedField,
};

use crate::fixture::{Fixture, at, on_both};

on_both!(access_models);

async fn access_models(fixture: &Fixture) {
    let db = fixture.open().await;
    assert_eq!(db.begin_read().await.unwrap().access_model().await.unwrap(), AccessModel::default());
    let binding = Binding {
        database: "otel".to_owned(),
        table: "otel_traces".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display { name: Some("SpanName".to_owned()), ..Display::default() },
        ..Binding::default()
    };
    let field = MarkedField {
        field: FieldRef::key("SpanAttributes", "a\"b"),
        source: FieldSource::MapKey,
        logical: LogicalType::StringArray,
        column_type: ColumnType::parse("LowCardinality(Nullable(String))"),
        filterable: true,
        policy: false,
        column: Some("SpanAttributes_a".to_owned()),
    };
    let first = AccessModel { version: 1, binding: Some(binding), fields: vec![field] };
    let second = AccessModel { version: 2, fields: Vec::new(), ..first.clone() };
    for model in [&first, &second] {
        let mut tx = db.begin_write().await.unwrap();
        tx.insert_access_model(model, at(3), ("u1", "Ada")).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = db.begin_write().await.unwrap();
    let again = tx.insert_access_model(&second, at(4), ("u1", "Ada")).await;
    assert!(matches!(again, Err(DbError::Conflict(_))));
    drop(tx);
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.access_model().await.unwrap(), second);
    let versions: Vec<_> = tx.access_models(1, 1).try_collect().await.unwrap();
    assert_eq!(versions, [first]);
    let versions: Vec<_> = tx.access_models(9, 9).try_collect().await.unwrap();
    assert_eq!(versions, []);
}
