//! Filters: checks the conditions of a request against the access model.

use std::convert::Infallible;

use crate::access_model::{AccessModel, MarkedField};
use crate::decimal::{Decimal, InvalidDecimal};
use crate::field::FieldRef;
use crate::logical::LogicalType;
use crate::operator::{OperandSource, Operator, Test};

/// One value of a condition, as sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A string.
    String(String),
    /// A number.
    Number(Decimal),
    /// A string of digits from a caller that may send numbers as text. It is a string for a field of strings and a
    /// number for a field of numbers; the result is an error if no column can store the number.
    Digits(String, Result<Decimal, InvalidDecimal>),
    /// A boolean.
    Bool(bool),
}

/// A condition, as sent.
#[derive(Debug, Clone, PartialEq)]
pub struct RawCondition {
    /// The field.
    pub field: FieldRef,
    /// The member that named the field: `ref`, or `name` with or without `map`. Both can name every field.
    pub field_member: &'static str,
    /// The operator in its wire spelling.
    pub op: String,
    /// `value`, if present.
    pub value: Option<Scalar>,
    /// `values`, if present.
    pub values: Option<Vec<Scalar>>,
}

/// Reason why the members of a condition do not name a field: `ref` is missing or superfluous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldNameError {
    /// Neither `ref` nor `name` is present.
    #[error("name the field: `ref` as the filter schema shows it, or `name`, with `map` for a key of a map")]
    Missing,
    /// `ref` is combined with `name` or `map`.
    #[error("name the field once: `ref` alone, or `name` with `map`")]
    Ambiguous,
}

/// Returns the field that the members of a condition name, and the member: `ref` or `name`. An empty `map` counts as absent, because the filter schema
/// shows columns with an empty one.
///
/// # Errors
/// When not exactly one of `reference` and `name` is present, or `map` is combined with `reference`.
pub fn named_field(
    reference: Option<&str>,
    map: Option<&str>,
    name: Option<&str>,
) -> Result<(FieldRef, &'static str), FieldNameError> {
    let map = map.filter(|map| !map.is_empty());
    match (reference, map, name) {
        (Some(reference), None, None) => Ok((FieldRef::parse(reference), "ref")),
        (None, map, Some(name)) => {
            Ok((FieldRef { map: map.map(str::to_owned), name: name.to_owned() }, "name"))
        }
        (None, _, None) => Err(FieldNameError::Missing),
        (Some(_), _, _) => Err(FieldNameError::Ambiguous),
    }
}

/// A checked condition: a filterable field, and an operator of the field's type.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The field.
    pub field: MarkedField,
    /// The test.
    pub test: Test,
}

/// A filter of traces, with checked conditions or, as sent, with [`RawCondition`]s. A trace must match each of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter<C = Condition> {
    /// Conditions that must all match, each in some span.
    pub conditions: Vec<C>,
    /// Groups of conditions: for each group, one span must satisfy all of its conditions.
    pub same_span: Vec<Vec<C>>,
    /// Conditions that no span of the trace may satisfy.
    pub none: Vec<C>,
}

impl<C> Default for Filter<C> {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl<C> Filter<C> {
    /// Creates a filter of conditions that may match in different spans.
    pub const fn of(conditions: Vec<C>) -> Self {
        Self { conditions, same_span: Vec::new(), none: Vec::new() }
    }

    /// All conditions, in the order of the members.
    pub fn all_conditions(&self) -> impl Iterator<Item = &C> {
        self.conditions.iter().chain(self.same_span.iter().flatten()).chain(&self.none)
    }

    /// The conditions, each as a group of one, then the groups of `same_span`. Some span must satisfy each group.
    pub fn required_groups(&self) -> impl Iterator<Item = &[C]> {
        self.conditions.chunks(1).chain(self.same_span.iter().map(Vec::as_slice))
    }

