//! Relations between facts about one span: which facts exclude each other, and which imply others.
//!
//! Sound but not complete: each relation found holds on every span and for every caller, but many are not found.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::predicate::TextFunction::{self, Contains, EndsWith, StartsWith};

/// A condition that is true, false or an error on a span.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fact {
    /// The value, given by its canonical text, is one of these strings.
    OneOf(String, BTreeSet<String>),
    /// The value is text that begins with, ends with or contains this string.
    TextTest(String, TextFunction, String),
    /// The field is present, with any value. Never an error.
    Present(String),
    /// Any other condition, by its canonical text.
    Other(String),
}

/// Whether every text that satisfies the function also satisfies the other.
fn implies(function: TextFunction, argument: &str, other: TextFunction, others: &str) -> bool {
    match (function, other) {
        (StartsWith, StartsWith) => argument.starts_with(others),
        (EndsWith, EndsWith) => argument.ends_with(others),
        (_, Contains) => argument.contains(others),
        _ => false,
    }
}

/// Whether no text satisfies both functions.
fn excludes(function: TextFunction, argument: &str, other: TextFunction, others: &str) -> bool {
    match (function, other) {
        (StartsWith, StartsWith) => !argument.starts_with(others) && !others.starts_with(argument),
        (EndsWith, EndsWith) => !argument.ends_with(others) && !others.ends_with(argument),
        _ => false,
    }
}

/// A fact with its truth value. It is not an error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Literal {
    pub(super) fact: Fact,
    pub(super) holds: bool,
    /// Fields that are present wherever this fact is not an error.
    pub(super) needs: BTreeSet<String>,
}

impl Literal {
    /// Whether the fact permits this value of its subject.
    fn allows(&self, value: &str) -> bool {
        let matches_value = match &self.fact {
            Fact::OneOf(_, values) => values.contains(value),
            Fact::TextTest(_, function, argument) => function.holds(value, argument),
            _ => return true,
        };
        matches_value == self.holds
    }

    /// Returns the value that the fact refers to.
    fn subject(&self) -> Option<&str> {
        match &self.fact {
            Fact::OneOf(subject, _) | Fact::TextTest(subject, ..) => Some(subject),
            _ => None,
        }
    }
}

/// Facts that hold at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Conjunction(pub(super) BTreeSet<Rc<Literal>>);

impl Conjunction {
    fn literals_about<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = &'a Literal> {
        self.0.iter().map(AsRef::as_ref).filter(move |literal| literal.subject() == Some(subject))
    }

    /// Returns the remaining possible values of a subject, if they are finitely many.
    fn possible_values<'a>(&'a self, subject: &'a str) -> Option<Vec<&'a str>> {
        let values = self.literals_about(subject).find_map(|literal| match &literal.fact {
            Fact::OneOf(_, values) if literal.holds => Some(values),
            _ => None,
        })?;
        let left = values.iter().map(String::as_str);
        Some(left.filter(|value| self.literals_about(subject).all(|literal| literal.allows(value))).collect())
    }

    /// Whether no span satisfies these facts.
    pub(super) fn is_impossible(&self) -> bool {
        let needed: BTreeSet<&String> = self.0.iter().flat_map(|literal| &literal.needs).collect();
        self.0.iter().any(|literal| {
            let opposite = Literal { holds: !literal.holds, ..Literal::clone(literal) };
            if self.0.contains(&opposite) {
                return true;
            }
            match &literal.fact {
                Fact::Present(field) => !literal.holds && needed.contains(field),
                Fact::OneOf(subject, _) => self.possible_values(subject).is_some_and(|left| left.is_empty()),
                Fact::TextTest(subject, function, argument) if literal.holds => {
                    self.literals_about(subject).any(|other| match &other.fact {
                        Fact::TextTest(_, other_function, others) => {
                            let test = if other.holds { excludes } else { implies };
                            test(*function, argument, *other_function, others)
                        }
                        _ => false,
                    })
                }
                Fact::TextTest(..) | Fact::Other(_) => false,
            }
        })
    }

    /// Whether these facts imply `literal`.
    pub(super) fn implies(&self, literal: &Literal) -> bool {
        if self.0.contains(literal) {
            return true;
        }
        match &literal.fact {
            Fact::Present(field) => literal.holds && self.0.iter().any(|known| known.needs.contains(field)),
            Fact::OneOf(subject, values) => {
                if let Some(left) = self.possible_values(subject) {
                    return left.iter().all(|value| values.contains(*value) == literal.holds);
                }
                // Without a finite list: each of the values must be excluded, and the value must not be an error.
                let mut known = self.literals_about(subject).peekable();
                !literal.holds
                    && known.peek().is_some()
                    && values
                        .iter()
                        .all(|value| self.literals_about(subject).any(|known| !known.allows(value)))
            }
            Fact::TextTest(subject, function, argument) => {
                if let Some(left) = self.possible_values(subject) {
                    return left.iter().all(|value| function.holds(value, argument) == literal.holds);
                }
                self.literals_about(subject).any(|known| match (&known.fact, known.holds, literal.holds) {
                    (Fact::TextTest(_, theirs, text), true, true) => {
                        implies(*theirs, text, *function, argument)
                    }
                    (Fact::TextTest(_, theirs, text), false, false) => {
                        implies(*function, argument, *theirs, text)
                    }
                    (Fact::TextTest(_, theirs, text), true, false) => {
                        excludes(*theirs, text, *function, argument)
                    }
                    _ => false,
                })
            }
            Fact::Other(_) => false,
        }
    }
}
