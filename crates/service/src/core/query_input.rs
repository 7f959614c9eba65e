//! Parsing of query parameters; errors point to the invalid member.

use serde_json::{Value, json};
use tracewarden_model::{
    AccessModel, ConditionError, ConditionErrorKind, Decimal, FieldRef, Filter, Operator, RawCondition,
    Scalar, Timestamp, Window,
};

use crate::core::audit_detail::with_members;
use crate::core::error::{CursorFault, Result, ServiceError};
use crate::core::field_error::{FieldError, unknown};
use crate::core::settings::Limits;

/// Parses the number in a cursor, before which the page begins. A number that the database cannot represent is invalid.
pub(crate) fn sequence_cursor(cursor: Option<&str>, list: &'static str) -> Result<Option<u64>> {
    let number = |cursor: &str| cursor.parse().ok().filter(|number| i64::try_from(*number).is_ok());
    cursor.map(|cursor| number(cursor).ok_or(CursorFault::OtherList(list).into())).transpose()
}

/// Returns the length of a page: the requested one, capped at the maximum.
pub(crate) fn limit(requested: Option<i64>, default: u32, max: u32) -> Result<u32> {
    Ok(capped_count("limit", requested, max)?.unwrap_or(default.min(max)))
}

/// Returns the number in this member of the request, reduced to the maximum.
///
/// # Errors
/// When it is less than 1.
pub(crate) fn capped_count(member: &str, requested: Option<i64>, max: u32) -> Result<Option<u32>> {
    let Some(requested) = requested else { return Ok(None) };
    if requested < 1 {
        let (pointer, detail) = (format!("/{member}"), format!("`{member}` must be at least 1"));
        return Err(ServiceError::InvalidRequest(vec![FieldError::new(pointer, "invalid_request", detail)]));
    }
    Ok(Some(u32::try_from(requested).unwrap_or(u32::MAX).min(max)))
}

/// Returns the window of a first page.
pub(crate) fn first_window(from: Option<Timestamp>, to: Option<Timestamp>, now: Timestamp) -> Result<Window> {
    let to = to.unwrap_or(now);
    window(from.unwrap_or_else(|| to.saturating_sub(Window::DEFAULT_NANOS)), to)
}

/// Creates a window; an empty one is an error.
pub(crate) fn window(from: Timestamp, to: Timestamp) -> Result<Window> {
    Window::new(from, to).map_err(|error| ServiceError::refused("/from", "invalid_window", error.to_string()))
}

/// Returns the window of a later page: the first page fixed it, and a request may only repeat it.
pub(crate) fn later_window(from: Option<Timestamp>, to: Option<Timestamp>, fixed: Window) -> Result<Window> {
    if from.is_some_and(|from| from != fixed.from()) || to.is_some_and(|to| to != fixed.to()) {
        return Err(CursorFault::OtherWindow.into());
    }
    Ok(fixed)
}

pub(crate) fn filter(
    filter: &Filter<RawCondition>,
    model: &AccessModel,
    knows_policy_fields: bool,
    limits: &Limits,
) -> Result<Filter> {
    if filter.all_conditions().count() > limits.max_conditions {
        let detail = format!("at most {} conditions", limits.max_conditions);
        let conditions_exceed = filter.conditions.len() > limits.max_conditions;
        let pointer = if conditions_exceed { "/filter/conditions" } else { "/filter" };
        return Err(ServiceError::refused(pointer, "too_many_conditions", detail));
    }
    if let Some(at) = filter.same_span.iter().position(Vec::is_empty) {
        let detail = "a group must have at least one condition";
        return Err(ServiceError::invalid(format!("/filter/same_span/{at}"), detail));
    }
    let checked = filter.clone().check(model, knows_policy_fields, limits.max_values);
    checked.map_err(|errors| ServiceError::Refused(errors.into_iter().map(condition_error).collect()))
}

