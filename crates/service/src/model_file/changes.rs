//! Differences between two states of the access model.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use tracewarden_appdb::{ModelState, Policy};
use tracewarden_model::{AccessModel, Binding, ClaimsMapping, ClaimsMappings, MarkedField};
use utoipa::ToSchema;

/// A part of the access model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ModelPartKind)]
pub enum PartKind {
    /// The bound table.
    Binding,
    /// A marked field.
    Field,
    /// A role that exists on one side only, with all its policies.
    Role,
    /// A policy of a role that exists on both sides.
    Policy,
    /// The mapping of an identity provider.
    Mapping,
    /// The tests.
    Tests,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[schema(as = ModelChangeKind)]
pub enum ChangeKind {
    /// The part is new.
    Added,
    /// The part was removed.
    Removed,
    /// The content of the part changed.
    Changed,
    /// The part is unchanged but has another position in its list.
    Moved,
}

/// A part as it is on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelPart {
    /// The bound table.
    Binding(Box<Binding>),
    /// A marked field.
    Field(MarkedField),
    /// All policies of a role.
    Role(Vec<Policy>),
    /// A policy.
    Policy(Policy),
    /// The mapping of an identity provider.
    Mapping(ClaimsMapping),
    /// Document with the tests.
    Tests(String),
    /// Position in the sequence, from 1.
    Position(usize),
}

/// A part of the access model that differs before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelChange {
    /// Kind of the part.
    pub kind: PartKind,
    /// The reference of the field, the name of the role or of the identity provider, or role and title of a policy with ` / ` between them.
    #[schema(examples("payments / Own team"))]
    pub name: String,
    /// Kind of the change.
    pub change: ChangeKind,
    /// The previous content: a binding, a marked field, a policy, `{"policies": […]}` of a role, a mapping, numbers of `users`, `traces` and
    /// `tests`, or the `position` of a moved part, from 1. Null for an added part.
    #[schema(value_type = Option<Object>, required = true)]
    pub before: Option<ModelPart>,
    /// The new content, in the same form. Null for a removed part.
    #[schema(value_type = Option<Object>, required = true)]
    pub after: Option<ModelPart>,
    /// Description, such as "role `payments`: policy `Own team` changed".
    #[serde(skip)]
    pub description: String,
}

impl ModelChange {
    fn new(
        kind: PartKind,
        name: String,
        subject: &str,
        change: ChangeKind,
        [before, after]: [Option<ModelPart>; 2],
    ) -> Self {
        Self { kind, name, change, before, after, description: format!("{subject} {change}") }
    }
}

impl Serialize for ModelPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Binding(binding) => binding.serialize(serializer),
            Self::Field(field) => field.serialize(serializer),
            Self::Role(policies) => json!({ "policies": policies }).serialize(serializer),
            Self::Policy(policy) => policy.serialize(serializer),
            Self::Mapping(mapping) => mapping.serialize(serializer),
            Self::Tests(document) => {
                let TestsInDocument { users, traces, tests } =
                    serde_json::from_str(document).unwrap_or_default();
                json!({ "users": users.len(), "traces": traces.len(), "tests": tests.len() })
                    .serialize(serializer)
            }
            Self::Position(position) => json!({ "position": position }).serialize(serializer),
        }
    }
}

/// The lists in a document with tests, to count them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TestsInDocument {
    users: Vec<IgnoredAny>,
    traces: Vec<IgnoredAny>,
    tests: Vec<IgnoredAny>,
}

impl ChangeKind {
    fn from_sides<T>(before: Option<&T>, after: Option<&T>) -> Self {
        match (before, after) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            _ => Self::Changed,
        }
    }
}

/// Returns all changes: of the binding, of fields, of roles and their policies by name, of mappings, of the tests.
pub(super) fn between(before: &ModelState, after: &ModelState) -> Vec<ModelChange> {
    let mut changes = between_models(&before.model, &after.model);
    changes.extend(between_roles(&before.roles, &after.roles));
    changes.extend(between_mappings(&before.mappings, &after.mappings));
    changes.extend(tests(&before.tests, &after.tests));
    changes
}

pub(super) fn between_models(before: &AccessModel, after: &AccessModel) -> Vec<ModelChange> {
    let mut changes = Vec::new();
    changes.extend(binding(before.binding.as_ref(), after.binding.as_ref()));
    fields(&before.fields, &after.fields, &mut changes);
    changes
}

