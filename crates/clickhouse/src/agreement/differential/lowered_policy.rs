//! Evaluates many policies at once, in ClickHouse and with the reference.

use std::sync::Arc;

use tracewarden_model::{Caller, MarkedField};
use tracewarden_policy::testing::truth;
use tracewarden_policy::{FieldValue, Outcome, Predicate, Span, check, evaluate};
use tracewarden_testkit::policies::{COLUMNS, GeneratedPolicy};

use super::generated_model::MODEL;
use super::store::with_key_columns;
use crate::ClickHouse;
use crate::sql::{Statement, display_sql, render};

/// The result of a policy on a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    True,
    False,
    Error,
}

/// A policy for a caller, with the predicates that it was lowered to.
#[derive(Debug, Clone)]
pub(crate) struct LoweredPolicy {
    pub(crate) policy: GeneratedPolicy,
    pub(crate) caller: Caller,
    pub(crate) is_true: Predicate,
    pub(crate) is_false: Predicate,
}

impl LoweredPolicy {
    /// Returns `None` when the policy is refused, or too large for the caller.
    pub(crate) fn new(policy: GeneratedPolicy, caller: Caller) -> Option<Self> {
        let (is_true, is_false) = truth(&check(&policy.text, &MODEL).ok()?, &caller)?;
        Some(Self { policy, caller, is_true, is_false })
    }

    /// Returns the same policy with values of keys read from key columns; `None` when it refers to no key that has one.
    pub(crate) fn with_key_columns(&self) -> Option<Self> {
        let (is_true, is_false) = (with_key_columns(&self.is_true), with_key_columns(&self.is_false));
        if is_true.is_none() && is_false.is_none() {
            return None;
        }
        let is_true = is_true.unwrap_or_else(|| self.is_true.clone());
        let is_false = is_false.unwrap_or_else(|| self.is_false.clone());
        Some(Self { is_true, is_false, ..self.clone() })
    }

    /// Describes a disagreement with everything that is needed to investigate it.
    pub(crate) fn describe_disagreement(&self, span: &Span, store: Verdict, reference: Verdict) -> String {
        let mut text =
            format!("store {store:?}, reference {reference:?}\n{}\n{:?}\n", self.policy.text, self.caller);
        for field in MODEL.fields.iter().filter(|field| self.refers_to(field)) {
            let value = match &field.field.map {
                None => span.get(&field.field.name),
                Some(map) => span.get(map).and_then(|map| map.value_of_key(field.field.name.as_bytes())),
            };
            text.push_str(&format!(
                "  {} = {}\n",
                field.field,
                value.map_or("absent".to_owned(), display_value)
            ));
        }
        text + &format!("true: {}\nfalse: {}", display_sql(&self.is_true), display_sql(&self.is_false))
    }

    fn refers_to(&self, field: &MarkedField) -> bool {
        let fields = check(&self.policy.text, &MODEL).map(|checked| checked.fields()).unwrap_or_default();
        fields.contains(&field.field.to_string())
    }
}

fn display_value(value: &FieldValue) -> String {
    match value {
        FieldValue::String(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        FieldValue::Array(list) => {
            format!("[{}]", list.iter().map(display_value).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// Returns, for each policy, ClickHouse's verdict on each row of `default.pairs`.
pub(super) async fn by_store(
    store: &ClickHouse,
    lowered: &[LoweredPolicy],
    spans: usize,
) -> Vec<Vec<Verdict>> {
    let sides = sides_by_store(store, lowered, spans).await;
    let verdict = |one: &LoweredPolicy, sides| match sides {
        (false, false) => Verdict::Error,
        (true, false) => Verdict::True,
        (false, true) => Verdict::False,
        (true, true) => panic!("true and false at once: {}\n{:?}", one.policy.text, one.caller),
    };
    let of_one =
        |(one, sides): (&LoweredPolicy, Vec<_>)| sides.into_iter().map(|sides| verdict(one, sides)).collect();
    lowered.iter().zip(sides).map(of_one).collect()
}

/// Returns whether each policy is true and whether it is false, on each row of `default.pairs`.
pub(super) async fn sides_by_store(
    store: &ClickHouse,
    lowered: &[LoweredPolicy],
    spans: usize,
) -> Vec<Vec<(bool, bool)>> {
    match in_one_statement(store, lowered, spans).await {
        Ok(verdicts) => verdicts,
        // Find the policy that fails.
        Err(all) => {
            for one in lowered {
                if let Err(error) = in_one_statement(store, std::slice::from_ref(one), spans).await {
                    panic!(
                        "{error}\n{}\n{:?}\ntrue: {}",
                        one.policy.text,
                        one.caller,
                        display_sql(&one.is_true)
                    );
                }
            }
            panic!("the statement fails for several policies together only: {all}");
        }
    }
}

async fn in_one_statement(
    store: &ClickHouse,
    lowered: &[LoweredPolicy],
    spans: usize,
) -> Result<Vec<Vec<(bool, bool)>>, String> {
    let mut statement = Statement::for_columns(COLUMNS.iter().map(|(name, _)| *name));
    let both: Vec<String> = lowered
        .iter()
        .map(|one| {
            let (is_true, is_false) =
                (render(&one.is_true, &mut statement), render(&one.is_false, &mut statement));
            format!("toUInt8({is_true}) + 2 * toUInt8({is_false})")
        })
        .collect();
    let verdicts = statement.alias("verdicts");
    statement.push(&format!(
        "SELECT [{}] AS {verdicts}, toTypeName({verdicts}) FROM default.pairs ORDER BY id",
        both.join(", ")
    ));
    let rows: Vec<(Vec<u8>, String)> =
        store.client.rows(statement).await.map_err(|error| error.to_string())?;
    if rows.len() != spans {
        return Err(format!("{} rows of {spans}", rows.len()));
    }
    let mut verdicts = vec![Vec::with_capacity(spans); lowered.len()];
    for (row, column_type) in rows {
        if column_type.contains("Nullable") || !column_type.starts_with("Array(UInt") {
            return Err(format!("a predicate may be NULL: {column_type}"));
        }
        for (at, both) in row.into_iter().enumerate() {
            verdicts[at].push((both & 1 == 1, both & 2 == 2));
        }
    }
    Ok(verdicts)
}

/// Returns, for each policy, the verdict of the reference on each span.
pub(super) fn by_reference(lowered: &[LoweredPolicy], spans: &[Span]) -> Vec<Vec<Verdict>> {
    lowered.iter().map(|one| reference(&one.policy.text, &one.caller, spans)).collect()
}

pub(super) fn reference(expression: &str, caller: &Caller, spans: &[Span]) -> Vec<Verdict> {
    let outcomes = evaluate(expression, &MODEL, caller, spans).unwrap();
    let verdict = |outcome| match outcome {
        Outcome::True => Verdict::True,
        Outcome::False => Verdict::False,
        Outcome::Error => Verdict::Error,
    };
    outcomes.into_iter().map(verdict).collect()
}

/// Returns both results, ClickHouse's first; both are computed concurrently.
pub(crate) async fn evaluate_both(
    store: &ClickHouse,
    lowered: &Arc<Vec<LoweredPolicy>>,
    spans: &Arc<Vec<Span>>,
) -> (Vec<Vec<Verdict>>, Vec<Vec<Verdict>>) {
    let (policies, on) = (Arc::clone(lowered), Arc::clone(spans));
    let reference = tokio::task::spawn_blocking(move || by_reference(&policies, &on));
    let store = by_store(store, lowered, spans.len()).await;
    (store, reference.await.unwrap())
}
