//! Random policies.

use tracewarden_model::{LogicalType, field::escape};
use tracewarden_policy::check;

use super::Generator;
use super::operations::GeneratedPolicy;

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
    /// Generates the text of a valid policy.
    pub fn expression(&mut self) -> String {
        loop {
            let text = self.policy().text;
            if check(&text, &self.subjects.model).is_ok() {
                return text;
            }
        }
    }

    /// Generates a policy and lists the operations on fields in it. Nearly all policies are well-typed, and the checker decides;
    /// more than half consist of one operation.
    pub fn policy(&mut self) -> GeneratedPolicy {
        if self.chance(55) {
            let (text, operation) = self.standalone_operation();
            return GeneratedPolicy {
                text,
                standalone: operation.is_some(),
                operations: operation.into_iter().collect(),
            };
        }
        self.current_operations.clear();
        let depth = 1 + self.below(4);
        // Alternatives keep true results common at any depth.
        let text = if self.chance(75) {
            format!("{} || {}", self.condition(depth, &[]), self.condition(depth.min(2), &[]))
        } else {
            self.condition(depth, &[])
        };
        GeneratedPolicy { text, operations: std::mem::take(&mut self.current_operations), standalone: false }
    }

    pub(super) fn condition(&mut self, depth: u32, scope: &[String]) -> String {
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
        if depth > 0 && self.chance(60) {
            let (text, operation) = self.combined_operation(scope);
            self.current_operations.extend(operation);
            return format!("({text})");
        }
        match self.below(16) {
            0..3 => {
                let relation = self.pick(&["==", "==", "==", "!=", "<", ">="], "==");
                format!("{} {relation} {}", self.string(1, scope), self.string(1, scope))
            }
            3..5 => format!("{} in {}", self.string(1, scope), self.list(scope)),
            5 => self
                .pick(
                    &[
                        "has(SpanAttributes.env)",
                        "has(user.attributes.team)",
                        "\"lead\" in user.attributes",
                        "has(Baggage.flag)",
                        "!has(SpanAttributes.env)",
                    ],
                    "true",
                )
                .to_owned(),
            6 => {
                let function = self.pick(&["startsWith", "endsWith", "contains"], "contains");
                format!("{}.{function}({})", self.string(1, scope), self.string(1, scope))
            }
            7 => format!("{}.matches({})", self.string(1, scope), self.pattern()),
            8 => {
                let subject = if self.chance(50) { self.string(1, scope) } else { self.list(scope) };
                let relation = self.pick(&["==", "!=", "<", "<=", ">", ">="], "==");
                format!("size({subject}) {relation} {}", self.below(4))
            }
            9..11 => self.field(LogicalType::Boolean),
            11 => format!("{} {} {}", self.list(scope), self.pick(&["==", "!="], "=="), self.list(scope)),
            12 if depth > 0 => self.quantified(1, scope),
            12..14 => self
                .pick(
                    &[
                        "true",
                        "true",
                        "false",
                        "user.attributes.lead",
                        "\"dev\" in user.roles",
                        "user.attributes.missing",
                    ],
                    "true",
                )
                .to_owned(),
            _ => {
                let attribute = self.attribute();
                format!("{} {} {attribute}", self.string(1, scope), self.pick(&["==", "!=", "in"], "=="))
            }
        }
    }

    /// Returns a unique name for the element of a macro.
    pub(super) fn variable(&mut self) -> String {
        self.variables += 1;
        format!("v{}", self.variables)
    }

    fn quantified(&mut self, depth: u32, scope: &[String]) -> String {
        let variable = self.variable();
        let range = self.list(scope);
        let mut inner = scope.to_vec();
        inner.push(variable.clone());
        let quantifier = self.pick(&["exists", "exists", "all", "exists_one"], "exists");
        let body = if self.chance(60) {
            let relation = self.pick(&["==", "!=", "<"], "==");
            format!("{variable} {relation} {}", self.string(0, &inner))
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

    pub(super) fn pattern(&mut self) -> String {
        literal(self.pick(&PATTERNS, ""))
    }

    pub(super) fn string(&mut self, depth: u32, scope: &[String]) -> String {
        match self.below(20) {
            0..2 if !scope.is_empty() => {
                let at = self.below(u32::try_from(scope.len()).unwrap_or(1)) as usize;
                scope.get(at).cloned().unwrap_or_default()
            }
            0..6 => literal(&self.text()),
            6..17 => self.field(LogicalType::String),
            17 => "user.username".to_owned(),
            18 if depth > 0 => {
                let condition = self.condition(0, scope);
                format!("(({condition}) ? {} : {})", self.string(0, scope), self.string(0, scope))
            }
            _ => self.attribute(),
        }
    }

    pub(super) fn list(&mut self, scope: &[String]) -> String {
        match self.below(12) {
            0..6 => self.field(LogicalType::StringArray),
            6 => "user.roles".to_owned(),
            7 => "user.attributes.tenants".to_owned(),
            8 if self.chance(20) => {
                let condition = self.condition(0, scope);
                format!("(({condition}) ? {} : user.roles)", self.field(LogicalType::StringArray))
            }
            _ => {
                let count = self.below(4);
                let elements: Vec<String> = (0..count).map(|_| self.string(0, scope)).collect();
                format!("[{}]", elements.join(", "))
            }
        }
    }
}

/// Returns a CEL string literal.
pub(super) fn literal(text: &str) -> String {
    format!("\"{}\"", escape(text))
}