pub(super) fn between_roles(
    before: &BTreeMap<String, Vec<Policy>>,
    after: &BTreeMap<String, Vec<Policy>>,
) -> Vec<ModelChange> {
    let mut changes = Vec::new();
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        match (before.get(name), after.get(name)) {
            (Some(before), Some(after)) => policies(name, before, after, &mut changes),
            (before, after) => changes.push(role(name, before, after)),
        }
    }
    changes
}

pub(super) fn between_mappings(before: &ClaimsMappings, after: &ClaimsMappings) -> Vec<ModelChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let sides = |name: &String| [before.get(name), after.get(name)];
    let differ = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let change = |name: &String| {
        let [before, after] = sides(name);
        let change = ChangeKind::from_sides(before, after);
        let parts = [before, after].map(|mapping| mapping.cloned().map(ModelPart::Mapping));
        ModelChange::new(PartKind::Mapping, name.clone(), &format!("mapping of `{name}`"), change, parts)
    };
    differ.map(change).collect()
}

fn binding(before: Option<&Binding>, after: Option<&Binding>) -> Option<ModelChange> {
    if before == after {
        return None;
    }
    let table = |binding: &Binding| format!("`{}.{}`", binding.database, binding.table);
    let part = |binding: Option<&Binding>| Some(ModelPart::Binding(Box::new(binding?.clone())));
    let description = match (before.map(table), after.map(table)) {
        (Some(before), None) => format!("table {before} is no longer bound"),
        (Some(before), Some(after)) if before != after => format!("table {after} bound in place of {before}"),
        (Some(_), Some(after)) => format!("binding of table {after} changed"),
        (_, after) => format!("table {} bound", after.unwrap_or_default()),
    };
    Some(ModelChange {
        kind: PartKind::Binding,
        name: "binding".to_owned(),
        change: ChangeKind::from_sides(before, after),
        before: part(before),
        after: part(after),
        description,
    })
}

fn fields(before: &[MarkedField], after: &[MarkedField], changes: &mut Vec<ModelChange>) {
    let sides = [before, after].map(|fields| {
        let names: Vec<String> = fields.iter().map(|field| field.field.to_string()).collect();
        (names, fields)
    });
    let described = |name: &String| (name.clone(), format!("field `{name}`"));
    changes.extend(differences(sides, PartKind::Field, ModelPart::Field, described));
}

fn policies(role: &str, before: &[Policy], after: &[Policy], changes: &mut Vec<ModelChange>) {
    let sides = [before, after].map(|policies| (titles_with_ordinals(policies), policies));
    let described = |(title, _): &(&str, usize)| {
        (format!("{role} / {title}"), format!("role `{role}`: policy `{title}`"))
    };
    changes.extend(differences(sides, PartKind::Policy, ModelPart::Policy, described));
}

/// Returns each title with its ordinal among policies of the same title.
fn titles_with_ordinals(policies: &[Policy]) -> Vec<(&str, usize)> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let titles_with_ordinals = policies.iter().map(|policy| {
        let count = seen.entry(policy.title.as_str()).or_default();
        *count += 1;
        (policy.title.as_str(), *count)
    });
    titles_with_ordinals.collect()
}

fn role(name: &str, before: Option<&Vec<Policy>>, after: Option<&Vec<Policy>>) -> ModelChange {
    let change = ChangeKind::from_sides(before, after);
    let count = after.or(before).map_or(0, Vec::len);
    let policies = if count == 1 { "policy" } else { "policies" };
    let subject = format!("role `{name}` with {count} {policies}");
    let sides = [before, after].map(|policies| policies.cloned().map(ModelPart::Role));
    ModelChange::new(PartKind::Role, name.to_owned(), &subject, change, sides)
}

fn tests(before: &str, after: &str) -> Option<ModelChange> {
    if before == after {
        return None;
    }
    let some = |document: &str| Some(ModelPart::Tests(document.to_owned())).filter(|_| !document.is_empty());
    Some(tests_differ(some(before), some(after)))
}

/// Returns the change of the tests if only their presence before and after is known: it has a description, but no parts.
pub(super) fn tests_by_presence(before: bool, after: bool) -> Option<ModelChange> {
    let part = |present: bool| present.then(|| ModelPart::Tests(String::new()));
    let change = tests_differ(part(before), part(after));
    (before || after).then_some(ModelChange { before: None, after: None, ..change })
}

fn tests_differ(before: Option<ModelPart>, after: Option<ModelPart>) -> ModelChange {
    let change = ChangeKind::from_sides(before.as_ref(), after.as_ref());
    ModelChange::new(PartKind::Tests, "tests".to_owned(), "tests", change, [before, after])
}

