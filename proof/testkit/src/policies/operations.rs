//! Enumerates every operation of the policy language on every marked field, so that a random run can show that it covered each of
//! them and with which results.

use std::collections::{BTreeMap, VecDeque};

use rand::seq::{IndexedRandom, SliceRandom};
use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField, TextType};
use tracewarden_policy::{FieldValue, Span};

use super::Generator;
use super::expressions::literal;

/// Operations on a string.
const ON_STRINGS: [&str; 30] = [
    "==",
    "== reversed",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in list",
    "in array",
    "in attribute",
    "list in",
    "startsWith",
    "startsWith argument",
    "endsWith",
    "endsWith argument",
    "contains",
    "contains argument",
    "matches",
    "size",
    "list ==",
    "list !=",
    "list of two",
    "branch in list",
    "exists over list",
    "all over list",
    "exists_one over list",
    "within macro",
    "branch of ?:",
    "has",
    "in map",
];

/// Operations on a boolean.
const ON_BOOLEANS: [&str; 14] = [
    "itself",
    "!",
    "==",
    "!=",
    "== attribute",
    "&&",
    "||",
    "condition of ?:",
    "branch of ?:",
    "in list",
    "order in macro",
    "within macro",
    "has",
    "in map",
];

/// Operations on an array of strings.
const ON_ARRAYS: [&str; 17] = [
    "in",
    "in reversed",
    "==",
    "!=",
    "== array",
    "== attribute",
    "size",
    "exists",
    "all",
    "exists_one",
    "nested macro",
    "macro over attribute",
    "branch of ?:",
    "range of ?:",
    "in list of lists",
    "has",
    "in map",
];

/// An operation on a field of some kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// The operation of the policy language.
    pub operator: &'static str,
    /// The operand: source, ClickHouse type and logical type of the field.
    pub kind: String,
}

/// A policy's text.
#[derive(Debug, Clone)]
pub struct GeneratedPolicy {
    /// The CEL text.
    pub text: String,
    /// The operations on fields that the generator chose; the text may contain others.
    pub operations: Vec<Operation>,
    /// Whether the text consists of the one operation, so that its results are those of the operation.
    pub standalone: bool,
}

/// The fields that policies use, and the known values of these fields.
pub(super) struct Subjects {
    pub(super) model: AccessModel,
    fields: Vec<MarkedField>,
    /// Strings that occur in spans, by field.
    known_values: BTreeMap<FieldRef, Vec<String>>,
    /// Operations still to be generated as part of larger expressions; refilled when empty.
    combined: VecDeque<(&'static str, usize)>,
    /// Operations still to be generated alone; refilled when empty.
    standalone: VecDeque<Operation>,
    dots_are_members: bool,
}

impl Subjects {
    pub(super) fn new() -> Self {
        let model = Generator::model();
        let fields = model.fields.iter().filter(|field| field.policy).cloned().collect();
        Self {
            model,
            fields,
            known_values: BTreeMap::new(),
            combined: VecDeque::new(),
            standalone: VecDeque::new(),
            dots_are_members: false,
        }
    }

    /// Returns every operation on every field that supports it.
    fn all(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.fields.iter().enumerate().flat_map(|(at, field)| {
            let operators: &[&str] = match field.logical {
                LogicalType::String => &ON_STRINGS,
                LogicalType::Boolean => &ON_BOOLEANS,
                LogicalType::StringArray => &ON_ARRAYS,
                LogicalType::Number => &[],
            };
            let possible =
                move |operator: &&str| field.field.map.is_some() || !["has", "in map"].contains(operator);
            operators.iter().copied().filter(possible).map(move |operator| (operator, at))
        })
    }
}

fn kind(field: &MarkedField) -> String {
    let location = match field.source {
        FieldSource::Column => "column of",
        FieldSource::MapKey | FieldSource::ArrayPair(_) => "key of a map of",
        FieldSource::JsonPath => "path of JSON of",
    };
    format!("{location} {} as {}", short_type_name(&field.column_type), field.logical.as_str())
}

/// Formats a type without the names of enumerations, which are long and irrelevant here.
fn short_type_name(column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::Text(TextType::Enum { .. }) => "Enum".to_owned(),
        ColumnType::LowCardinality(inner) => format!("LowCardinality({})", short_type_name(inner)),
        ColumnType::Nullable(inner) => format!("Nullable({})", short_type_name(inner)),
        ColumnType::Array(inner) => format!("Array({})", short_type_name(inner)),
        other => other.to_string(),
    }
}