    /// Converts each condition. The function also takes its position as a JSON Pointer into the filter, such as
    /// `/same_span/0/1`.
    ///
    /// # Errors
    /// The first error of the function.
    pub fn try_map<T, E>(self, mut convert: impl FnMut(&str, C) -> Result<T, E>) -> Result<Filter<T>, E> {
        let mut list = |name: &str, conditions: Vec<C>| {
            let numbered = conditions.into_iter().enumerate();
            numbered.map(|(at, condition)| convert(&format!("/{name}/{at}"), condition)).collect()
        };
        let conditions = list("conditions", self.conditions)?;
        let groups = self.same_span.into_iter().enumerate();
        let same_span =
            groups.map(|(at, group)| list(&format!("same_span/{at}"), group)).collect::<Result<_, E>>()?;
        Ok(Filter { conditions, same_span, none: list("none", self.none)? })
    }
}

/// Reason why a condition was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionErrorKind {
    /// No field with this name exists that the caller may know. Contains similar names, for the first few such
    /// conditions.
    UnknownField(Vec<String>),
    /// The name of a field in a form that does not name it, such as a key without its map. Contains the possible
    /// fields.
    MisnamedField(Vec<FieldRef>),
    /// The caller may know the field, but it is not filterable. Contains similar filterable names.
    NotFilterable(Vec<String>),
    /// The field's type does not have this operator. Contains that type.
    OperatorNotAllowed(LogicalType),
    /// The operator takes values of another type.
    ValueType(&'static str),
    /// No column can store the number.
    Number(InvalidDecimal),
    /// `value` or `values` is missing or superfluous, or has too few values.
    ValueCount(&'static str),
    /// More values than allowed. Contains the limit.
    TooManyValues(usize),
}

/// A rejected condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    /// JSON Pointer to the condition, from the filter.
    pub pointer: String,
    /// The invalid member of the condition (`ref`, `name`, `op`, `value`, `values`), and the position in `values`.
    pub member: (&'static str, Option<usize>),
    /// The field as named in the condition.
    pub field: FieldRef,
    /// The reason.
    pub kind: ConditionErrorKind,
}

impl Filter<RawCondition> {
    /// Checks the conditions against the model. `knows_policy_fields` says whether the caller may learn that a field exists
    /// which only policies may use. Administrators may; for other users such a field is unknown.
    ///
    /// # Errors
    /// One error for each rejected condition.
    pub fn check(
        self,
        model: &AccessModel,
        knows_policy_fields: bool,
        max_values: usize,
    ) -> Result<Filter, Vec<ConditionError>> {
        let mut errors: Vec<ConditionError> = Vec::new();
        let checked = self.try_map(|pointer, raw| {
            let has_unknown_name = |error: &&ConditionError| {
                matches!(
                    error.kind,
                    ConditionErrorKind::UnknownField(_) | ConditionErrorKind::NotFilterable(_)
                )
            };
            let suggest = errors.iter().filter(has_unknown_name).count() < SUGGESTED_MAX;
            let checked = check_condition(&raw, model, knows_policy_fields, suggest, max_values);
            let reject = |(member, kind)| {
                errors.push(ConditionError {
                    pointer: pointer.to_owned(),
                    member,
                    field: raw.field.clone(),
                    kind,
                });
            };
            Ok::<_, Infallible>(checked.map_err(reject).ok())
        });
        let Ok(checked) = checked;
        match checked.try_map(|_, condition| condition.ok_or(())) {
            Ok(filter) => Ok(filter),
            Err(()) => Err(errors),
        }
    }
}

/// Maximum number of conditions of a filter for which similar names are searched. Each search compares with every
/// field.
const SUGGESTED_MAX: usize = 3;

type Rejection = ((&'static str, Option<usize>), ConditionErrorKind);

fn check_condition(
    raw: &RawCondition,
    model: &AccessModel,
    knows_policy_fields: bool,
    suggest: bool,
    max_values: usize,
) -> Result<Condition, Rejection> {
    let suggestions =
        || if suggest { model.suggest(&raw.field, |field| field.filterable) } else { Vec::new() };
    let member = (raw.field_member, None);
    let field = match model.field(&raw.field) {
        Some(field) if field.filterable => field,
        Some(_) if knows_policy_fields => {
            return Err((member, ConditionErrorKind::NotFilterable(suggestions())));
        }
        _ => {
            let intended_fields = model.intended_fields(&raw.field, |field| field.filterable);
            return Err((
                member,
                if intended_fields.is_empty() {
                    ConditionErrorKind::UnknownField(suggestions())
                } else {
                    ConditionErrorKind::MisnamedField(intended_fields)
                },
            ));
        }
    };
    let operator = Operator::parse(&raw.op)
        .filter(|operator| operator.types().contains(&field.logical))
        .ok_or((("op", None), ConditionErrorKind::OperatorNotAllowed(field.logical)))?;
    let test = Test::new(operator, field.logical, &mut SentOperands { raw, max_values })?;
    Ok(Condition { field: field.clone(), test })
}

/// The operands of a condition, as sent.
struct SentOperands<'a> {
    raw: &'a RawCondition,
    max_values: usize,
}

impl SentOperands<'_> {
    fn one<T>(&self, convert: Conversion<T>) -> Result<T, Rejection> {
        if self.raw.values.is_some() {
            return Err(count("values", "the operator takes one `value`, not `values`"));
        }
        let value =
            self.raw.value.as_ref().ok_or_else(|| count("value", "the operator takes one `value`"))?;
        convert(value).map_err(|kind| (("value", None), kind))
    }

    fn many(&self) -> Result<&[Scalar], Rejection> {
        if self.raw.value.is_some() {
            return Err(count("value", "the operator takes `values`, not `value`"));
        }
        let values = self.raw.values.as_deref().unwrap_or_default();
        if values.is_empty() {
            return Err(count("values", "the operator takes `values` with at least one element"));
        }
        if values.len() > self.max_values {
            return Err((("values", None), ConditionErrorKind::TooManyValues(self.max_values)));
        }
        Ok(values)
    }
}

impl OperandSource for SentOperands<'_> {
    type Error = Rejection;

    fn none(&mut self) -> Result<(), Rejection> {
        match self.raw {
            RawCondition { value: Some(_), .. } => Err(count("value", "the operator takes no `value`")),
            RawCondition { values: Some(_), .. } => Err(count("values", "the operator takes no `values`")),
            _ => Ok(()),
        }
    }

    fn string(&mut self) -> Result<String, Rejection> {
        self.one(string)
    }

    fn boolean(&mut self) -> Result<bool, Rejection> {
        self.one(boolean)
    }

    fn number(&mut self) -> Result<Decimal, Rejection> {
        self.one(number)
    }

    fn strings(&mut self) -> Result<Vec<String>, Rejection> {
        self.many()?.iter().enumerate().map(|(at, value)| element(string, at, value)).collect()
    }

    fn range(&mut self) -> Result<(Decimal, Decimal), Rejection> {
        match self.many()? {
            [low, high] => Ok((element(number, 0, low)?, element(number, 1, high)?)),
            _ => Err(count("values", "the operator takes `values` with exactly two numbers")),
        }
    }
}

type Conversion<T> = fn(&Scalar) -> Result<T, ConditionErrorKind>;

fn count(member: &'static str, message: &'static str) -> Rejection {
    ((member, None), ConditionErrorKind::ValueCount(message))
}

fn element<T>(convert: Conversion<T>, at: usize, value: &Scalar) -> Result<T, Rejection> {
    convert(value).map_err(|kind| (("values", Some(at)), kind))
}

fn string(value: &Scalar) -> Result<String, ConditionErrorKind> {
    match value {
        Scalar::String(text) | Scalar::Digits(text, _) => Ok(text.clone()),
        _ => Err(ConditionErrorKind::ValueType("a string")),
    }
}

fn boolean(value: &Scalar) -> Result<bool, ConditionErrorKind> {
    match value {
        Scalar::Bool(value) => Ok(*value),
        _ => Err(ConditionErrorKind::ValueType("`true` or `false`")),
    }
}

fn number(value: &Scalar) -> Result<Decimal, ConditionErrorKind> {
    match value {
        Scalar::Number(value) => Ok(value.clone()),
        Scalar::Digits(_, value) => value.clone().map_err(ConditionErrorKind::Number),
        _ => Err(ConditionErrorKind::ValueType("a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnType, FieldSource};

    #[test]
    fn names_are_suggested_for_the_first_few_conditions() {
        let field = MarkedField {
            field: FieldRef::column("ServiceName"),
            source: FieldSource::Column,
            logical: LogicalType::String,
            column_type: ColumnType::parse("String"),
            filterable: true,
            policy: false,
            column: None,
        };
        let model = AccessModel { version: 1, binding: None, fields: vec![field] };
        let raw_condition = |name: &str, op: &str| RawCondition {
            field: FieldRef::column(name),
            field_member: "name",
            op: op.to_owned(),
            value: Some(Scalar::String("a".to_owned())),
            values: None,
        };
        let mut conditions = vec![raw_condition("ServiceName", "gt")];
        conditions.extend((0..SUGGESTED_MAX + 2).map(|_| raw_condition("ServiceNam", "eq")));
        let sent = Filter::of(conditions);
        let errors = sent.clone().check(&model, false, 10).unwrap_err();
        assert_eq!(errors.len(), sent.conditions.len());
        let names = |error: &ConditionError| match &error.kind {
            ConditionErrorKind::UnknownField(names) => names.len(),
            _ => 0,
        };
        assert_eq!(errors.iter().map(names).collect::<Vec<_>>(), [0, 1, 1, 1, 0, 0]);
        let [wrong, right] = ["gt", "eq"].map(|op| raw_condition("ServiceName", op));
        let same_span = vec![vec![right.clone()], vec![right.clone(), wrong.clone()]];
        let sent = Filter { conditions: vec![right.clone()], same_span, none: vec![right, wrong] };
        let errors = sent.clone().check(&model, false, 10).unwrap_err();
        let pointers: Vec<&str> = errors.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(pointers, ["/same_span/1/1", "/none/1"]);
        assert_eq!(
            (sent.all_conditions().count(), sent.required_groups().map(<[_]>::len).collect::<Vec<_>>()),
            (6, vec![1, 1, 2])
        );
    }
}
