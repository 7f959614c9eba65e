//! Values of a field, for users who write a filter; counted in traces that the caller may read.
//!
//! Counted are all spans of some of the newest traces to which the caller's policies grant access, and no others: a span of
//! another trace neither adds a value, nor changes a count, nor influences which traces are sampled.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Duration, timeout};
use tracewarden_clickhouse::{SelectRequest, TraceOrder, ValueCount, ValuesRequest};
use tracewarden_model::{
    AccessModel, Condition, FieldRef, Filter, LogicalType, MarkedField, Test, Timestamp, Window,
};
use tracewarden_policy::{Predicate, lower_condition};
use utoipa::{IntoParams, ToSchema};

use crate::core::{
    Limit, Outcome, PreparedRead, Principal, Result, SearchedAround, ServiceError, TRACES_VALUES,
    limit_in_query, query_input, unknown,
};
use crate::traces::Traces;

/// Number of traces that are sampled if they are found in time, because they are close together: enough to find the values that
/// many traces have.
const LARGE_SAMPLE_TRACES: u32 = 500;
/// Time to find them. Traces that are far apart also take long to read.
const LARGE_SAMPLE_TIME: Duration = Duration::from_secs(1);
/// Number of traces that are sampled otherwise, if there are so many: the size of a page.
const SMALL_SAMPLE_TRACES: u32 = 50;
const DEFAULT_VALUES: u32 = 20;
const MAX_VALUES: u32 = 100;

/// The field and the time window.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FieldValuesRequest {
    /// `ref` of a filterable field of type string or string_array, as `GET /filter/schema` writes it.
    #[param(example = "ServiceName")]
    #[serde(rename = "ref")]
    pub reference: String,
    /// Prefix of the values, compared exactly, as by the operator `prefix`.
    pub prefix: Option<String>,
    /// Text that the values contain, ignoring the case of ASCII letters.
    pub contains: Option<String>,
    /// Start of the window; 24 hours before `to` when absent.
    #[param(inline, example = "2026-11-20T12:00:00Z")]
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    #[param(inline, example = "2026-11-21T12:00:00Z")]
    pub to: Option<Timestamp>,
    /// Maximum number of values: 20 when absent, at most 100.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit_in_query")]
    pub limit: Option<i64>,
}

/// The values that a field has in the newest traces that the caller may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FieldValues)]
pub struct FieldValuesAnswer {
    /// The field.
    #[serde(rename = "ref")]
    #[schema(examples("SpanAttributes[\"http.route\"]"))]
    pub reference: String,
    /// Ordered by number of traces, then by number of spans, both descending, then by value.
    pub values: Vec<ValueCount>,
    /// Whether the sampled traces have values that are not listed because of `limit`.
    pub more: bool,
    /// Number of different values that are never listed: longer than 1,024 bytes, or not UTF-8.
    pub unlisted: u64,
    /// Number of sampled traces, at most 500, and fewer where they are far apart.
    pub sampled_traces: u64,
    /// Whether all traces in the window with such a value were sampled; otherwise only the newest.
    pub complete: bool,
    /// Start of the window.
    pub from: Timestamp,
    /// End of the window.
    pub to: Timestamp,
    /// Without a trace index: spans outside of this time were not read when traces were matched. Absent if no such bound applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub searched_around: Option<SearchedAround>,
    /// The window.
    #[serde(skip)]
    pub window: Window,
    /// Logical type: string or array of strings.
    #[serde(skip)]
    pub logical: LogicalType,
}

struct Plan {
    field: MarkedField,
    prefix: Option<String>,
    contains: Option<String>,
    window: Window,
    limit: u32,
}