/// Returns the text that is generated when a table has no field.
fn no_operation() -> (String, Option<Operation>) {
    ("true".to_owned(), None)
}

impl Generator {
    /// Returns every operation on every kind of field, sorted.
    pub fn operations() -> Vec<Operation> {
        let subjects = Subjects::new();
        let mut all: Vec<Operation> = subjects
            .all()
            .filter_map(|(operator, at)| Some(Operation { operator, kind: kind(subjects.fields.get(at)?) }))
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// Records the values of these spans, so that policies compare with values that occur.
    pub fn learn_values(&mut self, spans: &[Span]) {
        let Subjects { fields, known_values, .. } = &mut self.subjects;
        known_values.clear();
        for field in fields.iter() {
            let mut texts = Vec::new();
            for span in spans {
                let value = match &field.field.map {
                    None => span.get(&field.field.name),
                    Some(map) => span.get(map).and_then(|map| map.value_of_key(field.field.name.as_bytes())),
                };
                value.into_iter().for_each(|value| collect(value, &mut texts));
            }
            known_values.insert(field.field.clone(), texts);
        }
    }

    /// Generates the next operation on the next field: all of them in random order, then all of them again.
    pub(super) fn combined_operation(&mut self, scope: &[String]) -> (String, Option<Operation>) {
        if self.subjects.combined.is_empty() {
            let mut all: Vec<_> = self.subjects.all().collect();
            all.shuffle(&mut self.random);
            self.subjects.combined = all.into();
        }
        let next = self.subjects.combined.pop_front();
        next.map_or_else(no_operation, |(operator, at)| self.operation(operator, at, scope))
    }

    /// Generates the next operation on the next kind of field: all of them in random order, then all of them again.
    pub(super) fn standalone_operation(&mut self) -> (String, Option<Operation>) {
        if self.subjects.standalone.is_empty() {
            let mut all = Self::operations();
            all.shuffle(&mut self.random);
            self.subjects.standalone = all.into();
        }
        let Some(next) = self.subjects.standalone.pop_front() else { return no_operation() };
        let fields = self.subjects.fields.iter().enumerate();
        let of_kind: Vec<usize> =
            fields.filter(|(_, field)| kind(field) == next.kind).map(|(at, _)| at).collect();
        let at = of_kind.choose(&mut self.random).copied();
        at.map_or_else(no_operation, |at| self.operation(next.operator, at, &[]))
    }

    /// Schedules this operation to be generated alone once more, as the next one.
    pub fn schedule_again(&mut self, operation: &Operation) {
        self.subjects.standalone.push_front(operation.clone());
    }

    fn operation(
        &mut self,
        operator: &'static str,
        at: usize,
        scope: &[String],
    ) -> (String, Option<Operation>) {
        let Some(field) = self.subjects.fields.get(at).cloned() else { return no_operation() };
        let text = match field.logical {
            LogicalType::String => self.on_string(operator, &field, scope),
            LogicalType::Boolean => self.on_boolean(operator, &field, scope),
            _ => self.on_array(operator, &field, scope),
        };
        (text, Some(Operation { operator, kind: kind(&field) }))
    }

    /// From now on, paths with dots are written in brackets: other CEL implementations interpret `J.a.b` as a member of a member.
    pub fn dots_are_members(&mut self) {
        self.subjects.dots_are_members = true;
    }

    /// Whether a key or path can be written after a dot: a map key with dots would be a member of a member.
    fn allows_dot_notation(&self, field: &MarkedField) -> bool {
        let name = &field.field.name;
        let levels = field.source == FieldSource::JsonPath && !self.subjects.dots_are_members;
        is_path(name) && (levels || !name.contains('.'))
    }

    /// Returns a field of a logical type in policy syntax.
    pub(super) fn field(&mut self, logical: LogicalType) -> String {
        let fields = self.subjects.fields.iter().filter(|field| field.logical == logical);
        let of_type: Vec<MarkedField> = fields.cloned().collect();
        let at = self.below(u32::try_from(of_type.len().max(1)).unwrap_or(1)) as usize;
        of_type.get(at).map_or_else(|| "SpanName".to_owned(), |field| self.named(field))
    }

    /// Returns a field in one of its notations.
    fn named(&mut self, field: &MarkedField) -> String {
        let reference = &field.field;
        match &reference.map {
            Some(map) if self.allows_dot_notation(field) && self.chance(30) => {
                format!("{map}.{}", reference.name)
            }
            _ => reference.to_string(),
        }
    }

    /// Returns a string that the field has on some span, or any other string when none is known.
    fn known_text(&mut self, field: &FieldRef) -> String {
        // ClickHouse returns an empty string for an absent value.
        if self.chance(8) {
            return String::new();
        }
        let known = self.subjects.known_values.get(field).map_or(0, Vec::len);
        if known == 0 || self.chance(15) {
            return self.text();
        }
        let at = self.below(u32::try_from(known).unwrap_or(1)) as usize;
        self.subjects.known_values.get(field).and_then(|texts| texts.get(at)).cloned().unwrap_or_default()
    }

    fn known(&mut self, field: &FieldRef) -> String {
        literal(&self.known_text(field))
    }

    /// Returns an operand to compare the field with, usually a value that it has.
    fn other(&mut self, field: &FieldRef, scope: &[String]) -> String {
        if self.chance(75) { self.known(field) } else { self.string(1, scope) }
    }

    /// Returns a part of a value: its beginning, its end or its middle.
    fn part(&mut self, field: &FieldRef, operator: &str) -> String {
        let text: Vec<char> = self.known_text(field).chars().collect();
        let length = u32::try_from(text.len()).unwrap_or(0);
        let (from, to) = (self.below(length + 1) as usize, self.below(length + 1) as usize);
        let part: String = match operator {
            "startsWith" => text.iter().take(to).collect(),
            "endsWith" => text.iter().skip(from).collect(),
            _ => text.iter().skip(from.min(to)).take(from.abs_diff(to)).collect(),
        };
        literal(&part)
    }

    /// Returns a string that usually contains a value.
    fn text_containing(&mut self, field: &FieldRef, operator: &str) -> String {
        let (text, more) = (self.known_text(field), self.text());
        literal(&match operator {
            "startsWith" => text + &more,
            "endsWith" => more + &text,
            _ => format!("{more}{text}{more}"),
        })
    }

    fn texts(&mut self, field: &FieldRef, scope: &[String]) -> String {
        let count = 1 + self.below(3);
        let texts: Vec<String> = (0..count)
            .map(|_| if self.chance(80) { self.known(field) } else { self.string(0, scope) })
            .collect();
        texts.join(", ")
    }

    fn on_string(&mut self, operator: &'static str, field: &MarkedField, scope: &[String]) -> String {
        let name = self.named(field);
        let reference = &field.field;
        match operator {
            "== reversed" => format!("{} == {name}", self.other(reference, scope)),
            "in list" => format!("{name} in [{}]", self.texts(reference, scope)),
            "in array" => format!("{name} in {}", self.field(LogicalType::StringArray)),
            "in attribute" => {
                format!("{name} in {}", self.pick(&["user.attributes.tenants", "user.roles"], "user.roles"))
            }
            "list in" => format!("{} in [{name}, {}]", self.known(reference), self.string(0, scope)),
            "startsWith" | "endsWith" | "contains" => {
                format!("{name}.{operator}({})", self.part(reference, operator))
            }
            "startsWith argument" | "endsWith argument" | "contains argument" => {
                let function = operator.split(' ').next().unwrap_or(operator);
                format!("{}.{function}({name})", self.text_containing(reference, function))
            }
            "matches" => {
                let pattern = self.pattern();
                if self.chance(50) {
                    format!("{name}.matches({pattern})")
                } else {
                    format!("matches({name}, {pattern})")
                }
            }
            "size" => {
                let length = self.known_text(reference).chars().count();
                let relation = self.pick(&["==", "!=", "<", "<=", ">", ">="], "==");
                let length = if self.chance(60) { length } else { self.below(4) as usize };
                if self.chance(50) {
                    format!("size({name}) {relation} {length}")
                } else {
                    format!("{length} {relation} {name}.size()")
                }
            }
            "list ==" | "list !=" => {
                let relation = if operator == "list ==" { "==" } else { "!=" };
                let other = match self.below(6) {
                    0 => "user.attributes.tenants".to_owned(),
                    1 => self.field(LogicalType::StringArray),
                    _ => format!("[{}]", self.other(reference, scope)),
                };
                format!("[{name}] {relation} {other}")
            }
            "exists over list" | "all over list" | "exists_one over list" => {
                let quantifier = operator.split(' ').next().unwrap_or("exists");
                let (variable, other) = (self.variable(), self.known(reference));
                let mut inner = scope.to_vec();
                inner.push(variable.clone());
                let relation = self.pick(&["==", "==", "!=", "<="], "==");
                let more = match self.below(4) {
                    0 => String::new(),
                    1 => format!(", {}", self.known(reference)),
                    _ => format!(", {other}"),
                };
                // A body that does not use the element shows whether the list must be defined.
                let body = match self.below(5) {
                    0 => self.condition(0, &inner),
                    1 => format!("{} || {variable} == {other}", self.field(LogicalType::Boolean)),
                    _ => format!("{variable} {relation} {other}"),
                };
                format!("[{name}{more}].{quantifier}({variable}, {body})")
            }
            "list of two" => {
                let relation = self.pick(&["==", "==", "!="], "==");
                let (first, second) = (self.other(reference, scope), self.string(0, scope));
                let same = if self.chance(60) { second.clone() } else { self.string(0, scope) };
                format!("[{name}, {second}] {relation} [{first}, {same}]")
            }
            "branch in list" => {
                let condition = self.condition(0, scope);
                let (other, wanted) = (self.string(0, scope), self.known(reference));
                let branches =
                    if self.chance(50) { format!("{name} : {other}") } else { format!("{other} : {name}") };
                format!("{wanted} in [(({condition}) ? {branches}), {wanted}]")
            }
            "within macro" => {
                let variable = self.variable();
                let range = self.list(scope);
                let quantifier = self.pick(&["exists", "all", "exists_one"], "exists");
                let relation = self.pick(&["==", "!=", "<", ">="], "==");
                format!("{range}.{quantifier}({variable}, {variable} {relation} {name})")
            }
            "branch of ?:" => {
                let condition = self.condition(0, scope);
                let other = self.other(reference, scope);
                format!("(({condition}) ? {name} : {}) == {other}", self.string(0, scope))
            }
            "has" | "in map" => self.asked(operator, field),
            relation => format!("{name} {relation} {}", self.other(reference, scope)),
        }
    }

    fn on_boolean(&mut self, operator: &'static str, field: &MarkedField, scope: &[String]) -> String {
        let name = self.named(field);
        match operator {
            "itself" => name,
            "!" => format!("!{name}"),
            "== attribute" => format!("{name} == user.attributes.lead"),
            "&&" | "||" => {
                let other = self.condition(0, scope);
                if self.chance(50) {
                    format!("{name} {operator} ({other})")
                } else {
                    format!("({other}) {operator} {name}")
                }
            }
            "condition of ?:" => {
                format!("{name} ? ({}) : ({})", self.condition(0, scope), self.condition(0, scope))
            }
            "branch of ?:" => {
                let (condition, other) = (self.condition(0, scope), self.field(LogicalType::Boolean));
                let other = if self.chance(50) { "user.attributes.lead" } else { other.as_str() };
                format!("(({condition}) ? {name} : {other}) == {}", self.pick(&["true", "false"], "true"))
            }
            "in list" => {
                let list =
                    self.pick(&["[true]", "[false]", "[true, false]", "[user.attributes.lead]"], "[true]");
                format!("{name} in {list}")
            }
            "order in macro" => {
                let variable = self.variable();
                let relation = self.pick(&["<", "<=", ">", ">="], "<");
                format!("[{name}].exists({variable}, {variable} {relation} user.attributes.lead)")
            }
            "within macro" => {
                let (variable, range) = (self.variable(), self.list(scope));
                let quantifier = self.pick(&["exists", "all", "exists_one"], "exists");
                format!("{range}.{quantifier}({variable}, {name} && {variable} != {})", self.string(0, scope))
            }
            "has" | "in map" => self.asked(operator, field),
            relation => {
                let other = match self.below(4) {
                    0 => "true".to_owned(),
                    1 => "false".to_owned(),
                    2 => self.field(LogicalType::Boolean),
                    _ => format!("({})", self.condition(0, scope)),
                };
                format!("{name} {relation} {other}")
            }
        }
    }

    fn on_array(&mut self, operator: &'static str, field: &MarkedField, scope: &[String]) -> String {
        let name = self.named(field);
        let reference = &field.field;
        match operator {
            "in" => format!("{} in {name}", self.other(reference, scope)),
            "in reversed" => format!("[{}].all(e, e in {name})", self.texts(reference, scope)),
            "==" | "!=" => {
                let list = if self.chance(30) { String::new() } else { self.texts(reference, scope) };
                format!("{name} {operator} [{list}]")
            }
            "== array" => {
                let other = self.field(LogicalType::StringArray);
                let relation = self.pick(&["==", "!="], "==");
                format!("{name} {relation} {}", if self.chance(30) { name.clone() } else { other })
            }
            "== attribute" => {
                let relation = self.pick(&["==", "!="], "==");
                format!("user.attributes.tenants {relation} {name}")
            }
            "size" => {
                let relation = self.pick(&["==", "!=", "<", "<=", ">", ">="], "==");
                format!("size({name}) {relation} {}", self.below(3))
            }
            "exists" | "all" | "exists_one" => {
                let variable = self.variable();
                let mut inner = scope.to_vec();
                inner.push(variable.clone());
                let body = match self.below(6) {
                    0 => self.condition(0, &inner),
                    1 => format!("{variable}.startsWith({})", self.part(reference, "startsWith")),
                    2 => format!("{variable}.matches({})", self.pattern()),
                    3 => format!("size({variable}) > {}", self.below(3)),
                    _ => {
                        let relation = self.pick(&["==", "==", "!=", "<"], "==");
                        format!("{variable} {relation} {}", self.other(reference, &inner))
                    }
                };
                format!("{name}.{operator}({variable}, {body})")
            }
            "nested macro" => {
                let (outer, inner) = (self.variable(), self.variable());
                let other = self.list(scope);
                let quantifiers = ["exists", "all", "exists_one"];
                let (first, second) = (self.pick(&quantifiers, "all"), self.pick(&quantifiers, "all"));
                let relation = self.pick(&["==", "!=", "<", ">="], "==");
                format!("{name}.{first}({outer}, {other}.{second}({inner}, {inner} {relation} {outer}))")
            }
            "macro over attribute" => {
                let variable = self.variable();
                let range = self.pick(&["user.attributes.tenants", "user.roles"], "user.roles");
                let quantifier = self.pick(&["exists", "all", "exists_one"], "exists");
                format!("{range}.{quantifier}({variable}, {variable} in {name})")
            }
            "branch of ?:" => {
                let (condition, list) = (self.condition(0, scope), self.texts(reference, scope));
                format!("(({condition}) ? {name} : [{list}]) == {}", self.list(scope))
            }
            "range of ?:" => {
                let (condition, variable) = (self.condition(0, scope), self.variable());
                let other = self.other(reference, scope);
                format!(
                    "(({condition}) ? {name} : {}).exists({variable}, {variable} == {other})",
                    self.list(scope)
                )
            }
            "in list of lists" => {
                format!("{name} in [[{}], {}]", self.texts(reference, scope), self.list(scope))
            }
            _ => self.asked(operator, field),
        }
    }

    /// Returns a test for the presence of a key or a path, in one of the two notations.
    fn asked(&mut self, operator: &str, field: &MarkedField) -> String {
        let FieldRef { map, name } = &field.field;
        let map = map.as_deref().unwrap_or_default();
        if operator == "has" && self.allows_dot_notation(field) {
            format!("has({map}.{name})")
        } else {
            format!("{} in {map}", literal(name))
        }
    }
}

/// Whether the name of a key or path can be written after a dot.
fn is_path(name: &str) -> bool {
    name.split('.').all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.chars().all(|other| other.is_ascii_alphanumeric() || other == '_')
            && !["in", "true", "false", "null"].contains(&part)
    })
}

/// Collects the strings in a value, including those of a JSON array in a string.
fn collect(value: &FieldValue, texts: &mut Vec<String>) {
    match value {
        FieldValue::String(bytes) => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            match serde_json::from_str::<Vec<String>>(text) {
                Ok(list) => texts.extend(list),
                // The padding of a `FixedString` is not part of the value.
                Err(_) => texts.push(text.trim_end_matches('\0').to_owned()),
            }
        }
        FieldValue::Array(elements) => elements.iter().for_each(|element| collect(element, texts)),
        _ => {}
    }
}