fn condition_error(error: ConditionError) -> FieldError {
    let (member, position) = error.member;
    let mut pointer = format!("/filter{}/{member}", error.pointer);
    if let Some(position) = position {
        pointer.push_str(&format!("/{position}"));
    }
    let field = error.field.to_string();
    let (code, detail) = match error.kind {
        ConditionErrorKind::UnknownField(suggestions) => {
            ("unknown_field", unknown("field", &field, &suggestions))
        }
        ConditionErrorKind::MisnamedField(intended_fields) => {
            ("unknown_field", misnamed(&error.field, &intended_fields))
        }
        ConditionErrorKind::NotFilterable(suggestions) => {
            let detail = format!("`{field}` is usable in policies only; it is not searchable");
            let names: Vec<String> = suggestions.iter().map(|name| format!("`{name}`")).collect();
            let hint =
                if names.is_empty() { String::new() } else { format!("; searchable: {}", names.join(", ")) };
            ("not_filterable", detail + &hint)
        }
        ConditionErrorKind::OperatorNotAllowed(logical) => {
            let names: Vec<&str> = Operator::of_type(logical).into_iter().map(Operator::as_str).collect();
            ("operator_not_allowed", format!("`{field}` is of type {logical}: {}", names.join(", ")))
        }
        ConditionErrorKind::ValueType(requested) => {
            ("value_type", format!("`{field}` takes {requested} here"))
        }
        ConditionErrorKind::Number(error) => ("value_type", error.to_string()),
        ConditionErrorKind::ValueCount(message) => ("value_count", message.to_owned()),
        ConditionErrorKind::TooManyValues(max) => ("too_many_values", format!("at most {max} values")),
    };
    FieldError::new(pointer, code, detail)
}

/// Message for a field that was named in another form.
fn misnamed(requested: &FieldRef, intended_fields: &[FieldRef]) -> String {
    let forms = intended_fields.iter().map(|field| {
        let reference = json!({ "ref": field.to_string() });
        match &field.map {
            Some(map) => format!("{reference} or {}", json!({ "map": map, "name": field.name })),
            None => format!("{reference} or {}", json!({ "name": field.name })),
        }
    });
    let forms: Vec<String> = forms.collect();
    let named = match &requested.map {
        Some(map) => format!("no field `{}` of `{map}`", requested.name),
        None => format!("no column `{}`", requested.name),
    };
    format!("{named}; write {}", forms.join(", or "))
}

/// Formats a decimal as a JSON number if that represents every digit, otherwise as text.
fn number(value: &Decimal) -> Value {
    let digits = value.to_string();
    let exact = |number: &serde_json::Number| Decimal::parse(&number.to_string()).as_ref() == Ok(value);
    let read = digits.parse::<serde_json::Number>().ok().filter(exact);
    read.map_or(Value::String(digits), Value::Number)
}

/// Formats the filter for the audit log, as one list of conditions: those of a group have its number as `same_span`, and
/// those that no span may satisfy have `none`. A number has every digit; it is text if a 64-bit JSON number cannot represent it.
pub(crate) fn filter_detail(filter: &Filter<RawCondition>) -> Value {
    let with = |sent, name, value| with_members(condition_detail(sent), [(name, Some(value))]);
    let conditions = filter.conditions.iter().map(condition_detail);
    let groups = filter
        .same_span
        .iter()
        .zip(1..)
        .flat_map(|(group, number)| group.iter().map(move |sent| with(sent, "same_span", json!(number))));
    let none = filter.none.iter().map(|sent| with(sent, "none", json!(true)));
    conditions.chain(groups).chain(none).collect()
}

/// Formats a condition; equal conditions have the same text, however their numbers were written.
pub(crate) fn condition_detail(condition: &RawCondition) -> Value {
    let scalar = |value: &Scalar| match value {
        Scalar::String(text) | Scalar::Digits(text, _) => json!(text),
        Scalar::Bool(value) => json!(value),
        Scalar::Number(value) => number(value),
    };
    let value = condition.value.as_ref().map(scalar);
    let values = condition.values.as_ref().map(|values| values.iter().map(scalar).collect());
    let detail = json!({ "field": condition.field.to_string(), "op": condition.op });
    with_members(detail, [("value", value), ("values", values)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn windows_default_to_the_last_day() {
        let day = Window::DEFAULT_NANOS;
        let window = first_window(None, None, at(3 * day)).unwrap();
        assert_eq!((window.from(), window.to()), (at(2 * day), at(3 * day)));
        let window = first_window(None, Some(at(day)), at(3 * day)).unwrap();
        assert_eq!((window.from(), window.to()), (at(0), at(day)));
        let error = first_window(Some(at(5)), Some(at(5)), at(9)).unwrap_err();
        assert_eq!(error.code(), "invalid_window");
        assert_eq!(later_window(None, Some(at(day)), window).unwrap(), window);
        assert_eq!(later_window(Some(at(1)), None, window).unwrap_err().code(), "invalid_cursor");
    }

    #[test]
    fn limits_are_capped_and_must_be_positive() {
        assert_eq!(limit(None, 50, 200).unwrap(), 50);
        assert_eq!(limit(None, 50, 20).unwrap(), 20);
        assert_eq!(limit(Some(1), 50, 200).unwrap(), 1);
        assert_eq!(limit(Some(i64::MAX), 50, 200).unwrap(), 200);
        for wrong in [0, -1, i64::MIN] {
            assert_eq!(limit(Some(wrong), 50, 200).unwrap_err().code(), "invalid_request");
        }
    }
}
