//! Random policies with the callers and spans that they are about: for tests that compare two ways of deciding.
//!
//! Everything comes from a small alphabet of values, hostile ones among them, so that equality, prefixes and
//! membership hold often enough for true results to be common.

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{
    AccessModel, AttributeValue, Caller, ColumnType, FieldRef, LogicalType, MarkedField, field::escape,
};
use tracewarden_policy::{FieldValue, Span};

/// Columns of the table that the spans are of, with their ClickHouse types.
pub const COLUMNS: [(&str, &str); 13] = [
    ("ServiceName", "LowCardinality(String)"),
    ("SpanName", "String"),
    // Names that statements could use for their own purposes.
    ("x1", "String"),
    ("tw_trace", "LowCardinality(String)"),
    ("Nick", "Nullable(String)"),
    ("Zone", "LowCardinality(Nullable(String))"),
    ("Sampled", "Bool"),
    ("Cached", "Nullable(Bool)"),
    ("Events.Name", "Array(LowCardinality(String))"),
    ("Tags", "Array(String)"),
    ("SpanAttributes", "Map(LowCardinality(String), String)"),
    ("ResourceAttributes", "Map(String, String)"),
    ("Baggage", "Map(String, Nullable(String))"),
];

/// Keys of the maps, with the logical types that they are marked as.
const KEYS: [(&str, &str, LogicalType); 13] = [
    ("SpanAttributes", "env", LogicalType::String),
    ("SpanAttributes", "tenant.id", LogicalType::String),
    ("SpanAttributes", "flag", LogicalType::Boolean),
    ("SpanAttributes", "list", LogicalType::StringArray),
    ("SpanAttributes", "it's \"quoted\" \\ \n \u{e9} {p0:String}", LogicalType::String),
    ("SpanAttributes", "", LogicalType::String),
    ("ResourceAttributes", "team", LogicalType::String),
    ("ResourceAttributes", "live", LogicalType::Boolean),
    ("ResourceAttributes", "owners", LogicalType::StringArray),
    ("Baggage", "env", LogicalType::String),
    ("Baggage", "flag", LogicalType::Boolean),
    ("Baggage", "list", LogicalType::StringArray),
    ("Baggage", "", LogicalType::String),
];

/// Strings that occur in spans, callers and policies alike.
const TEXTS: [&str; 23] = [
    "",
    "a",
    "a",
    "b",
    "ab",
    "abc",
    "prod",
    "prod",
    "A",
    "true",
    "é",
    "日本",
    "😀",
    "a\nb",
    "b\n",
    "a\tb",
    "x'y\"z",
    "\\",
    "{p0:String}",
    "Code: 1. DB::Exception",
    "\u{0}",
    " ",
    "\u{10FF80}",
];

/// Bytes that are not UTF-8, in spans only.
const BROKEN: [&[u8]; 5] = [b"\xff", b"a\xc3", b"\xe2\x82b", b"ab\xed\xa0\x80", b"\x80prod"];

/// JSON that a key of type string_array may hold, right and wrong.
const LISTS: [&str; 16] = [
    "[]",
    "[\"a\"]",
    "[\"a\",\"b\"]",
    " [ \"prod\" ] ",
    "[\"\\u00e9\",\"\\n\"]",
    "[\"a\",1]",
    "[1]",
    "{}",
    "\"a\"",
    "[\"a\"",
    "[\"a\"]x",
    "[null]",
    "[[\"a\"]]",
    "[\"a\",]",
    "\u{feff}[\"a\"]",
    "[\"\\ud800\"]",
];

/// Patterns of `matches`.
const PATTERNS: [&str; 18] = [
    "^a",
    "b$",
    "a.b",
    "[a-c]+",
    "(?i)PROD",
    "\\d",
    "\\ba",
    "",
    "a|b",
    "(?s)a.b",
    "^$",
    ".",
    "[^a]",
    "\\w+$",
    "\\s",
    "é",
    "(ab){1,2}",
    "^.{2}$",
];

/// Makes policies, callers and spans from a seed.
pub struct Generator {
    random: ChaCha8Rng,
    variables: u32,
}

