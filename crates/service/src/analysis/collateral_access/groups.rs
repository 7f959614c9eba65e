//! Groups of members for whom the policies require the same. A value that one member's policies name may be collateral access
//! for another member, so each group is counted separately.

use indexmap::IndexMap;
use tracewarden_clickhouse::{CollateralValues, MAX_PREDICATE_SETS};
use tracewarden_policy::Predicate;

use crate::analysis::subjects::Subjects;

/// Maximum number of groups that are counted, in statements of [`MAX_PREDICATE_SETS`].
const MAX_GROUPS: usize = 256;
/// Maximum total size of the predicates of one statement, in nodes as written: the limit for one caller's policies.
const MAX_SIZE: u64 = 20_000;

/// Members for whom the role's policies require the same.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    role_predicates: Vec<Predicate>,
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
pub(crate) struct MemberGroups {
    /// Groups to count, the largest first.
    groups: Vec<Group>,
    /// Number of groups, counted or not.
    all: u64,
    /// Number of members in groups beyond the limit.
    members_over_limit: u64,
    /// Number of groups that were counted.
    counted_groups: usize,
    /// Number of members for whom collateral access was counted.
    pub(super) counted: u64,
    /// Number of these members with any collateral access.
    pub(super) collateral: u64,
    pub(super) highest: Option<HighestCollateral>,
}

/// Collateral access of the members who have the most.
#[derive(Debug)]
pub(super) struct HighestCollateral {
    pub(super) collateral: CollateralValues,
    pub(super) members: u64,
    /// Share of the traces that was counted.
    pub(super) fraction: f64,
}

impl MemberGroups {
    pub(crate) fn of(subjects: &Subjects) -> Self {
        let role_predicates = subjects.compared.iter().map(|subject| subject.after.role.predicates());
        // The synthetic user, who stands for a role without members, is not a member.
        Self::grouped(role_predicates, u64::from(!subjects.is_synthetic))
    }

