//! Groups of members for whom the policies require the same. A value that one member's policies name may be collateral access
//! for another member, so each group is counted separately.

use std::collections::HashMap;

use tracewarden_policy::Predicate;
use tracewarden_tracestore::{CollateralValues, MAX_PREDICATE_SETS};

use crate::impact::{Subjects, hash};

/// Maximum number of groups that are counted, in statements of [`MAX_PREDICATE_SETS`].
const MAX_GROUPS: usize = 256;
/// Maximum total size of the predicates of one statement, in nodes as written: the limit for one caller's policies.
const MAX_SIZE: u64 = 20_000;

/// Members for whom the role's policies require the same.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    asked: Vec<Predicate>,
    members: u64,
}

/// Groups that one statement counts.
pub(super) struct Batch {
    pub(super) predicates: Vec<Predicate>,
    /// Numbers of the predicates of each group.
    pub(super) predicate_sets: Vec<Vec<usize>>,
}

/// All groups of a role, and their counts.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Groups to count, the largest first.
    groups: Vec<Group>,
    /// Number of groups, counted or not.
    all: u64,
    /// Number of members in groups beyond the limit.
    beyond: u64,
    /// Number of groups that were counted.
    learned: usize,
    /// Number of members for whom collateral access was counted.
    pub(super) counted: u64,
    /// Number of these members with any collateral access.
    pub(super) shared: u64,
    worst: Option<Worst>,
}

/// Collateral access of the members who have the most.
#[derive(Debug)]
pub(super) struct Worst {
    pub(super) shared: CollateralValues,
    pub(super) members: u64,
    /// Share of the traces that was counted.
    pub(super) fraction: f64,
}

impl Groups {
    pub(crate) fn of(people: &Subjects) -> Self {
        let asked = people.compared.iter().map(|person| person.after.by_role());
        // The synthetic user, who stands for a role without members, is not a member.
        Self::grouped(asked, u64::from(!people.is_synthetic()))
    }

