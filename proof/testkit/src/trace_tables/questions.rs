//! Policies and filters, each with a plain evaluation beside its text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::{Span, TENANTS, Value};

/// A field of a layout.
#[derive(Clone, Copy)]
pub struct Field {
    /// Map or JSON column; none for a column.
    pub map: Option<&'static str>,
    /// Key, path or column.
    pub name: &'static str,
    /// Logical type to mark it with; none for the column's own.
    pub logical: Option<&'static str>,
    /// Whether policies may use it.
    pub policy: bool,
    /// The value that the layout stores for a span.
    pub read: fn(&Span) -> Option<Value>,
}

impl Field {
    /// Returns a text column.
    pub const fn column(name: &'static str, read: fn(&Span) -> Option<Value>) -> Self {
        Self { map: None, name, logical: None, policy: true, read }
    }

    /// Returns a text at a key.
    pub const fn key(map: &'static str, name: &'static str, read: fn(&Span) -> Option<Value>) -> Self {
        Self { map: Some(map), name, logical: None, policy: true, read }
    }

    /// Returns the field as a number.
    #[must_use]
    pub const fn number(self) -> Self {
        Self { logical: Some("number"), policy: false, ..self }
    }

    /// Returns the field as a boolean.
    #[must_use]
    pub const fn boolean(self) -> Self {
        Self { logical: Some("boolean"), ..self }
    }

    /// Returns the field as `PUT /schema/fields` marks it.
    pub fn mark(&self) -> Json {
        let mut mark = json!({"name": self.name, "filterable": true, "policy": self.policy});
        if let Some(members) = mark.as_object_mut() {
            members.extend(self.map.map(|map| ("map".to_owned(), json!(map))));
            members.extend(self.logical.map(|logical| ("type".to_owned(), json!(logical))));
        }
        mark
    }

    /// Returns the reference in policies.
    pub fn reference(&self) -> String {
        match self.map {
            None => self.name.to_owned(),
            Some(map) => format!("{map}[\"{}\"]", self.name),
        }
    }

    fn text(&self, span: &Span) -> Option<String> {
        (self.read)(span).map(|value| value.text())
    }
}

/// Evaluates something on a span: none is an error, which matches nothing.
type Evaluation = Box<dyn Fn(&Span) -> Option<bool> + Send + Sync>;

/// A policy, or a part of one.
pub struct Expression {
    /// The text in CEL.
    pub text: String,
    holds: Evaluation,
}

impl Expression {
    fn new(text: String, holds: impl Fn(&Span) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self { text, holds: Box::new(holds) }
    }

    /// Whether a span satisfies it.
    pub fn matches(&self, span: &Span) -> bool {
        (self.holds)(span) == Some(true)
    }

    fn equals(field: Field, text: &'static str) -> Self {
        let written = format!("{} == \"{text}\"", field.reference());
        Self::new(written, move |span| Some(field.text(span)? == text))
    }

    fn differs(field: Field, text: &'static str) -> Self {
        let written = format!("{} != \"{text}\"", field.reference());
        Self::new(written, move |span| Some(field.text(span)? != text))
    }