impl Traces {
    /// Returns the most frequent values of a field in the newest traces that the caller may see.
    ///
    /// # Errors
    /// Those of [`Self::begin_query`]; `unknown_field`, `not_filterable`, and `value_type` for a field whose values are not
    /// text.
    pub async fn field_values(
        &self,
        principal: &Principal,
        request: FieldValuesRequest,
    ) -> Result<FieldValuesAnswer> {
        let prepare = || self.prepare_values(principal, &request);
        let (access, plan, mut record) =
            self.core.begin_read(principal, TRACES_VALUES, None, prepare).await?;
        let mut answer = FieldValuesAnswer {
            reference: plan.field.field.to_string(),
            values: Vec::new(),
            more: false,
            unlisted: 0,
            sampled_traces: 0,
            complete: true,
            from: plan.window.from(),
            to: plan.window.to(),
            searched_around: access.searched_around(plan.window).map(SearchedAround::from),
            window: plan.window,
            logical: plan.field.logical,
        };
        if access.scope.is_empty() {
            record.complete(Outcome::Success, None).await?;
            return Ok(answer);
        }
        // Traces without such a value are of no use. For arrays, tests of elements cannot express this, so the filter only
        // requires the field.
        let test = match (&plan.prefix, &plan.contains) {
            _ if plan.field.logical != LogicalType::String => Test::Exists,
            (Some(prefix), _) => Test::Prefix(prefix.clone()),
            (None, Some(text)) => Test::Contains(text.clone()),
            (None, None) => Test::Exists,
        };
        let has_value = Condition { field: plan.field.clone(), test };
        // A field that every span has needs no condition.
        let in_every_span = matches!(lower_condition(&has_value), Predicate::True);
        let filter = Filter::of(if in_every_span { Vec::new() } else { vec![has_value] });
        record.set_query(&access, plan.window, &filter);
        let sample = |limit| SelectRequest {
            binding: &access.binding,
            scope: &access.scope,
            filter: &filter,
            window: plan.window,
            order: TraceOrder::Newest,
            limit,
            after: None,
            progress: None,
        };
        let large = timeout(LARGE_SAMPLE_TIME, access.store.select(sample(LARGE_SAMPLE_TRACES))).await;
        let selection = match large {
            Ok(Err(error)) if !error.is_over_limit() => record.check(Err(error)).await?,
            Ok(Ok(selection)) => selection,
            Ok(Err(_)) | Err(_) => {
                record.check(access.store.select(sample(SMALL_SAMPLE_TRACES)).await).await?
            }
        };
        let values = ValuesRequest {
            field: &plan.field,
            prefix: plan.prefix.as_deref(),
            contains: plan.contains.as_deref(),
            selection: &selection,
            window: plan.window,
            limit: plan.limit,
        };
        let found = record.check(access.store.values(values).await).await?;
        answer.more = found.distinct > found.values.len() as u64;
        answer.unlisted = found.unlisted;
        answer.sampled_traces = found.traces;
        answer.complete = selection.next().is_none() && found.traces == selection.len() as u64;
        answer.values = found.values;
        answer.searched_around = selection.searched_around().map(SearchedAround::from);
        record.returned.traces = answer.sampled_traces;
        // The answer is sent in one piece, so the completing record can also precede the first byte.
        record.complete(Outcome::Success, None).await?;
        Ok(answer)
    }

    async fn prepare_values(
        &self,
        principal: &Principal,
        request: &FieldValuesRequest,
    ) -> Result<PreparedRead<Plan>> {
        let limit = query_input::limit(request.limit, DEFAULT_VALUES, MAX_VALUES)?;
        let window = query_input::first_window(request.from, request.to, self.core.now())?;
        let access = self.core.access(principal).await?;
        let authority = access.authority.as_ref();
        let field =
            listable_field("/ref", &request.reference, &authority.model, authority.principal.is_admin())?
                .clone();
        let text = |sent: &Option<String>| sent.clone().filter(|text| !text.is_empty());
        let (prefix, contains) = (text(&request.prefix), text(&request.contains));
        let detail = access.detail([
            ("field", json!(request.reference)),
            ("prefix", json!(prefix)),
            ("contains", json!(contains)),
            ("from", json!(window.from().to_string())),
            ("to", json!(window.to().to_string())),
            ("limit", json!(limit)),
        ]);
        Ok(PreparedRead { access, plan: Plan { field, prefix, contains, window, limit }, detail })
    }
}