    fn grouped<'a>(asked: impl Iterator<Item = &'a [Predicate]>, each: u64) -> Self {
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut members: Vec<(&[Predicate], u64)> = Vec::new();
        for asked in asked {
            let alike = places.entry(hash(asked)).or_default();
            let same = |place: &usize| members.get(*place).is_some_and(|(other, _)| *other == asked);
            let place = alike.iter().copied().find(same).unwrap_or_else(|| {
                alike.push(members.len());
                members.push((asked, 0));
                members.len() - 1
            });
            if let Some((_, members)) = members.get_mut(place) {
                *members += each;
            }
        }
        let mut found = Self { all: members.len() as u64, ..Self::default() };
        // Members without access have no collateral access and need no statement, unless no member has access.
        if members.len() > 1 {
            members.retain(|(asked, members)| {
                found.counted += if asked.is_empty() { *members } else { 0 };
                !asked.is_empty()
            });
        }
        members.sort_by_key(|(_, members)| std::cmp::Reverse(*members));
        let beyond = members.split_off(MAX_GROUPS.min(members.len()));
        found.beyond = beyond.iter().map(|(_, members)| members).sum();
        found.groups =
            members.into_iter().map(|(asked, members)| Group { asked: asked.to_vec(), members }).collect();
        if found.groups.is_empty() {
            found.groups.push(Group { asked: Vec::new(), members: 0 });
        }
        found
    }

    /// Returns the groups in batches, one for each statement.
    pub(super) fn batches(&self) -> Vec<Batch> {
        let (mut batches, mut predicates, mut size) = (Vec::new(), Vec::new(), 0_u64);
        let batch = |predicates: Vec<Predicate>| {
            let predicate_sets = (0..predicates.len()).map(|number| vec![number]).collect();
            Batch { predicates, predicate_sets }
        };
        for Group { asked, .. } in &self.groups {
            let predicate = Predicate::any(asked.iter().cloned());
            let full = predicates.len() >= MAX_PREDICATE_SETS;
            if full || (!predicates.is_empty() && size.saturating_add(predicate.size()) > MAX_SIZE) {
                batches.push(batch(std::mem::take(&mut predicates)));
                size = 0;
            }
            size = size.saturating_add(predicate.size());
            predicates.push(predicate);
        }
        batches.push(batch(predicates));
        batches
    }

    /// Returns all groups as numbers of predicates that another statement contains, provided that there are few enough, they
    /// are not too large, and that statement contains all of their predicates.
    pub(crate) fn numbered(&self, number: impl Fn(&Predicate) -> Option<usize>) -> Option<Vec<Vec<usize>>> {
        let of = |group: &Group| group.asked.iter().map(&number).collect::<Option<Vec<usize>>>();
        let size = self.groups.iter().flat_map(|group| &group.asked).map(Predicate::size);
        let is_large = size.fold(0, u64::saturating_add) > MAX_SIZE;
        if self.groups.len() > MAX_PREDICATE_SETS || is_large {
            return None;
        }
        self.groups.iter().map(of).collect()
    }

    /// Adds the results of the next groups.
    pub(crate) fn learn(&mut self, found: Vec<CollateralValues>, fraction: f64) {
        for (group, shared) in self.groups.iter().skip(self.learned).zip(found) {
            self.learned += 1;
            self.counted += group.members;
            self.shared += if shared.only_shared > 0 { group.members } else { 0 };
            let key = |shared: &CollateralValues| (shared.only_shared, shared.distinct, shared.traces);
            // Among equal results the largest group wins, which came first.
            if self.worst.as_ref().is_none_or(|worst| key(&shared) > key(&worst.shared)) {
                self.worst = Some(Worst { shared, members: group.members, fraction });
            }
        }
    }

    pub(super) fn worst(&mut self) -> Option<Worst> {
        self.worst.take()
    }

    /// Adds the notes that explain the numbers, for this many members.
    pub(super) fn note(&self, worst: &Worst, members: u64, notes: &mut Vec<String>) {
        if self.all < 2 {
            return;
        }
        let Self { counted, shared, beyond, .. } = self;
        notes.push(format!(
            "the policies depend on the attributes of each member: collateral access was counted for \
             {counted} of {members} members and is reported for the {} with the most of it; {shared} of them \
             have any",
            worst.members
        ));
        if *beyond > 0 {
            notes.push(format!(
                "the policies have {} different forms among the members; only the {MAX_GROUPS} forms with \
                 the most members are counted",
                self.all
            ));
        }
        let late: u64 = self.groups.iter().skip(self.learned).map(|group| group.members).sum();
        if late > 0 {
            notes
                .push(format!("timed out before the collateral access of {late} of the members was counted"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
    use tracewarden_policy::predicate::{Atom, Relation, Text};

    use super::*;

    fn asking(value: usize) -> Vec<Predicate> {
        let field = MarkedField {
            field: FieldRef::column("Team"),
            logical: LogicalType::String,
            source: FieldSource::Column,
            column_type: ColumnType::String,
            filterable: false,
            policy: true,
            column: None,
        };
        let [field, value] = [Text::Field(Arc::new(field)), Text::Literal(value.to_string())];
        vec![Predicate::atom(Atom::CompareText(Relation::Eq, field, value))]
    }

    fn shared(only_shared: u64) -> CollateralValues {
        CollateralValues { only_shared, distinct: 9, traces: 9, ..CollateralValues::default() }
    }

    #[test]
    fn members_with_equal_predicates_form_groups_by_size() {
        let asked = [asking(1), asking(2), Vec::new(), asking(2), Vec::new(), Vec::new()];
        let mut groups = Groups::grouped(asked.iter().map(Vec::as_slice), 1);
        let batches = groups.batches();
        assert_eq!((batches.len(), &batches[0].predicates), (1, &[asking(2), asking(1)].concat()));
        assert_eq!(batches[0].predicate_sets, [vec![0], vec![1]]);
        // Numbers among other predicates; `None` if one of the groups' predicates is missing.
        let known = [asking(1), asking(7), asking(2)].concat();
        let number = |predicate: &Predicate| known.iter().position(|known| known == predicate);
        assert_eq!(groups.numbered(number), Some(vec![vec![2], vec![0]]));
        assert_eq!(groups.numbered(|predicate| number(predicate).filter(|number| *number > 0)), None);
        // Members without access count without a statement.
        assert_eq!((groups.all, groups.counted), (3, 3));
        groups.learn(vec![shared(0), shared(1)], 1.0);
        let worst = groups.worst().unwrap();
        assert_eq!((worst.members, worst.shared.only_shared), (1, 1));
        assert_eq!((groups.counted, groups.shared), (6, 1));
        let mut notes = Vec::new();
        groups.note(&worst, 6, &mut notes);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("counted for 6 of 6 members") && notes[0].contains("reported for the 1 with")
        );
    }

    #[test]
    fn a_single_group_adds_no_notes() {
        for asked in [vec![asking(1), asking(1)], vec![Vec::new(), Vec::new()]] {
            let mut groups = Groups::grouped(asked.iter().map(Vec::as_slice), 1);
            assert_eq!(groups.batches()[0].predicates.len(), 1);
            groups.learn(vec![shared(0)], 1.0);
            let (worst, mut notes) = (groups.worst().unwrap(), Vec::new());
            groups.note(&worst, 2, &mut notes);
            assert_eq!((worst.members, groups.counted, notes), (2, 2, Vec::new()));
        }
        // Without members there is still one predicate, so that a statement detects a missing column.
        assert_eq!(Groups::grouped(std::iter::empty(), 1).batches()[0].predicates, [Predicate::False]);
    }

    #[test]
    fn groups_beyond_the_limit_are_reported() {
        let most = MAX_GROUPS + 5;
        let asked: Vec<Vec<Predicate>> = (0..most).map(asking).collect();
        let mut groups = Groups::grouped(asked.iter().map(Vec::as_slice), 1);
        let batches = groups.batches();
        assert_eq!(batches.len(), MAX_GROUPS / MAX_PREDICATE_SETS);
        assert!(batches.iter().all(|batch| batch.predicates.len() == MAX_PREDICATE_SETS));
        assert_eq!(groups.numbered(|_| Some(0)), None);
        groups.learn(vec![shared(1); MAX_PREDICATE_SETS], 1.0);
        groups.learn(vec![shared(2)], 0.5);
        let (worst, mut notes) = (groups.worst().unwrap(), Vec::new());
        assert_eq!((worst.shared.only_shared, worst.fraction), (2, 0.5));
        groups.note(&worst, most as u64, &mut notes);
        let counted = MAX_PREDICATE_SETS + 1;
        assert!(notes[0].contains(&format!("counted for {counted} of {most} members")), "{notes:?}");
        assert!(
            notes[1].contains(&format!("the {MAX_GROUPS} forms with the most members are counted")),
            "{notes:?}"
        );
        assert!(
            notes[2].contains(&format!("collateral access of {} of the members", MAX_GROUPS - counted)),
            "{notes:?}"
        );
    }

    #[test]
    fn group_statements_respect_the_size_limit() {
        let large = |value: usize| {
            let many = (0..15_000).map(|number| asking(value * 100_000 + number).remove(0));
            vec![Predicate::any(many)]
        };
        let asked = [large(1), large(2)];
        assert_eq!(Groups::grouped(asked.iter().map(Vec::as_slice), 1).batches().len(), 2);
    }
}
