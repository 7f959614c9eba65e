//! Random policies.

use tracewarden_model::{LogicalType, field::escape};

use super::Generator;
use super::columns::KEYS;

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

impl Generator {
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