    /// Compares with the list of the user's attribute.
    fn is_of_user(field: Field, values: [&'static str; 2]) -> Self {
        let written = format!("{} in user.attributes.tenants", field.reference());
        Self::new(written, move |span| Some(values.contains(&field.text(span)?.as_str())))
    }

    fn starts_with(field: Field, prefix: &'static str) -> Self {
        let written = format!("{}.startsWith(\"{prefix}\")", field.reference());
        Self::new(written, move |span| Some(field.text(span)?.starts_with(prefix)))
    }

    fn is_present(map: &'static str, field: Field) -> Self {
        Self::new(format!("\"{}\" in {map}", field.name), move |span| Some((field.read)(span).is_some()))
    }

    fn is_true(field: Field) -> Self {
        Self::new(field.reference(), move |span| Some((field.read)(span)? == Value::Bool(true)))
    }

    fn and(self, other: Self) -> Self {
        Self::new(format!("{} && {}", self.text, other.text), move |span| {
            match ((self.holds)(span), (other.holds)(span)) {
                (Some(true), Some(true)) => Some(true),
                (Some(false), _) | (_, Some(false)) => Some(false),
                _ => None,
            }
        })
    }

    fn or(self, other: Self) -> Self {
        Self::new(format!("({} || {})", self.text, other.text), move |span| {
            match ((self.holds)(span), (other.holds)(span)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }
        })
    }
}

/// A condition of a filter.
pub struct Condition {
    /// The condition in the API's JSON.
    pub json: Json,
    holds: Box<dyn Fn(&Span) -> bool + Send + Sync>,
}

impl Condition {
    fn new(
        field: Field,
        operator: &str,
        operand: (&str, Json),
        test: impl Fn(Option<Value>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let mut json = json!({"name": field.name, "op": operator});
        if let Some(members) = json.as_object_mut() {
            members.extend(field.map.map(|map| ("map".to_owned(), json!(map))));
            members.extend((!operand.1.is_null()).then(|| (operand.0.to_owned(), operand.1)));
        }
        Self { json, holds: Box::new(move |span| test((field.read)(span))) }
    }

    fn text(
        field: Field,
        operator: &str,
        operand: (&str, Json),
        test: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(field, operator, operand, move |value| value.is_some_and(|value| test(&value.text())))
    }

    fn number(field: Field, operator: &str, operand: i64, test: fn(&f64, &f64) -> bool) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "the operands are far from the values")]
        let bound = operand as f64;
        Self::new(field, operator, ("value", json!(operand)), move |value| {
            value.and_then(|value| value.number()).is_some_and(|number| test(&number, &bound))
        })
    }

    fn equals(field: Field, text: &'static str) -> Self {
        Self::text(field, "eq", ("value", json!(text)), move |value| value == text)
    }

    fn differs(field: Field, text: &'static str) -> Self {
        Self::text(field, "ne", ("value", json!(text)), move |value| value != text)
    }

    fn is_one_of(field: Field, texts: [&'static str; 2]) -> Self {
        Self::text(field, "in", ("values", json!(texts)), move |value| texts.contains(&value))
    }

    fn starts_with(field: Field, prefix: &'static str) -> Self {
        Self::text(field, "prefix", ("value", json!(prefix)), move |value| value.starts_with(prefix))
    }

    fn is_absent(field: Field) -> Self {
        Self::new(field, "not_exists", ("", Json::Null), |value| value.is_none())
    }

    fn is_true(field: Field) -> Self {
        Self::new(field, "eq", ("value", json!(true)), |value| value == Some(Value::Bool(true)))
    }
}

