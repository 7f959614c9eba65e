//! Required predicates and exclusions: a trace is on a page if any of its spans satisfies each of the former, and none the latter.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use tracewarden_model::{Condition, Filter, MarkedField, Test};
use tracewarden_policy::{AccessScope, Predicate};

use crate::Result;
use crate::schema::BoundTable;
use crate::schema::key_columns::{Purpose, with_column};
use crate::sql::Statement;

/// A predicate that a span of the trace must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredPredicate {
    /// Any policy of the caller.
    Policies,
    /// The constraint of the caller's API key.
    KeyConstraint,
    /// The filter's group of conditions at this index.
    Group(usize),
}

/// The filter of searches without one.
pub(crate) static NO_FILTER: Filter = Filter::of(Vec::new());

/// Maximum predicates that have a bit in [`RequiredPredicates::predicate_bits`], and the bit of the exclusions.
pub(crate) const MAX_PREDICATES: usize = 60;
pub(crate) const EXCLUSION_BIT: u64 = 1 << 62;

/// All required predicates of a query, and the conditions that no span may satisfy.
#[derive(Clone, Copy)]
pub(crate) struct RequiredPredicates<'a> {
    policies: &'a Predicate,
    key_constraint: &'a Predicate,
    filter: &'a Filter,
    table: &'a BoundTable,
}

impl<'a> RequiredPredicates<'a> {
    /// Creates the required predicates of a scope and a filter. Fails when the table has another field than they refer to.
    pub(crate) fn new(scope: &'a AccessScope, filter: &'a Filter, table: &'a BoundTable) -> Result<Self> {
        table.check_fields(scope.referenced_fields().iter().map(AsRef::as_ref))?;
        table.check_fields(filter.all_conditions().map(|condition| &condition.field))?;
        let key_constraint = scope.key_constraint().unwrap_or(&Predicate::True);
        Ok(Self { policies: scope.predicate(), key_constraint, filter, table })
    }

    /// Like [`Self::new`], of a predicate without an access scope. Nothing about the spans that it finds may be returned.
    pub(crate) fn unscoped(
        policies: &'a Predicate,
        referenced_fields: &[Arc<MarkedField>],
        table: &'a BoundTable,
    ) -> Result<Self> {
        table.check_fields(referenced_fields.iter().map(AsRef::as_ref))?;
        Ok(Self { policies, key_constraint: &Predicate::True, filter: &NO_FILTER, table })
    }

    /// All predicates, in one fixed order. A policy or key constraint that is always true adds none.
    pub(crate) fn all(&self) -> Vec<RequiredPredicate> {
        let of_scope = [
            (self.policies, RequiredPredicate::Policies),
            (self.key_constraint, RequiredPredicate::KeyConstraint),
        ];
        let of_scope = of_scope.into_iter().filter(|(predicate, _)| **predicate != Predicate::True);
        let groups = (0..self.filter.required_groups().count()).map(RequiredPredicate::Group);
        of_scope.map(|(_, required)| required).chain(groups).collect()
    }

    /// Returns the required predicate that every ordering span satisfies.
    pub(crate) fn implied(&self) -> Option<RequiredPredicate> {
        match self.filter.required_groups().count() {
            0 => Some(RequiredPredicate::Policies),
            1 => Some(RequiredPredicate::Group(0)),
            _ => None,
        }
    }

    /// Required predicates except the one that every ordering span satisfies.
    pub(crate) fn not_implied(&self) -> Vec<RequiredPredicate> {
        let implied = self.implied();
        self.all().into_iter().filter(|predicate| Some(*predicate) != implied).collect()
    }

    /// Returns the predicate that alone decides which traces match and how they are ordered, if there is one.
    pub(crate) fn only(&self) -> Option<RequiredPredicate> {
        let is_only = self.all().len() == 1 && self.not_implied().is_empty() && !self.has_exclusions();
        self.implied().filter(|_| is_only)
    }

    /// Writes which spans the order of traces depends on: those that satisfy any group of conditions; without groups,
    /// those that grant access.
    pub(crate) fn key(&self, statement: &mut Statement) -> Result<String> {
        if self.filter.required_groups().next().is_none() {
            self.table.condition(self.policies, statement)
        } else {
            self.table.any_group(self.filter.required_groups(), statement)
        }
    }

    /// Writes whether a span satisfies a required predicate.
    pub(crate) fn span_condition(
        &self,
        predicate: RequiredPredicate,
        statement: &mut Statement,
    ) -> Result<String> {
        match predicate {
            RequiredPredicate::Policies => self.table.condition(self.policies, statement),
            RequiredPredicate::KeyConstraint => self.table.condition(self.key_constraint, statement),
            RequiredPredicate::Group(at) => {
                self.table.any_group(self.filter.required_groups().nth(at).into_iter(), statement)
            }
        }
    }

