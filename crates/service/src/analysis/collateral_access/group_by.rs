//! The field or column by whose values collateral access is counted.

use std::collections::BTreeMap;

use tracewarden_clickhouse::CollateralGrouping;
use tracewarden_model::nearest::nearest;
use tracewarden_model::{AccessModel, Binding, FieldRef, LogicalType, MarkedField};

use crate::core::{Result, ServiceError, unknown};

/// Returns the display columns that contain text.
fn display_columns(binding: &Binding) -> impl Iterator<Item = &String> {
    let display = &binding.display;
    [&display.service, &display.name, &display.kind, &display.status].into_iter().flatten()
}

/// Returns the display column or marked field of this name.
///
/// # Errors
/// `unknown_field`, and `value_type` for a field whose values are not text.
pub(crate) fn parse_group_by(
    reference: &str,
    model: &AccessModel,
    binding: &Binding,
) -> Result<CollateralGrouping> {
    if let Some(column) = display_columns(binding).find(|column| *column == reference) {
        return Ok(CollateralGrouping::Column(column.clone()));
    }
    let names: BTreeMap<String, &MarkedField> =
        model.fields.iter().map(|field| (field.field.to_string(), field)).collect();
    let Some(field) = names.get(&FieldRef::parse(reference).to_string()) else {
        let known = names.keys().chain(display_columns(binding)).map(String::as_str);
        let suggestions = nearest(reference, known);
        return Err(ServiceError::refused("/by", "unknown_field", unknown("field", reference, &suggestions)));
    };
    if !matches!(field.logical, LogicalType::String | LogicalType::StringArray) {
        let detail = format!("`{reference}` is of type {}, and only text is counted by value", field.logical);
        return Err(ServiceError::refused("/by", "value_type", detail));
    }
    Ok(CollateralGrouping::Field(Box::new((*field).clone())))
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{ColumnType, Display, FieldRef, FieldSource};

    use super::*;

    #[test]
    fn counts_are_by_a_display_column_or_a_text_field() {
        let field = |field: FieldRef, logical| MarkedField {
            field,
            logical,
            source: FieldSource::Column,
            column_type: ColumnType::STRING,
            filterable: false,
            policy: true,
            column: None,
        };
        let fields = vec![
            field(FieldRef::key("SpanAttributes", "team"), LogicalType::String),
            field(FieldRef::column("Duration"), LogicalType::Number),
        ];
        let model = AccessModel { fields, ..AccessModel::default() };
        let display = Display { service: Some("ServiceName".to_owned()), ..Display::default() };
        let [database, table, trace_id, span_id, timestamp, parent_span_id] =
            ["otel", "otel_traces", "TraceId", "SpanId", "Timestamp", "ParentSpanId"].map(str::to_owned);
        let binding = Binding {
            database,
            table,
            trace_id,
            span_id,
            timestamp,
            parent_span_id,
            trace_index: None,
            display,
            ..Binding::default()
        };
        let by = |reference: &str| parse_group_by(reference, &model, &binding);
        assert!(matches!(by("ServiceName"), Ok(CollateralGrouping::Column(_))));
        assert!(matches!(by("SpanAttributes[\"team\"]"), Ok(CollateralGrouping::Field(_))));
        assert_eq!(by("Duration").unwrap_err().code(), "value_type");
        let error = by("ServiceNam").unwrap_err();
        assert_eq!((error.code(), error.errors()[0].pointer.as_str()), ("unknown_field", "/by"));
        assert!(error.detail().contains("did you mean `ServiceName`?"), "{}", error.detail());
    }
}