impl Generator {
    /// The same seed makes the same sequence.
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), variables: 0 }
    }

    /// The access model that policies are made for.
    pub fn model() -> AccessModel {
        let logical = |column_type: &ColumnType| column_type.logical_types().first().copied();
        let value_type = |map: &str| {
            let column =
                COLUMNS.iter().find(|(name, _)| *name == map).map(|(_, text)| ColumnType::parse(text));
            column.and_then(|column| column.map_value().cloned()).unwrap_or(ColumnType::String)
        };
        let columns = COLUMNS.iter().filter_map(|(name, text)| {
            let column_type = ColumnType::parse(text);
            Some((FieldRef::column(*name), logical(&column_type)?, column_type))
        });
        let keys =
            KEYS.iter().map(|(map, key, logical)| (FieldRef::key(*map, *key), *logical, value_type(map)));
        AccessModel {
            version: 1,
            binding: None,
            fields: columns
                .chain(keys)
                .map(|(field, logical, column_type)| MarkedField {
                    field,
                    logical,
                    column_type,
                    filterable: true,
                    policy: true,
                })
                .collect(),
        }
    }

    fn pick<T: Copy>(&mut self, choices: &[T], otherwise: T) -> T {
        choices.choose(&mut self.random).copied().unwrap_or(otherwise)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.random_range(0..bound)
    }

    /// A caller with some roles and attributes.
    pub fn caller(&mut self) -> Caller {
        let mut caller =
            Caller { username: self.pick(&["a", "ada", "prod", "é"], "a").to_owned(), ..Caller::default() };
        for role in ["a", "b", "dev", "oncall"] {
            if self.chance(50) {
                caller.roles.insert(role.to_owned());
            }
        }
        for name in ["team", "tenants", "lead", "a key"] {
            if self.chance(85) {
                let value = match (name, self.below(10)) {
                    ("team", 0..8) | (_, 8) => AttributeValue::String(self.text()),
                    ("lead", 0..8) | (_, 9) => AttributeValue::Bool(self.chance(60)),
                    _ => AttributeValue::Strings((0..self.below(4)).map(|_| self.text()).collect()),
                };
                caller.attributes.insert(name.to_owned(), value);
            }
        }
        caller
    }

    fn text(&mut self) -> String {
        self.pick(&TEXTS, "").to_owned()
    }

    fn bytes(&mut self) -> Vec<u8> {
        if self.chance(4) { self.pick(&BROKEN, b"\xff").to_vec() } else { self.text().into_bytes() }
    }

    /// A span: a value for each column.
    pub fn span(&mut self) -> Span {
        let mut span = Span::new();
        for (name, type_text) in COLUMNS {
            let column_type = ColumnType::parse(type_text);
            let value = if column_type.is_nullable() && self.chance(25) {
                FieldValue::Null
            } else {
                match column_type.bare() {
                    ColumnType::Bool => FieldValue::Bool(self.chance(60)),
                    ColumnType::Array(_) => {
                        FieldValue::Strings((0..self.below(4)).map(|_| self.bytes()).collect())
                    }
                    ColumnType::Map(_, value) => FieldValue::Map(self.map(name, value.is_nullable())),
                    _ => FieldValue::String(self.bytes()),
                }
            };
            span.insert(name.to_owned(), value);
        }
        span
    }

    fn map(&mut self, map: &str, nullable: bool) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut entries = Vec::new();
        for (_, key, logical) in KEYS.iter().filter(|(name, ..)| *name == map) {
            let times = match self.below(100) {
                0..20 => 0,
                20..94 => 1,
                _ => 2,
            };
            for _ in 0..times {
                let value = match logical {
                    LogicalType::Boolean if self.chance(85) => {
                        self.pick(&["true", "true", "false"], "").as_bytes().to_vec()
                    }
                    LogicalType::StringArray if self.chance(50) => {
                        self.pick(&LISTS[..5], "").as_bytes().to_vec()
                    }
                    LogicalType::StringArray => self.pick(&LISTS, "").as_bytes().to_vec(),
                    _ => self.bytes(),
                };
                let value = if nullable && self.chance(15) { None } else { Some(value) };
                entries.push((key.as_bytes().to_vec(), value));
            }
        }
        if self.chance(10) {
            entries.push((b"other\xff".to_vec(), Some(b"x".to_vec())));
        }
        entries
    }

    /// A policy's text. Nearly all are well-typed; the checker has the last word.
    pub fn expression(&mut self) -> String {
        let depth = 1 + self.below(4);
        // Alternatives keep true results common however deep the parts are.
        if self.chance(40) {
            format!("{} || {}", self.condition(depth, &[]), self.condition(depth.min(2), &[]))
        } else {
            self.condition(depth, &[])
        }
    }

    fn condition(&mut self, depth: u32, scope: &[String]) -> String {
        if depth > 0 && self.chance(60) {
            let next = depth - 1;
            return match self.below(10) {
                0 => format!("!({})", self.condition(next, scope)),
                1..4 => format!("({} && {})", self.condition(next, scope), self.condition(next, scope)),
                4..7 => format!("({} || {})", self.condition(next, scope), self.condition(next, scope)),
                7 => {
                    let (a, b, c) = (
                        self.condition(next, scope),
                        self.condition(next, scope),
                        self.condition(next, scope),
                    );
                    format!("({a} ? {b} : {c})")
                }
                8 => format!("(({}) == ({}))", self.condition(next, scope), self.condition(next, scope)),
                _ => self.quantified(next, scope),
            };
        }
        match self.below(24) {
            0..5 => {
                let operator = self.pick(&["==", "==", "==", "!="], "==");
                self.compared(operator, scope)
            }
            5 => {
                let operator = self.pick(&["<", "<=", ">", ">="], "<");
                self.compared(operator, scope)
            }
            6..9 => format!("{} in {}", self.string(1, scope), self.list(scope)),
            9..11 => {
                let (map, key, _) = self.pick(&KEYS, KEYS[0]);
                format!("{} in {map}", literal(key))
            }
            11 => self
                .pick(
                    &[
                        "has(SpanAttributes.env)",
                        "has(user.attributes.team)",
                        "\"lead\" in user.attributes",
                        "has(Baggage.flag)",
                    ],
                    "true",
                )
                .to_owned(),
            12..15 => {
                let function = self.pick(&["startsWith", "endsWith", "contains"], "contains");
                format!("{}.{function}({})", self.string(1, scope), self.string(1, scope))
            }
            15 => {
                let subject = self.string(1, scope);
                let pattern = literal(self.pick(&PATTERNS, ""));
                if self.chance(50) {
                    format!("{subject}.matches({pattern})")
                } else {
                    format!("matches({subject}, {pattern})")
                }
            }
            16 => {
                let subject = if self.chance(50) { self.string(1, scope) } else { self.list(scope) };
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="], "==");
                format!("size({subject}) {operator} {}", self.below(4))
            }
            17..19 => self.boolean_field(),
            19 => format!(
                "{} == {}",
                self.boolean_field(),
                self.pick(&["true", "false", "user.attributes.lead"], "true")
            ),
            20 => format!("{} {} {}", self.list(scope), self.pick(&["==", "!="], "=="), self.list(scope)),
            21 => self.quantified(1, scope),
            22 => self
                .pick(&["true", "false", "user.attributes.lead", "\"dev\" in user.roles"], "true")
                .to_owned(),
            _ => {
                let attribute = self.attribute();
                format!("{} {} {attribute}", self.string(1, scope), self.pick(&["==", "!=", "in"], "=="))
            }
        }
    }

    fn compared(&mut self, operator: &str, scope: &[String]) -> String {
        format!("{} {operator} {}", self.string(1, scope), self.string(1, scope))
    }

    fn quantified(&mut self, depth: u32, scope: &[String]) -> String {
        self.variables += 1;
        let variable = format!("v{}", self.variables);
        let range = self.list(scope);
        let mut inner = scope.to_vec();
        inner.push(variable.clone());
        let quantifier = self.pick(&["exists", "exists", "all", "exists_one"], "exists");
        let body = if self.chance(60) {
            let operator = self.pick(&["==", "!=", "<"], "==");
            format!("{variable} {operator} {}", self.string(0, &inner))
        } else {
            self.condition(depth.min(1), &inner)
        };
        format!("{range}.{quantifier}({variable}, {body})")
    }

    fn attribute(&mut self) -> String {
        self.pick(
            &[
                "user.attributes.team",
                "user.attributes[\"a key\"]",
                "user.attributes.tenants",
                "user.attributes.missing",
                "user.attributes.team",
            ],
            "user.username",
        )
        .to_owned()
    }

    fn boolean_field(&mut self) -> String {
        self.pick(
            &[
                "Sampled",
                "Cached",
                "SpanAttributes[\"flag\"]",
                "SpanAttributes.flag",
                "ResourceAttributes[\"live\"]",
                "Baggage[\"flag\"]",
            ],
            "Sampled",
        )
        .to_owned()
    }

    fn string(&mut self, depth: u32, scope: &[String]) -> String {
        match self.below(20) {
            0..2 if !scope.is_empty() => {
                let at = self.below(u32::try_from(scope.len()).unwrap_or(1)) as usize;
                scope.get(at).cloned().unwrap_or_default()
            }
            0..6 => literal(&self.text()),
            6..9 => self
                .pick(&["ServiceName", "SpanName", "Nick", "Zone", "x1", "tw_trace"], "SpanName")
                .to_owned(),
            9..16 => {
                let keys: Vec<_> =
                    KEYS.iter().filter(|(.., logical)| *logical == LogicalType::String).copied().collect();
                let (map, key, _) = self.pick(&keys, KEYS[0]);
                format!("{map}[{}]", literal(key))
            }
            16 => "SpanAttributes.env".to_owned(),
            17 => "user.username".to_owned(),
            18 if depth > 0 => {
                let condition = self.condition(0, scope);
                format!("(({condition}) ? {} : {})", self.string(0, scope), self.string(0, scope))
            }
            _ => self.attribute(),
        }
    }

    fn list(&mut self, scope: &[String]) -> String {
        match self.below(12) {
            0..2 => "Events.Name".to_owned(),
            2 => "Tags".to_owned(),
            3..5 => "SpanAttributes[\"list\"]".to_owned(),
            5 => self.pick(&["ResourceAttributes[\"owners\"]", "Baggage[\"list\"]"], "Tags").to_owned(),
            6 => "user.roles".to_owned(),
            7 => "user.attributes.tenants".to_owned(),
            8 if self.chance(20) => {
                let condition = self.condition(0, scope);
                format!("(({condition}) ? Tags : user.roles)")
            }
            _ => {
                let count = self.below(4);
                let elements: Vec<String> = (0..count).map(|_| self.string(0, scope)).collect();
                format!("[{}]", elements.join(", "))
            }
        }
    }
}

/// A CEL string literal.
fn literal(text: &str) -> String {
    format!("\"{}\"", escape(text))
}

/// Which values [`Generator::span`] and policies draw from, for tests that want each of them.
pub fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.into_iter()
}