/// Returns the field of this name if its values can be listed to the caller; errors use `pointer` as the place of the name.
pub(crate) fn listable_field<'a>(
    pointer: &str,
    reference: &str,
    model: &'a AccessModel,
    knows_policy_fields: bool,
) -> Result<&'a MarkedField> {
    let refused = |code, detail| Err(ServiceError::refused(pointer, code, detail));
    let field_ref = FieldRef::parse(reference);
    let marked = model.field(&field_ref);
    let field = match marked {
        Some(field) if field.filterable => field,
        Some(_) if knows_policy_fields => {
            let detail = format!("`{reference}` is usable in policies only; it is not searchable");
            return refused("not_filterable", detail);
        }
        _ => {
            let intended_fields = model.intended_fields(&field_ref, |field| field.filterable);
            let detail = if intended_fields.is_empty() {
                unknown("field", reference, &model.suggest(&field_ref, |field| field.filterable))
            } else {
                let names: Vec<String> = intended_fields.iter().map(|field| format!("`{field}`")).collect();
                format!("no field `{reference}`; write {}", names.join(", or "))
            };
            return refused("unknown_field", detail);
        }
    };
    match field.logical {
        LogicalType::String | LogicalType::StringArray => Ok(field),
        LogicalType::Boolean => {
            let detail = format!("`{reference}` is of type boolean: its values are true and false");
            refused("value_type", detail)
        }
        LogicalType::Number => {
            let detail = format!(
                "`{reference}` is of type number; values are listed for text fields only: filter it by a \
                 range, with `between`"
            );
            refused("value_type", detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{ColumnType, FieldSource};

    use super::*;

    fn model() -> AccessModel {
        let field = |field: FieldRef, logical, filterable| MarkedField {
            field,
            logical,
            source: FieldSource::Column,
            column_type: ColumnType::STRING,
            filterable,
            policy: true,
            column: None,
        };
        AccessModel {
            fields: vec![
                field(FieldRef::column("ServiceName"), LogicalType::String, true),
                field(FieldRef::key("SpanAttributes", "a \"b\""), LogicalType::String, true),
                field(FieldRef::key("SpanAttributes", "secret"), LogicalType::String, false),
                field(FieldRef::column("Duration"), LogicalType::Number, true),
                field(FieldRef::column("Failed"), LogicalType::Boolean, true),
                field(FieldRef::column("Events.Name"), LogicalType::StringArray, true),
            ],
            ..AccessModel::default()
        }
    }

    #[track_caller]
    fn check(reference: &str, admin: bool, expected: Result<(), (&str, &str)>) {
        match (listable_field("/ref", reference, &model(), admin), expected) {
            (Ok(field), Ok(())) => assert_eq!(field.field.to_string(), reference),
            (Err(error), Err((code, text))) => {
                assert_eq!((error.code(), error.errors()[0].pointer.as_str()), (code, "/ref"));
                assert!(error.detail().contains(text), "{}", error.detail());
                let detail = error.detail().replace(reference, "");
                assert!(!detail.contains("secret"), "{detail}");
            }
            (got, _) => panic!("{reference}: {got:?}"),
        }
    }

    #[test]
    fn only_searchable_text_fields_are_listed() {
        for admin in [false, true] {
            check("ServiceName", admin, Ok(()));
            check("Events.Name", admin, Ok(()));
            check("SpanAttributes[\"a \\\"b\\\"\"]", admin, Ok(()));
            check("Duration", admin, Err(("value_type", "`between`")));
            check("Failed", admin, Err(("value_type", "true and false")));
            check("Servicename", admin, Err(("unknown_field", "did you mean `ServiceName`")));
            check("", admin, Err(("unknown_field", "no field")));
            check("a \"b\"", admin, Err(("unknown_field", "write `SpanAttributes[\"a \\\"b\\\"\"]`")));
            check("SpanAttributes[\"secre\"]", admin, Err(("unknown_field", "no field")));
        }
        check("SpanAttributes[\"secret\"]", true, Err(("not_filterable", "policies only")));
        check("SpanAttributes[\"secret\"]", false, Err(("unknown_field", "no field `SpanAttributes")));
    }
}
