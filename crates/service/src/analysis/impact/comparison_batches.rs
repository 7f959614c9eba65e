//! Batches of comparisons in the form that ClickHouse queries use: a bounded number of predicates, referred to by number.

use std::collections::BTreeSet;

use indexmap::IndexSet;
use tracewarden_clickhouse::{Comparison, MAX_IMPACT_PREDICATES};
use tracewarden_policy::Predicate;

use crate::analysis::subjects::{Access, Subject, Subjects};

/// Maximum number of predicates on one side of a comparison; more are combined into one.
const MAX_PREDICATES_PER_SIDE: usize = 16;
/// Number of users' predicates above which the role is compared in a statement of its own first.
const MANY_USER_PREDICATES: usize = 40;
/// Maximum size of a role's policies for all its members together, in predicate nodes as written.
const MAX_ROLE_SIZE: u64 = 20_000;

/// Content of one statement.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) predicates: IndexSet<Predicate>,
    /// Equal comparisons share one.
    pub(super) comparisons: IndexSet<Comparison>,
    /// Index of the comparison of the role in isolation.
    pub(super) role: Option<usize>,
    /// Users with the index of their comparison.
    pub(super) subjects: Vec<(&'a Subject, usize)>,
}

/// Distributes all comparisons over as few statements as the limit on predicates allows. The first one contains the
/// comparison of the role in isolation, and little else if the users have many policies: it is answered even if there is no
/// time for more.
pub(super) fn batches(subjects: &Subjects, with_role: bool) -> Vec<Batch<'_>> {
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    if with_role {
        let (before, after) = (
            distinct(subjects, |subject| subject.before.role.predicates()),
            distinct(subjects, |subject| subject.after.role.predicates()),
        );
        if let (Some(before), Some(after)) = (before, after) {
            batch.role = Some(batch.comparison_index(&limit_predicates(&before), &limit_predicates(&after)));
        }
    }
    let users = if subjects.is_synthetic { &[] } else { subjects.compared.as_slice() };
    let sides = |subject: &Subject| {
        let side = |access: &Access| limit_predicates(access.whole.predicates());
        (side(&subject.before), side(&subject.after))
    };
    if batch.role.is_some() {
        let mut probe = Batch::default();
        for (before, after) in users.iter().take(MANY_USER_PREDICATES).map(sides) {
            probe.comparison_index(&before, &after);
        }
        if probe.predicates.len() > MANY_USER_PREDICATES {
            batches.push(std::mem::take(&mut batch));
        }
    }
    for subject in users {
        let (before, after) = sides(subject);
        if batch.predicate_count_with(&before, &after) > MAX_IMPACT_PREDICATES {
            batches.push(std::mem::take(&mut batch));
        }
        let comparison_index = batch.comparison_index(&before, &after);
        batch.subjects.push((subject, comparison_index));
    }
    if !batch.comparisons.is_empty() {
        batches.push(batch);
    }
    batches
}

/// Returns the distinct predicates of these users' policies; `None` if they are too large for one statement.
fn distinct(subjects: &Subjects, access: fn(&Subject) -> &[Predicate]) -> Option<Vec<Predicate>> {
    let distinct: IndexSet<&Predicate> = subjects.compared.iter().flat_map(access).collect();
    let size = distinct.iter().map(|predicate| predicate.size()).fold(0, u64::saturating_add);
    (size <= MAX_ROLE_SIZE).then(|| distinct.into_iter().cloned().collect())
}

/// Returns the same alternatives in a bounded number of predicates.
fn limit_predicates(predicates: &[Predicate]) -> Vec<Predicate> {
    if predicates.len() > MAX_PREDICATES_PER_SIDE {
        vec![Predicate::any(predicates.iter().cloned())]
    } else {
        predicates.to_vec()
    }
}

impl Batch<'_> {
    /// Returns the number of predicates that the batch would have with these.
    fn predicate_count_with(&self, before: &[Predicate], after: &[Predicate]) -> usize {
        let new = before.iter().chain(after).filter(|predicate| !self.predicates.contains(*predicate));
        self.predicates.len() + new.count()
    }

    fn comparison_index(&mut self, before: &[Predicate], after: &[Predicate]) -> usize {
        let mut numbers = |predicates: &[Predicate]| -> Vec<usize> {
            let numbers = predicates.iter().map(|predicate| self.predicates.insert_full(predicate.clone()).0);
            numbers.collect::<BTreeSet<_>>().into_iter().collect()
        };
        let comparison = Comparison { before: numbers(before), after: numbers(after) };
        self.comparisons.insert_full(comparison).0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
    use tracewarden_policy::predicate::{Atom, Relation, Text};

    use super::*;

    fn team(number: usize) -> Predicate {
        let field = MarkedField {
            field: FieldRef::column("Team"),
            source: FieldSource::Column,
            logical: LogicalType::String,
            column_type: ColumnType::parse("String"),
            filterable: true,
            policy: true,
            column: None,
        };
        let team = Text::Literal(number.to_string());
        Predicate::atom(Atom::CompareText(Relation::Eq, Text::Field(Arc::new(field)), team))
    }

    /// Creates members of a role whose policy changes, each with another policy of their own.
    fn members(many: usize) -> Subjects {
        let access = |with_role: usize, own: usize| {
            let mut access = Access::default();
            access.role.predicates = vec![team(with_role)];
            access.whole.predicates = vec![team(with_role), team(own)];
            access
        };
        let subject = |number: usize| Subject {
            username: format!("member-{number}"),
            before: access(0, number + 2),
            after: access(1, number + 2),
        };
        let compared: Vec<Subject> = (0..many).map(subject).collect();
        let mut subjects = Subjects::default();
        (subjects.members, subjects.compared) = (many as u64, compared);
        subjects
    }

    #[test]
    fn roles_with_many_member_policies_are_counted_first() {
        let few = members(MANY_USER_PREDICATES - 2);
        let few_batches = batches(&few, true);
        assert_eq!(few_batches.len(), 1, "one statement reads the spans once");
        assert!(few_batches[0].role.is_some() && few_batches[0].subjects.len() == MANY_USER_PREDICATES - 2);

        let many = members(300);
        let batches = batches(&many, true);
        let sizes: Vec<_> = batches
            .iter()
            .map(|batch| (batch.role.is_some(), batch.subjects.len(), batch.predicates.len()))
            .collect();
        assert_eq!(sizes, [(true, 0, 2), (false, 300, 302)]);
    }

    #[test]
    fn many_members_are_counted_in_several_statements() {
        let many = members(MAX_IMPACT_PREDICATES + 10);
        let batches = batches(&many, false);
        assert_eq!(batches.len(), 2);
        assert!(batches.iter().all(|batch| batch.role.is_none()));
        assert!(batches.iter().all(|batch| batch.predicates.len() <= MAX_IMPACT_PREDICATES));
        assert_eq!(
            batches.iter().map(|batch| batch.subjects.len()).sum::<usize>(),
            MAX_IMPACT_PREDICATES + 10
        );
    }
}
