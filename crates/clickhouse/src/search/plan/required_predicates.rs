//! Required predicates: a trace is on a page if each of them is satisfied by any of its spans.

use std::sync::Arc;

use tracewarden_model::{Condition, MarkedField};
use tracewarden_policy::{AccessScope, Predicate};

use crate::ClickHouseError;
use crate::schema::BoundTable;
use crate::sql::Statement;

/// A predicate that a span of the trace must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredPredicate {
    /// Any policy of the caller.
    Policies,
    /// The constraint of the caller's API key.
    KeyConstraint,
    /// The filter's condition at this index.
    Condition(usize),
}

/// All required predicates of a query.
#[derive(Clone, Copy)]
pub(crate) struct RequiredPredicates<'a> {
    policies: &'a Predicate,
    key_constraint: Option<&'a Predicate>,
    conditions: &'a [Condition],
}

impl<'a> RequiredPredicates<'a> {
    /// Creates the required predicates of a scope and a filter, after a check that the table still has their fields.
    ///
    /// # Errors
    /// When a field has changed.
    pub(crate) fn new(
        scope: &'a AccessScope,
        conditions: &'a [Condition],
        table: &BoundTable,
    ) -> Result<Self, ClickHouseError> {
        table.check_fields(scope.referenced_fields().iter().map(AsRef::as_ref))?;
        table.check_fields(conditions.iter().map(|condition| &condition.field))?;
        let (policies, key_constraint) = (scope.predicate(), scope.key_constraint());
        Ok(Self { policies, key_constraint, conditions })
    }

    /// Creates the required predicates of a predicate without an access scope. Nothing about the spans that it finds may be
    /// returned.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn unscoped(
        policies: &'a Predicate,
        referenced_fields: &[Arc<MarkedField>],
        table: &BoundTable,
    ) -> Result<Self, ClickHouseError> {
        table.check_fields(referenced_fields.iter().map(AsRef::as_ref))?;
        Ok(Self { policies, key_constraint: None, conditions: &[] })
    }

    /// All predicates, in one fixed order. A policy or key constraint that is always true adds none.
    pub(crate) fn all(&self) -> Vec<RequiredPredicate> {
        let policies = (*self.policies != Predicate::True).then_some(RequiredPredicate::Policies);
        let within = self
            .key_constraint
            .filter(|within| **within != Predicate::True)
            .map(|_| RequiredPredicate::KeyConstraint);
        policies
            .into_iter()
            .chain(within)
            .chain((0..self.conditions.len()).map(RequiredPredicate::Condition))
            .collect()
    }

    /// Returns the required predicate that every ordering span satisfies.
    pub(crate) fn implied(&self) -> Option<RequiredPredicate> {
        match self.conditions.len() {
            0 => Some(RequiredPredicate::Policies),
            1 => Some(RequiredPredicate::Condition(0)),
            _ => None,
        }
    }

    /// Required predicates except the one that every ordering span satisfies.
    pub(crate) fn not_implied(&self) -> Vec<RequiredPredicate> {
        let implied = self.implied();
        self.all().into_iter().filter(|predicate| Some(*predicate) != implied).collect()
    }

    /// Writes which spans the order of traces depends on: those that match any condition; without conditions, those that
    /// grant access.
    pub(crate) fn key(
        &self,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        if self.conditions.is_empty() {
            table.condition(self.policies, statement)
        } else {
            table.any_condition(self.conditions, statement)
        }
    }

    /// Writes whether a span satisfies a required predicate.
    pub(crate) fn span_condition(
        &self,
        predicate: RequiredPredicate,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        match (predicate, self.key_constraint) {
            (RequiredPredicate::Policies, _) => table.condition(self.policies, statement),
            (RequiredPredicate::KeyConstraint, Some(key_constraint)) => {
                table.condition(key_constraint, statement)
            }
            (RequiredPredicate::KeyConstraint, None) => Ok("1".to_owned()),
            (RequiredPredicate::Condition(at), _) => {
                // An index beyond the last would be a condition that no span satisfies.
                let condition = self.conditions.get(at..at.saturating_add(1)).unwrap_or_default();
                table.any_condition(condition, statement)
            }
        }
    }

    /// Writes whether a span is an ordering span or satisfies a predicate.
    pub(crate) fn satisfies_any(
        &self,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        let mut any = vec![self.key(table, statement)?];
        for predicate in self.not_implied() {
            // Spans that satisfy a filter condition are ordering spans.
            if !matches!(predicate, RequiredPredicate::Condition(_)) {
                any.push(self.span_condition(predicate, table, statement)?);
            }
        }
        Ok(if any.len() == 1 { any.concat() } else { format!("({})", any.join(" OR ")) })
    }

    /// Writes, for a group of spans, whether their trace satisfies all required predicates. This is the only form of this
    /// decision in SQL.
    pub(crate) fn having_clause(
        &self,
        required_predicates: &[RequiredPredicate],
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        let having_clause = required_predicates
            .iter()
            .map(|predicate| {
                Ok(format!("countIf({}) > 0", self.span_condition(*predicate, table, statement)?))
            })
            .collect::<Result<Vec<String>, ClickHouseError>>()?;
        Ok(if having_clause.is_empty() { "1".to_owned() } else { having_clause.join(" AND ") })
    }
}
