//! Comparisons as the trace store takes them: numbers of predicates, so many at a time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use tracewarden_policy::Predicate;
use tracewarden_tracestore::{Comparison, MAX_IMPACT_PREDICATES};

use super::people::{People, Person};

/// With more predicates than this on one side of a comparison, they become one.
const MOST_OF_A_SIDE: usize = 16;
/// With more predicates of users than this, the role is compared by itself first.
const MANY: usize = 40;
/// Largest that a role's policies for all its members may be together, in nodes as written.
const MOST_OF_A_ROLE: u64 = 20_000;

/// What one question asks.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) predicates: Vec<Predicate>,
    pub(super) comparisons: Vec<Comparison>,
    /// The comparison of the role by itself.
    pub(super) role: Option<usize>,
    /// The users, each with their comparison.
    pub(super) people: Vec<(&'a Person, usize)>,
    numbers: HashMap<u64, Vec<usize>>,
    places: HashMap<Comparison, usize>,
}

/// All comparisons, in as few questions as there are predicates for. That of the role by itself is in the first, and that is of
/// little else where the users have many policies: it is answered when there is time for nothing more.
pub(super) fn batches(people: &People, of_role: bool) -> Vec<Batch<'_>> {
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
    let users = if people.is_nobody { &[] } else { people.compared.as_slice() };
    if batch.role.is_some() {
        let mut of_all = Batch::default();
        for person in users.iter().take(MANY) {
            of_all.place(&few(person.before.opening()), &few(person.after.opening()));
        }
        if of_all.predicates.len() > MANY {
            batches.push(std::mem::take(&mut batch));
        }
    }
    for person in users {
        let (before, after) = (few(person.before.opening()), few(person.after.opening()));
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

/// What any of the people's policies ask, each once; nothing when that is too much for one statement.
fn distinct(people: &People, access: fn(&Person) -> &[Predicate]) -> Option<Vec<Predicate>> {
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

/// The same alternatives in not too many predicates.
fn few(predicates: &[Predicate]) -> Vec<Predicate> {
    if predicates.len() > MOST_OF_A_SIDE {
        vec![Predicate::any(predicates.iter().cloned())]
    } else {
        predicates.to_vec()
    }
}

/// Predicates that were seen.
#[derive(Default)]
struct Known<'a>(HashMap<u64, Vec<&'a Predicate>>);

impl<'a> Known<'a> {
    /// Whether it is a new one.
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
    /// The number of a predicate that is in the batch.
    pub(super) fn known(&self, predicate: &Predicate) -> Option<usize> {
        let numbers = self.numbers.get(&hash(predicate))?;
        numbers.iter().copied().find(|number| self.predicates.get(*number) == Some(predicate))
    }

    /// How many predicates the batch would have with these.
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

    /// The place of a comparison; equal ones are one.
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

    /// So many members of a role whose policy changes, each with a policy of their own.
    fn members(many: usize) -> People {
        let access = |of_role: usize, own: usize| {
            let mut access = Access::default();
            access.of_role = vec![team(of_role)];
            access.all = vec![team(of_role), team(own)];
            access
        };
        let person = |number: usize| Person {
            username: format!("member-{number}"),
            before: access(0, number + 2),
            after: access(1, number + 2),
        };
        let compared: Vec<Person> = (0..many).map(person).collect();
        let mut people = People::default();
        (people.members, people.compared) = (many as u64, compared);
        people
    }

    #[test]
    fn a_role_with_many_policies_of_members_is_asked_about_first() {
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
    fn members_beyond_what_one_statement_takes_are_asked_about_in_several() {
        let many = members(MAX_IMPACT_PREDICATES + 10);
        let batches = batches(&many, false);
        assert_eq!(batches.len(), 2);
        assert!(batches.iter().all(|batch| batch.role.is_none()));
        assert!(batches.iter().all(|batch| batch.predicates.len() <= MAX_IMPACT_PREDICATES));
        assert_eq!(batches.iter().map(|batch| batch.people.len()).sum::<usize>(), MAX_IMPACT_PREDICATES + 10);
    }
}