/// The fields of a layout that its questions use.
#[derive(Clone, Copy)]
pub struct Marks {
    /// A text that separates those who may read a trace: an attribute by key, where the layout has one.
    pub tenant: Field,
    /// Two of its values, which the user's attribute `tenants` has, too.
    pub tenants: [&'static str; 2],
    /// The operation.
    pub operation: Field,
    /// The service.
    pub service: Option<Field>,
    /// The attribute `http.response.status_code` as a number.
    pub number: Option<Field>,
    /// The attribute `cache.hit` as a boolean.
    pub boolean: Option<Field>,
    /// The status, and its value for an error.
    pub status: Option<(Field, &'static str)>,
    /// The duration, and one and a half seconds in its unit.
    pub duration: Option<(Field, i64)>,
    /// The start, and half an hour after the first trace in its unit.
    pub time: Option<(Field, i64)>,
}

impl Marks {
    /// Returns marks of the first two fields only.
    pub const fn new(tenant: Field, operation: Field) -> Self {
        Self {
            tenant,
            tenants: TENANTS,
            operation,
            service: None,
            number: None,
            boolean: None,
            status: None,
            duration: None,
            time: None,
        }
    }

    /// Returns all fields, each once.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = vec![self.tenant, self.operation];
        fields.extend([self.service, self.number, self.boolean].into_iter().flatten());
        fields.extend(self.status.map(|(field, _)| field));
        fields.extend([self.duration, self.time].into_iter().flatten().map(|(field, _)| field));
        let mut known = BTreeSet::new();
        fields.retain(|field| known.insert((field.map, field.name)));
        fields
    }
}

/// Policies and filters.
pub struct Questions {
    /// Policies.
    pub policies: Vec<Expression>,
    /// Filters: conditions, each of which some span of a trace must satisfy.
    pub filters: Vec<Vec<Condition>>,
}

impl Questions {
    /// Returns three policies and six filters over the fields.
    pub fn new(marks: &Marks) -> Self {
        let Marks { tenant, operation, .. } = *marks;
        let [first, second] = marks.tenants;
        let posts = || Expression::starts_with(operation, "POST ");
        let others = match (tenant.map, tenant.logical) {
            (Some(map), _) => Expression::is_present(map, tenant).and(Expression::differs(tenant, first)),
            (None, _) => Expression::differs(tenant, first).and(Expression::differs(tenant, "")),
        };
        let policies = vec![
            Expression::equals(tenant, first),
            Expression::is_of_user(tenant, marks.tenants).and(Expression::starts_with(operation, "GET ")),
            others.and(match marks.boolean {
                Some(boolean) => Expression::is_true(boolean).or(posts()),
                None => posts(),
            }),
        ];
        let absent =
            if tenant.map.is_some() { Condition::is_absent(tenant) } else { Condition::equals(tenant, "") };
        let filters = vec![
            vec![Condition::equals(tenant, second)],
            vec![
                absent,
                match marks.service {
                    Some(service) => Condition::equals(service, "checkout"),
                    None => Condition::starts_with(operation, "GET /c"),
                },
            ],
            vec![match (marks.number, marks.status) {
                (Some(number), _) => Condition::number(number, "gte", 500, f64::ge),
                (None, Some((status, error))) => Condition::equals(status, error),
                (None, None) => Condition::differs(operation, "GET /cart"),
            }],
            vec![match marks.duration {
                Some((duration, bound)) => Condition::number(duration, "gt", bound, f64::gt),
                None => Condition::is_one_of(tenant, [second, ""]),
            }],
            vec![
                match marks.boolean {
                    Some(boolean) => Condition::is_true(boolean),
                    None => Condition::equals(operation, "charge card"),
                },
                Condition::differs(tenant, second),
            ],
            vec![
                match marks.time {
                    Some((time, bound)) => Condition::number(time, "lt", bound, f64::lt),
                    None => Condition::equals(operation, "ünïcode \"q\" \\"),
                },
                Condition::starts_with(operation, "POST "),
            ],
        ];
        Self { policies, filters }
    }
}

/// The window of a search, and the time around it in which spans count where there is no trace index.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Start, inclusive, in nanoseconds since the Unix epoch.
    pub from: i64,
    /// End, exclusive.
    pub to: i64,
    /// Nanoseconds before and after the window; none for all.
    pub around: Option<i64>,
}

/// Returns the traces that a search returns: those with a span in the window, a span that satisfies the policy, and for each
/// condition a span that satisfies it.
pub fn selected(spans: &[Span], window: Window, policy: &Expression, filter: &[Condition]) -> BTreeSet<u128> {
    let mut traces: BTreeMap<u128, Vec<&Span>> = BTreeMap::new();
    let around = window.around.unwrap_or(i64::MAX);
    let bounds = window.from.saturating_sub(around)..window.to.saturating_add(around);
    for span in spans.iter().filter(|span| bounds.contains(&span.start)) {
        traces.entry(span.trace).or_default().push(span);
    }
    traces.retain(|_, spans| {
        spans.iter().any(|span| (window.from..window.to).contains(&span.start))
            && spans.iter().any(|span| policy.matches(span))
            && filter.iter().all(|condition| spans.iter().any(|span| (condition.holds)(span)))
    });
    traces.into_keys().collect()
}