    /// Identifies a predicate over the table.
    pub(crate) fn hash(&self, predicate: RequiredPredicate) -> u64 {
        let mut statement = self.table.statement();
        let condition = self.span_condition(predicate, &mut statement).unwrap_or_default();
        let spans = self.table.spans(&condition, &mut statement);
        let mut hasher = DefaultHasher::new();
        (spans, statement.parameters).hash(&mut hasher);
        hasher.finish()
    }

    /// Identifies searches over the table by the same callers with the same fields and operators and as many values, whatever the
    /// values.
    pub(crate) fn shape(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        [RequiredPredicate::Policies, RequiredPredicate::KeyConstraint]
            .map(|one| self.hash(one))
            .hash(&mut hasher);
        for conditions in self.filter.required_groups().chain([self.filter.none.as_slice()]) {
            let shape = |condition: &Condition| {
                let (relation, values) = match &condition.test {
                    Test::Compare(relation, _) => (Some(*relation), 1),
                    Test::StringIn(values) | Test::HasAny(values) => (None, values.len()),
                    _ => (None, 1),
                };
                (condition.field.clone(), discriminant(&condition.test), relation, values)
            };
            conditions.iter().map(shape).collect::<Vec<_>>().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether a group of conditions reads maps, which are most of what a search reads.
    pub(crate) fn reads_maps(&self, group: usize) -> bool {
        let columns = &self.table.columns;
        let of_map = |Condition { field, .. }: &Condition| {
            field.source.is_map_key() && with_column(field.clone(), columns, Purpose::Filter).column.is_none()
        };
        self.filter.required_groups().nth(group).is_some_and(|group| group.iter().any(of_map))
    }

    /// Writes whether a span is an ordering span, or satisfies a predicate or an exclusion.
    pub(crate) fn satisfies_any(&self, statement: &mut Statement) -> Result<String> {
        let mut any = vec![self.key(statement)?];
        for predicate in self.not_implied() {
            // Spans that satisfy a group of conditions are ordering spans.
            if !matches!(predicate, RequiredPredicate::Group(_)) {
                any.push(self.span_condition(predicate, statement)?);
            }
        }
        if self.has_exclusions() {
            any.push(self.excluded(statement)?);
        }
        Ok(if any.len() == 1 { any.concat() } else { format!("({})", any.join(" OR ")) })
    }

    /// Writes, for a group of spans, a `UInt64`: bit `i` if any of them satisfies the predicate at index `i` of [`Self::all`], and
    /// [`EXCLUSION_BIT`] if any satisfies an exclusion. For at most [`MAX_PREDICATES`].
    pub(crate) fn predicate_bits(&self, statement: &mut Statement) -> Result<String> {
        let mut bits = vec!["toUInt64(0)".to_owned()];
        for (at, predicate) in self.all().into_iter().enumerate() {
            let condition = self.span_condition(predicate, statement)?;
            bits.push(format!("if({condition}, {}, 0)", 1_u64 << at));
        }
        if self.has_exclusions() {
            bits.push(format!("if({}, {EXCLUSION_BIT}, 0)", self.excluded(statement)?));
        }
        Ok(format!("groupBitOr({})", bits.join(" + ")))
    }

    /// The bits of all required predicates.
    pub(crate) fn required_bits(&self) -> u64 {
        (1_u64 << self.all().len()) - 1
    }

    /// Writes whether a span satisfies a condition that no span may satisfy.
    fn excluded(&self, statement: &mut Statement) -> Result<String> {
        self.table.any_group(self.filter.none.chunks(1), statement)
    }

    /// Whether there are conditions that no span may satisfy, which only all spans of a trace decide.
    pub(crate) fn has_exclusions(&self) -> bool {
        !self.filter.none.is_empty()
    }

    /// Writes, over all spans of a trace, the `HAVING` condition for these required predicates and the exclusions: the
    /// definition that every search follows.
    pub(crate) fn filter_having_clause(
        &self,
        required_predicates: &[RequiredPredicate],
        statement: &mut Statement,
    ) -> Result<String> {
        let mut clause = self.having_clause(required_predicates, statement)?;
        if self.has_exclusions() {
            clause.push_str(&format!(" AND countIf({}) = 0", self.excluded(statement)?));
        }
        Ok(clause)
    }

    /// Writes, for a group of spans, whether their trace satisfies these required predicates, without exclusions; a fetch by id
    /// has none. Statements that merge partial results compare bits instead.
    pub(crate) fn having_clause(
        &self,
        required_predicates: &[RequiredPredicate],
        statement: &mut Statement,
    ) -> Result<String> {
        if required_predicates.is_empty() {
            return Ok("1".to_owned());
        }
        let each = required_predicates
            .iter()
            .map(|predicate| Ok(format!("countIf({}) > 0", self.span_condition(*predicate, statement)?)));
        Ok(each.collect::<Result<Vec<String>>>()?.join(" AND "))
    }
}
