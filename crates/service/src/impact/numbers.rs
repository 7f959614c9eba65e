//! Batches of comparisons in the form that ClickHouse queries use: a bounded number of predicates, referred to by number.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use tracewarden_policy::Predicate;
use tracewarden_tracestore::{Comparison, MAX_IMPACT_PREDICATES};

use super::people::{Subject, Subjects};

/// Maximum number of predicates on one side of a comparison; more are combined into one.
const MOST_OF_A_SIDE: usize = 16;
/// Number of users' predicates above which the role is compared in a statement of its own first.
const MANY: usize = 40;
/// Maximum size of a role's policies for all its members together, in predicate nodes as written.
const MOST_OF_A_ROLE: u64 = 20_000;

/// Content of one statement.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) predicates: Vec<Predicate>,
    pub(super) comparisons: Vec<Comparison>,
    /// Index of the comparison of the role in isolation.
    pub(super) role: Option<usize>,
    /// Users with the index of their comparison.
    pub(super) people: Vec<(&'a Subject, usize)>,
    numbers: HashMap<u64, Vec<usize>>,
    places: HashMap<Comparison, usize>,
}

/// Distributes all comparisons over as few statements as the limit on predicates allows. The first one contains the
/// comparison of the role in isolation, and little else if the users have many policies: it is answered even if there is no
/// time for more.
pub(super) fn batches(people: &Subjects, of_role: bool) -> Vec<Batch<'_>> {
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    if of_role {
        let (before, after) = (
            distinct(people, |person| person.before.by_role()),
            distinct(people, |person| person.after.by_role()),
        );
        if let (Some(before), Some(after)) = (before, after) {
            batch.role = Some(batch.place(&few(&before), &few(&after)));
        }
    }
    let users = if people.is_synthetic { &[] } else { people.compared.as_slice() };
    if batch.role.is_some() {
        let mut of_all = Batch::default();
        for person in users.iter().take(MANY) {
            of_all.place(&few(person.before.granting_predicates()), &few(person.after.granting_predicates()));
        }
        if of_all.predicates.len() > MANY {
            batches.push(std::mem::take(&mut batch));
        }
    }
    for person in users {
        let (before, after) =
            (few(person.before.granting_predicates()), few(person.after.granting_predicates()));
        if batch.would_hold(&before, &after) > MAX_IMPACT_PREDICATES {
            batches.push(std::mem::take(&mut batch));
        }
        let place = batch.place(&before, &after);
        batch.people.push((person, place));
    }
    if !batch.comparisons.is_empty() {
        batches.push(batch);
    }
    batches
}

/// Returns the distinct predicates of these users' policies; `None` if they are too large for one statement.
fn distinct(people: &Subjects, access: fn(&Subject) -> &[Predicate]) -> Option<Vec<Predicate>> {
    let (mut known, mut distinct, mut size) = (Known::default(), Vec::new(), 0_u64);
    for predicate in people.compared.iter().flat_map(access) {
        if known.insert(predicate) {
            size = size.saturating_add(predicate.size());
            if size > MOST_OF_A_ROLE {
                return None;
            }
            distinct.push(predicate.clone());
        }
    }
    Some(distinct)
}

/// Returns the same alternatives in a bounded number of predicates.
fn few(predicates: &[Predicate]) -> Vec<Predicate> {
    if predicates.len() > MOST_OF_A_SIDE {
        vec![Predicate::any(predicates.iter().cloned())]
    } else {
        predicates.to_vec()
    }
}

/// Set of predicates that were seen.
#[derive(Default)]
struct Known<'a>(HashMap<u64, Vec<&'a Predicate>>);

impl<'a> Known<'a> {
    /// Inserts a predicate; returns whether it is new.
    fn insert(&mut self, predicate: &'a Predicate) -> bool {
        let alike = self.0.entry(hash(predicate)).or_default();
        let new = !alike.contains(&predicate);
        if new {
            alike.push(predicate);
        }
        new
    }
}

pub(crate) fn hash<T: Hash + ?Sized>(asked: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    asked.hash(&mut hasher);
    hasher.finish()
}

impl Batch<'_> {
    /// Returns the number of a predicate in the batch.
    pub(super) fn known(&self, predicate: &Predicate) -> Option<usize> {
        let numbers = self.numbers.get(&hash(predicate))?;
        numbers.iter().copied().find(|number| self.predicates.get(*number) == Some(predicate))
    }

    /// Returns the number of predicates that the batch would have with these.
    fn would_hold(&self, before: &[Predicate], after: &[Predicate]) -> usize {
        let new = before.iter().chain(after).filter(|predicate| self.known(predicate).is_none());
        self.predicates.len() + new.count()
    }

    fn number(&mut self, predicate: &Predicate) -> usize {
        if let Some(known) = self.known(predicate) {
            return known;
        }
        let number = self.predicates.len();
        self.predicates.push(predicate.clone());
        self.numbers.entry(hash(predicate)).or_default().push(number);
        number
    }

    /// Returns the index of a comparison; equal comparisons share one.
    fn place(&mut self, before: &[Predicate], after: &[Predicate]) -> usize {
        let mut numbers = |predicates: &[Predicate]| {
            let mut numbers: Vec<usize> = predicates.iter().map(|predicate| self.number(predicate)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let comparison = Comparison { before: numbers(before), after: numbers(after) };
        let next = self.comparisons.len();
        let place = *self.places.entry(comparison.clone()).or_insert(next);
        if place == next {
            self.comparisons.push(comparison);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
    use tracewarden_policy::predicate::{Atom, Relation, Text};

    use super::super::people::Access;
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
        let access = |of_role: usize, own: usize| {
            let mut access = Access::default();
            access.of_role = vec![team(of_role)];
            access.all = vec![team(of_role), team(own)];
            access
        };
        let person = |number: usize| Subject {
            username: format!("member-{number}"),
            before: access(0, number + 2),
            after: access(1, number + 2),
        };
        let compared: Vec<Subject> = (0..many).map(person).collect();
        let mut people = Subjects::default();
        (people.members, people.compared) = (many as u64, compared);
        people
    }

    #[test]
    fn roles_with_many_member_policies_are_counted_first() {
        let few = members(MANY - 2);
        let batches_of_few = batches(&few, true);
        assert_eq!(batches_of_few.len(), 1, "one statement reads the spans once");
        assert!(batches_of_few[0].role.is_some() && batches_of_few[0].people.len() == MANY - 2);

        let many = members(300);
        let batches = batches(&many, true);
        let sizes: Vec<_> = batches
            .iter()
            .map(|batch| (batch.role.is_some(), batch.people.len(), batch.predicates.len()))
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
        assert_eq!(batches.iter().map(|batch| batch.people.len()).sum::<usize>(), MAX_IMPACT_PREDICATES + 10);
    }
}
