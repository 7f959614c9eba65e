//! What a trace must show to be on a page, each by any of its spans.

use std::sync::Arc;

use tracewarden_model::{Condition, MarkedField};
use tracewarden_policy::{AccessScope, Predicate};

use crate::StoreError;
use crate::sql::Statement;
use crate::table::BoundTable;

/// Something that a span of the trace must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredPredicate {
    /// Any policy of the caller.
    Granted,
    /// The restriction of the caller's key.
    Within,
    /// The filter's condition at this place.
    Condition(usize),
}

/// All demands of a query.
#[derive(Clone, Copy)]
pub(crate) struct RequiredPredicates<'a> {
    granted: &'a Predicate,
    restriction: Option<&'a Predicate>,
    conditions: &'a [Condition],
}

impl<'a> RequiredPredicates<'a> {
    /// Of a scope and a filter, once it is certain that the table still has what they look at.
    ///
    /// # Errors
    /// When it has not.
    pub(crate) fn new(
        scope: &'a AccessScope,
        conditions: &'a [Condition],
        table: &BoundTable,
    ) -> Result<Self, StoreError> {
        table.check_fields(scope.rests_on().iter().map(AsRef::as_ref))?;
        table.check_fields(conditions.iter().map(|condition| &condition.field))?;
        let (granted, restriction) = (scope.predicate(), scope.restriction());
        Ok(Self { granted, restriction, conditions })
    }

    /// Of a predicate that is nobody's scope. Nothing about spans may leave by what is found with it.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn of_nobody(
        granted: &'a Predicate,
        rests_on: &[Arc<MarkedField>],
        table: &BoundTable,
    ) -> Result<Self, StoreError> {
        table.check_fields(rests_on.iter().map(AsRef::as_ref))?;
        Ok(Self { granted, restriction: None, conditions: &[] })
    }

    /// All predicates, in one fixed order. A policy or key constraint that is always true adds none.
    pub(crate) fn all(&self) -> Vec<RequiredPredicate> {
        let granted = (*self.granted != Predicate::True).then_some(RequiredPredicate::Granted);
        let within =
            self.restriction.filter(|within| **within != Predicate::True).map(|_| RequiredPredicate::Within);
        granted
            .into_iter()
            .chain(within)
            .chain((0..self.conditions.len()).map(RequiredPredicate::Condition))
            .collect()
    }

    /// The demand that is the key's: every span that the order looks at satisfies it.
    pub(crate) fn implied(&self) -> Option<RequiredPredicate> {
        match self.conditions.len() {
            0 => Some(RequiredPredicate::Granted),
            1 => Some(RequiredPredicate::Condition(0)),
            _ => None,
        }
    }

    /// What the order of traces looks at: spans that match any condition; without conditions, spans that grant access.
    pub(crate) fn key(&self, table: &BoundTable, statement: &mut Statement) -> Result<String, StoreError> {
        if self.conditions.is_empty() {
            table.condition(self.granted, statement)
        } else {
            table.any_condition(self.conditions, statement)
        }
    }

    /// Of a span: whether it satisfies a demand.
    pub(crate) fn satisfied(
        &self,
        demand: RequiredPredicate,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        match (demand, self.restriction) {
            (RequiredPredicate::Granted, _) => table.condition(self.granted, statement),
            (RequiredPredicate::Within, Some(restriction)) => table.condition(restriction, statement),
            (RequiredPredicate::Within, None) => Ok("1".to_owned()),
            (RequiredPredicate::Condition(at), _) => {
                // A place beyond the last would be a condition that nothing satisfies.
                let condition = self.conditions.get(at..at.saturating_add(1)).unwrap_or_default();
                table.any_condition(condition, statement)
            }
        }
    }

    /// Of a group of spans: whether the trace that they make up shows everything. The one form of this decision in SQL.
    pub(crate) fn shown(
        &self,
        demands: &[RequiredPredicate],
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        let shown = demands
            .iter()
            .map(|demand| Ok(format!("countIf({}) > 0", self.satisfied(*demand, table, statement)?)))
            .collect::<Result<Vec<String>, StoreError>>()?;
        Ok(if shown.is_empty() { "1".to_owned() } else { shown.join(" AND ") })
    }
}
