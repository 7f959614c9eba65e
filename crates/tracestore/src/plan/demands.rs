//! What a trace must show to be on a page, each by any of its spans.

use std::sync::Arc;

use tracewarden_model::{Condition, MarkedField};
use tracewarden_policy::{AccessScope, Predicate};

use super::estimates::{Subject, subject};
use crate::StoreError;
use crate::key_columns::Purpose;
use crate::sql::Statement;
use crate::table::BoundTable;

/// Something that a span of the trace must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Any policy of the caller.
    Granted,
    /// The restriction of the caller's key.
    Within,
    /// The filter's condition at this place.
    Condition(usize),
}

/// All demands of a query.
#[derive(Clone, Copy)]
pub(crate) struct Demands<'a> {
    granted: &'a Predicate,
    restriction: Option<&'a Predicate>,
    rests_on: &'a [Arc<MarkedField>],
    conditions: &'a [Condition],
}

impl<'a> Demands<'a> {
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
        Ok(Self { granted, restriction, rests_on: scope.rests_on(), conditions })
    }

    /// Of a predicate that is nobody's scope. Nothing about spans may leave by what is found with it.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn of_nobody(
        granted: &'a Predicate,
        rests_on: &'a [Arc<MarkedField>],
        table: &BoundTable,
    ) -> Result<Self, StoreError> {
        table.check_fields(rests_on.iter().map(AsRef::as_ref))?;
        Ok(Self { granted, restriction: None, rests_on, conditions: &[] })
    }

    /// What the caller may see, as something to remember under: nobody finds out by the time that an estimate takes what others
    /// with other access looked for.
    pub(crate) fn scope_subject(&self, table: &BoundTable) -> Option<Subject> {
        let mut statement = table.statement();
        let mut texts = vec![table.condition(self.granted, &mut statement).ok()?];
        if let Some(restriction) = self.restriction {
            texts.push(table.condition(restriction, &mut statement).ok()?);
        }
        Some(subject((texts, &statement.parameters)))
    }

    /// Whether everything that they look at is in columns, of which a step can read one more for little.
    pub(crate) fn are_of_columns(&self, table: &BoundTable) -> bool {
        let mut access = self.rests_on.iter().map(AsRef::as_ref);
        let mut filter = self.conditions.iter().map(|condition| &condition.field);
        access.all(|field| table.is_column(field, Purpose::Access))
            && filter.all(|field| table.is_column(field, Purpose::Filter))
    }

    /// All of them, in the one order that rows, masks and statements have them in.
    pub(crate) fn all(&self) -> Vec<Demand> {
        let within = self.restriction.map(|_| Demand::Within);
        std::iter::once(Demand::Granted)
            .chain(within)
            .chain((0..self.conditions.len()).map(Demand::Condition))
            .collect()
    }

    /// The demand that is the key's: every span that the order looks at satisfies it.
    pub(crate) fn implied(&self) -> Option<Demand> {
        match self.conditions.len() {
            0 => Some(Demand::Granted),
            1 => Some(Demand::Condition(0)),
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
        demand: Demand,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        match (demand, self.restriction) {
            (Demand::Granted, _) => table.condition(self.granted, statement),
            (Demand::Within, Some(restriction)) => table.condition(restriction, statement),
            (Demand::Within, None) => Ok("1".to_owned()),
            (Demand::Condition(at), _) => {
                // A place beyond the last would be a condition that nothing satisfies.
                let condition = self.conditions.get(at..at.saturating_add(1)).unwrap_or_default();
                table.any_condition(condition, statement)
            }
        }
    }

    /// Of a group of spans: whether the trace that they make up shows everything. The one form of this decision in SQL.
    pub(crate) fn shown(
        &self,
        demands: &[Demand],
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        let shown = demands
            .iter()
            .map(|demand| Ok(format!("countIf({}) > 0", self.satisfied(*demand, table, statement)?)))
            .collect::<Result<Vec<String>, StoreError>>()?;
        Ok(shown.join(" AND "))
    }
}