    fn grouped<'a>(role_predicates: impl Iterator<Item = &'a [Predicate]>, each: u64) -> Self {
        let mut members: IndexMap<&[Predicate], u64> = IndexMap::new();
        for role_predicates in role_predicates {
            *members.entry(role_predicates).or_default() += each;
        }
        let mut members: Vec<(&[Predicate], u64)> = members.into_iter().collect();
        let mut found = Self { all: members.len() as u64, ..Self::default() };
        // Members without access have no collateral access and need no statement, unless no member has access.
        if members.len() > 1 {
            members.retain(|(role_predicates, members)| {
                found.counted += if role_predicates.is_empty() { *members } else { 0 };
                !role_predicates.is_empty()
            });
        }
        members.sort_by_key(|(_, members)| std::cmp::Reverse(*members));
        let members_over_limit = members.split_off(MAX_GROUPS.min(members.len()));
        found.members_over_limit = members_over_limit.iter().map(|(_, members)| members).sum();
        found.groups = members
            .into_iter()
            .map(|(role_predicates, members)| Group { role_predicates: role_predicates.to_vec(), members })
            .collect();
        if found.groups.is_empty() {
            found.groups.push(Group { role_predicates: Vec::new(), members: 0 });
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
        for Group { role_predicates, .. } in &self.groups {
            let predicate = Predicate::any(role_predicates.iter().cloned());
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
    pub(crate) fn to_predicate_sets(
        &self,
        number: impl Fn(&Predicate) -> Option<usize>,
    ) -> Option<Vec<Vec<usize>>> {
        let of = |group: &Group| group.role_predicates.iter().map(&number).collect::<Option<Vec<usize>>>();
        let size = self.groups.iter().flat_map(|group| &group.role_predicates).map(Predicate::size);
        let is_large = size.fold(0, u64::saturating_add) > MAX_SIZE;
        if self.groups.len() > MAX_PREDICATE_SETS || is_large {
            return None;
        }
        self.groups.iter().map(of).collect()
    }

    pub(crate) fn add_results(&mut self, found: Vec<CollateralValues>, fraction: f64) {
        for (group, collateral) in self.groups.iter().skip(self.counted_groups).zip(found) {
            self.counted_groups += 1;
            self.counted += group.members;
            self.collateral += if collateral.only_shared > 0 { group.members } else { 0 };
            let key = |collateral: &CollateralValues| {
                (collateral.only_shared, collateral.distinct, collateral.traces)
            };
            // Among equal results the largest group wins, which came first.
            if self.highest.as_ref().is_none_or(|highest| key(&collateral) > key(&highest.collateral)) {
                self.highest = Some(HighestCollateral { collateral, members: group.members, fraction });
            }
        }
    }

    /// Adds the notes that explain the numbers, for this many members.
    pub(super) fn append_notes(&self, highest: &HighestCollateral, members: u64, notes: &mut Vec<String>) {
        if self.all < 2 {
            return;
        }
        let Self { counted, collateral, members_over_limit, .. } = self;
        notes.push(format!(
            "the policies depend on the attributes of each member: collateral access was counted for \
             {counted} of {members} members and is reported for the {} with the most of it; {collateral} of them \
             have any",
            highest.members
        ));
        if *members_over_limit > 0 {
            notes.push(format!(
                "the policies have {} different forms among the members; only the {MAX_GROUPS} forms with \
                 the most members are counted",
                self.all
            ));
        }
        let uncounted: u64 = self.groups.iter().skip(self.counted_groups).map(|group| group.members).sum();
        if uncounted > 0 {
            notes.push(format!(
                "timed out before the collateral access of {uncounted} of the members was counted"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
    use tracewarden_policy::predicate::{Atom, Relation, Text};

    use super::*;

    fn team_predicates(value: usize) -> Vec<Predicate> {
        let field = MarkedField {
            field: FieldRef::column("Team"),
            logical: LogicalType::String,
            source: FieldSource::Column,
            column_type: ColumnType::STRING,
            filterable: false,
            policy: true,
            column: None,
        };
        let [field, value] = [Text::Field(Arc::new(field)), Text::Literal(value.to_string())];
        vec![Predicate::atom(Atom::CompareText(Relation::Eq, field, value))]
    }

    fn collateral(only_shared: u64) -> CollateralValues {
        CollateralValues { only_shared, distinct: 9, traces: 9, ..CollateralValues::default() }
    }

    #[test]
    fn members_with_equal_predicates_form_groups_by_size() {
        let role_predicates =
            [team_predicates(1), team_predicates(2), Vec::new(), team_predicates(2), Vec::new(), Vec::new()];
        let mut groups = MemberGroups::grouped(role_predicates.iter().map(Vec::as_slice), 1);
        let batches = groups.batches();
        assert_eq!(
            (batches.len(), &batches[0].predicates),
            (1, &[team_predicates(2), team_predicates(1)].concat())
        );
        assert_eq!(batches[0].predicate_sets, [vec![0], vec![1]]);
        // Numbers among other predicates; `None` if one of the groups' predicates is missing.
        let known = [team_predicates(1), team_predicates(7), team_predicates(2)].concat();
        let number = |predicate: &Predicate| known.iter().position(|known| known == predicate);
        assert_eq!(groups.to_predicate_sets(number), Some(vec![vec![2], vec![0]]));
        assert_eq!(
            groups.to_predicate_sets(|predicate| number(predicate).filter(|number| *number > 0)),
            None
        );
        // Members without access count without a statement.
        assert_eq!((groups.all, groups.counted), (3, 3));
        groups.add_results(vec![collateral(0), collateral(1)], 1.0);
        let highest = groups.highest.take().unwrap();
        assert_eq!((highest.members, highest.collateral.only_shared), (1, 1));
        assert_eq!((groups.counted, groups.collateral), (6, 1));
        let mut notes = Vec::new();
        groups.append_notes(&highest, 6, &mut notes);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("counted for 6 of 6 members") && notes[0].contains("reported for the 1 with")
        );
    }

    #[test]
    fn a_single_group_adds_no_notes() {
        for role_predicates in [vec![team_predicates(1), team_predicates(1)], vec![Vec::new(), Vec::new()]] {
            let mut groups = MemberGroups::grouped(role_predicates.iter().map(Vec::as_slice), 1);
            assert_eq!(groups.batches()[0].predicates.len(), 1);
            groups.add_results(vec![collateral(0)], 1.0);
            let (highest, mut notes) = (groups.highest.take().unwrap(), Vec::new());
            groups.append_notes(&highest, 2, &mut notes);
            assert_eq!((highest.members, groups.counted, notes), (2, 2, Vec::new()));
        }
        // Without members there is still one predicate, so that a statement detects a missing column.
        assert_eq!(MemberGroups::grouped(std::iter::empty(), 1).batches()[0].predicates, [Predicate::False]);
    }

    #[test]
    fn groups_beyond_the_limit_are_reported() {
        let most = MAX_GROUPS + 5;
        let role_predicates: Vec<Vec<Predicate>> = (0..most).map(team_predicates).collect();
        let mut groups = MemberGroups::grouped(role_predicates.iter().map(Vec::as_slice), 1);
        let batches = groups.batches();
        assert_eq!(batches.len(), MAX_GROUPS / MAX_PREDICATE_SETS);
        assert!(batches.iter().all(|batch| batch.predicates.len() == MAX_PREDICATE_SETS));
        assert_eq!(groups.to_predicate_sets(|_| Some(0)), None);
        groups.add_results(vec![collateral(1); MAX_PREDICATE_SETS], 1.0);
        groups.add_results(vec![collateral(2)], 0.5);
        let (highest, mut notes) = (groups.highest.take().unwrap(), Vec::new());
        assert_eq!((highest.collateral.only_shared, highest.fraction), (2, 0.5));
        groups.append_notes(&highest, most as u64, &mut notes);
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
            let many = (0..15_000).map(|number| team_predicates(value * 100_000 + number).remove(0));
            vec![Predicate::any(many)]
        };
        let role_predicates = [large(1), large(2)];
        assert_eq!(MemberGroups::grouped(role_predicates.iter().map(Vec::as_slice), 1).batches().len(), 2);
    }
}