/// Compares two sequences whose elements have unique keys: returns first the elements that exist afterwards, in their order,
/// then those that were removed. `described` returns the name and the subject of a change.
fn differences<K: Eq + Hash, T: Clone + PartialEq>(
    [before, after]: [(Vec<K>, &[T]); 2],
    kind: PartKind,
    part: fn(T) -> ModelPart,
    described: impl Fn(&K) -> (String, String),
) -> Vec<ModelChange> {
    let positions = |keys| -> HashMap<&K, usize> { <[K]>::iter(keys).zip(0..).collect() };
    let (positions_before, positions_after) = (positions(&before.0), positions(&after.0));
    let common_positions: Vec<usize> =
        after.0.iter().filter_map(|key| positions_before.get(key).copied()).collect();
    let in_order = longest_increasing(&common_positions);
    let whole = |value: &T| Some(part(value.clone()));
    let mut found = Vec::new();
    let mut add = |key: &K, change, sides| {
        let (name, subject) = described(key);
        found.push(ModelChange::new(kind, name, &subject, change, sides));
    };
    for ((key, value), position) in after.0.iter().zip(after.1).zip(1..) {
        let old = positions_before.get(key).and_then(|index| Some((index, before.1.get(*index)?)));
        match old {
            None => add(key, ChangeKind::Added, [None, whole(value)]),
            Some((_, old)) if old != value => add(key, ChangeKind::Changed, [whole(old), whole(value)]),
            Some((index, _)) if !in_order.contains(index) => {
                let sides = [index + 1, position].map(|position| Some(ModelPart::Position(position)));
                add(key, ChangeKind::Moved, sides);
            }
            Some(_) => {}
        }
    }
    for (key, value) in before.0.iter().zip(before.1) {
        if !positions_after.contains_key(key) {
            add(key, ChangeKind::Removed, [whole(value), None]);
        }
    }
    found
}

/// Returns a longest increasing subsequence: the elements outside it are the fewest that count as moved.
fn longest_increasing(numbers: &[usize]) -> BTreeSet<usize> {
    // For each length of a subsequence, its last number: the smallest that ends one of this length.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: BTreeMap<usize, Option<usize>> = BTreeMap::new();
    for &number in numbers {
        let length = ends.partition_point(|end| *end < number);
        let before = length.checked_sub(1).and_then(|at| ends.get(at).copied());
        previous.insert(number, before);
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut longest = BTreeSet::new();
    let mut next = ends.last().copied();
    while let Some(number) = next {
        longest.insert(number);
        next = previous.get(&number).copied().flatten();
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(title: &str, expression: &str) -> Policy {
        Policy { title: title.to_owned(), expression: expression.to_owned(), description: None }
    }

    #[track_caller]
    fn changed(before: &[(&str, &str)], after: &[(&str, &str)], expected: &[&str]) {
        let of = |list: &[(&str, &str)]| -> Vec<Policy> {
            list.iter().map(|(title, expression)| policy(title, expression)).collect()
        };
        let mut changes = Vec::new();
        policies("r", &of(before), &of(after), &mut changes);
        let description: Vec<&str> = changes.iter().map(|change| change.description.as_str()).collect();
        assert_eq!(description, expected);
    }

    #[test]
    fn policies_are_matched_by_title_and_position() {
        changed(&[("a", "1"), ("b", "2")], &[("a", "1"), ("b", "2")], &[]);
        changed(&[("a", "1")], &[("a", "2")], &["role `r`: policy `a` changed"]);
        changed(
            &[("a", "1"), ("b", "2"), ("c", "3")],
            &[("c", "3"), ("a", "1"), ("b", "2")],
            &["role `r`: policy `c` moved"],
        );
        changed(
            &[("a", "1"), ("b", "2")],
            &[("b", "2"), ("d", "4")],
            &["role `r`: policy `d` added", "role `r`: policy `a` removed"],
        );
        // Policies with equal titles are matched in their order.
        changed(&[("a", "1"), ("a", "2")], &[("a", "1"), ("a", "3")], &["role `r`: policy `a` changed"]);
        changed(&[("a", "1"), ("a", "2")], &[("a", "1")], &["role `r`: policy `a` removed"]);
    }

    #[test]
    fn reported_moves_are_minimal() {
        assert_eq!(longest_increasing(&[3, 0, 1, 2]), BTreeSet::from([0, 1, 2]));
        assert_eq!(longest_increasing(&[0, 2, 1, 3]).len(), 3);
        assert_eq!(longest_increasing(&[2, 1, 0]).len(), 1);
        assert_eq!(longest_increasing(&[]), BTreeSet::new());
    }
}
