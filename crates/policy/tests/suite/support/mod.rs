//! An access model like the table of the OpenTelemetry exporter, for tests.
#![allow(dead_code, missing_docs)]

pub mod builders;
pub mod predicates;

use tracewarden_model::{
    AccessModel, AttributeValue, Caller, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField,
};

pub fn field(reference: FieldRef, logical: LogicalType, column_type: &str) -> MarkedField {
    let source = if reference.map.is_some() { FieldSource::MapKey } else { FieldSource::Column };
    MarkedField {
        field: reference,
        source,
        logical,
        column_type: ColumnType::parse(column_type),
        filterable: true,
        policy: logical != LogicalType::Number,
        column: None,
    }
}

pub fn model() -> AccessModel {
    let key = |name: &str, logical| field(FieldRef::key("SpanAttributes", name), logical, "String");
    AccessModel {
        version: 1,
        binding: None,
        fields: vec![
            field(FieldRef::column("ServiceName"), LogicalType::String, "LowCardinality(String)"),
            field(FieldRef::column("Nick"), LogicalType::String, "Nullable(String)"),
            field(FieldRef::column("Sampled"), LogicalType::Boolean, "Bool"),
            field(FieldRef::column("Duration"), LogicalType::Number, "UInt64"),
            field(FieldRef::column("Events.Name"), LogicalType::StringArray, "Array(LowCardinality(String))"),
            key("env", LogicalType::String),
            key("tenant.id", LogicalType::String),
            key("flag", LogicalType::Boolean),
            key("tags", LogicalType::StringArray),
            key("status", LogicalType::Number),
            MarkedField {
                policy: false,
                ..field(FieldRef::key("SpanAttributes", "secret"), LogicalType::String, "String")
            },
        ],
    }
}

pub fn caller() -> Caller {
    Caller {
        username: "ada".to_owned(),
        roles: ["dev".to_owned(), "oncall".to_owned()].into(),
        attributes: [
            ("team".to_owned(), AttributeValue::String("payments".to_owned())),
            ("lead".to_owned(), AttributeValue::Bool(true)),
            ("tenants".to_owned(), AttributeValue::Strings(vec!["t1".to_owned(), "t2".to_owned()])),
        ]
        .into(),
    }
}
