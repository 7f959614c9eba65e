//! Describes in English which spans a predicate matches.
//!
//! The description is complete, with one omission: that a text must be UTF-8 to be ordered, measured or matched. A
//! test that clearly needs a value, such as `is "prod"`, does not mention that the value must be present. A test that
//! could be read as true without a value, such as `is not "prod"`, does.

mod clauses;
mod limits;
mod presence;

use std::collections::HashSet;

use tracewarden_model::FieldRef;

use crate::predicate::{Atom, Junction, Predicate, Text, TextFunction};

use clauses::{Names, clause};
use limits::{MAX_CHARACTERS, MAX_DEPTH, MAX_PARTS, MAX_SIZE};
use presence::{implied, is_text_when_present};

/// Describes which spans match: one English clause, such as `ServiceName is "checkout" and SpanAttributes["team"] is
/// one of "payments", "web"`; `every span` and `no span` if the result does not depend on the span.
///
/// The description is one line without invisible characters, and at most a few thousand characters long: long texts,
/// lists and junctions are truncated, with the number of omitted items. It contains values of the policy and of the
/// caller.
pub fn describe(predicate: &Predicate) -> String {
    match predicate {
        Predicate::True => "every span".to_owned(),
        Predicate::False => "no span".to_owned(),
        predicate if predicate.size() > MAX_SIZE => "a condition … that is too long to be shown".to_owned(),
        predicate => {
            let mut describer = Describer { remaining_chars: MAX_CHARACTERS };
            describer.describe(predicate, &Context::default()).text(false)
        }
    }
}

/// Context of a part of the predicate.
#[derive(Debug, Clone, Default)]
struct Context<'a> {
    depth: usize,
    /// Fields that are known to have a value here.
    known: HashSet<&'a FieldRef>,
    /// Names of the elements that enclosing tests iterate over.
    names: Names,
}

impl Context<'_> {
    fn inner(&self) -> Self {
        Self { depth: self.depth + 1, ..self.clone() }
    }
}

/// Description of a predicate before brackets are added.
#[derive(Debug)]
enum Description {
    Clause(String),
    All(Parts),
    Any(Parts),
}

#[derive(Debug, Default)]
struct Parts {
    items: Vec<Description>,
    /// Number of omitted parts.
    more: usize,
}

impl Parts {
    /// Adds a part. If it is a junction of the same kind, adds its parts instead.
    fn push(&mut self, part: Description, conjunction: bool) {
        match (part, conjunction) {
            (Description::All(parts), true) | (Description::Any(parts), false) => {
                self.items.extend(parts.items);
                self.more += parts.more;
            }
            (part, _) => self.items.push(part),
        }
    }

    fn into_description(mut self, conjunction: bool) -> Description {
        match self.items.pop() {
            Some(only) if self.items.is_empty() && self.more == 0 => only,
            last => {
                self.items.extend(last);
                if conjunction { Description::All(self) } else { Description::Any(self) }
            }
        }
    }
}

impl Description {
    fn text(&self, within: bool) -> String {
        let (parts, word) = match self {
            Self::Clause(clause) => return clause.clone(),
            Self::All(parts) => (parts, " and "),
            Self::Any(parts) => (parts, " or "),
        };
        let items: Vec<String> = parts.items.iter().map(|part| part.text(true)).collect();
        let mut text = items.join(word);
        if parts.more > 0 {
            let plural = if parts.more == 1 { "" } else { "s" };
            text.push_str(&format!("{word}… {} more condition{plural}", parts.more));
        }
        if within { format!("({text})") } else { text }
    }
}

struct Describer {
    /// Number of characters that may still be written.
    remaining_chars: usize,
}

impl Describer {
    fn describe<'a>(&mut self, predicate: &'a Predicate, context: &Context<'a>) -> Description {
        match predicate {
            Predicate::True => self.clause("anything holds".to_owned()),
            Predicate::False => self.clause("nothing holds".to_owned()),
            Predicate::And(_) | Predicate::Or(_)
                if context.depth >= MAX_DEPTH || self.remaining_chars == 0 =>
            {
                Description::Clause("…".to_owned())
            }
            Predicate::And(junction) => self.all(junction, context),
            Predicate::Or(junction) => self.any(junction, context),
            Predicate::Atom(atom) => self.atom(atom, false, context),
            Predicate::Not(junction) => match (predicate.as_test(), junction.parts()) {
                (Some((atom, _)), _) => self.atom(atom, true, context),
                (None, [inner]) => self.negated(inner, context),
                _ => self.clause("nothing holds".to_owned()),
            },
        }
    }

    fn clause(&mut self, text: String) -> Description {
        self.remaining_chars = self.remaining_chars.saturating_sub(text.chars().count());
        Description::Clause(text)
    }

    fn negated<'a>(&mut self, inner: &'a Predicate, context: &Context<'a>) -> Description {
        let inner = self.describe(inner, &context.inner());
        self.clause(format!("not {}", inner.text(true)))
    }

    fn any<'a>(&mut self, junction: &'a Junction, context: &Context<'a>) -> Description {
        let mut parts = Parts::default();
        let absent: Vec<&FieldRef> = junction.parts().iter().filter_map(absence_test).collect();
        for (at, part) in junction.parts().iter().enumerate() {
            if at >= MAX_PARTS || self.remaining_chars == 0 {
                parts.more += junction.parts().len() - at;
                break;
            }
            // The other alternatives apply only to spans that have a value.
            let own = absence_test(part);
            let mut context = context.inner();
            context.known.extend(absent.iter().filter(|field| own.as_ref() != Some(field)));
            parts.push(self.describe(part, &context), false);
        }
        parts.into_description(false)
    }

    fn all<'a>(&mut self, junction: &'a Junction, context: &Context<'a>) -> Description {
        let tests: Vec<&Predicate> = junction.parts().iter().collect();
        let mut inner = context.inner();
        inner.known.extend(tests.iter().filter_map(|part| value_test(part)));
        let implied_here: HashSet<&FieldRef> =
            tests.iter().flat_map(|part| implied(part, inner.depth)).collect();
        let named = tests.iter().filter(|part| !is_guard(part)).flat_map(|part| part.fields());
        let named = named.map(|field| &field.field).collect();
        let is_described = |field: &FieldRef| context.known.contains(field) || implied_here.contains(field);
        let kept: Vec<&Predicate> =
            tests.iter().copied().filter(|part| !is_redundant(part, &tests, &named, &is_described)).collect();
        let mut parts = Parts::default();
        let mut done: HashSet<usize> = HashSet::new();
        for (at, part) in kept.iter().enumerate() {
            if done.contains(&at) {
                continue;
            }
            if parts.items.len() >= MAX_PARTS || self.remaining_chars == 0 {
                parts.more += kept.len() - at - done.iter().filter(|other| **other > at).count();
                break;
            }
            // `X is present and is not "prod"`: the test of the value follows directly.
            let about = value_test(part).and_then(|field| {
                let (other, test) = kept.iter().enumerate().find_map(|(other, test)| {
                    let test = test.as_test()?;
                    let fits = other != at && !done.contains(&other) && clauses::is_about(test.0, field);
                    fits.then_some((other, test))
                })?;
                Some((other, clause(test.0, test.1, &inner.known, &inner.names).phrase))
            });
            match about {
                Some((other, phrase)) => {
                    let first = self.describe(part, &inner);
                    parts.push(first, true);
                    parts.push(self.clause(phrase), true);
                    done.insert(other);
                }
                None => parts.push(self.describe(part, &inner), true),
            }
        }
        if parts.items.is_empty() && parts.more == 0 {
            return self.clause("anything holds".to_owned());
        }
        parts.into_description(true)
    }

    fn atom<'a>(&mut self, atom: &'a Atom, negated: bool, context: &Context<'a>) -> Description {
        match atom {
            Atom::Quantified { quantifier, array, variable, body } => {
                let subject = clauses::elements(*quantifier, array, negated, &context.names);
                let single_phrase = only_element_test(body)
                    .as_test()
                    .filter(|(test, _)| clauses::is_about_element(test, *variable))
                    .map(|(test, negated)| clause(test, negated, &context.known, &context.names).phrase);
                if let Some(phrase) = single_phrase {
                    return self.clause(format!("{subject} {phrase}"));
                }
                let (names, name) = context.names.with(*variable);
                let inner = Context { names, ..context.inner() };
                let body = match self.describe(body, &inner) {
                    // Without brackets, the text that follows could be read as part of the condition on the element.
                    Description::Clause(clause) => format!("({clause})"),
                    junction => junction.text(true),
                };
                let (many, of) = subject.split_once(" element ").unwrap_or((&subject, ""));
                self.clause(format!("for {many} element {name} {of}, {body}"))
            }
            Atom::ExactlyOne(parts) => {
                let inner = context.inner();
                let mut alternatives = Parts::default();
                for (at, part) in parts.iter().enumerate() {
                    if at >= MAX_PARTS || self.remaining_chars == 0 || inner.depth > MAX_DEPTH {
                        alternatives.more += parts.len() - at;
                        break;
                    }
                    alternatives.items.push(self.describe(part, &inner));
                }
                let not = if negated { "not exactly one" } else { "exactly one" };
                let text = Description::Any(alternatives).text(true);
                self.clause(format!("{not} of {text}"))
            }
            atom => {
                let clause = clause(atom, negated, &context.known, &context.names);
                self.clause(format!("{} {}", clause.subject, clause.phrase))
            }
        }
    }
}

/// Returns the only test of an element besides the one that it is UTF-8; otherwise the whole body.
fn only_element_test(body: &Predicate) -> &Predicate {
    let Predicate::And(junction) = body else { return body };
    let mut others = junction
        .parts()
        .iter()
        .filter(|part| !matches!(part.as_test(), Some((Atom::Utf8(Text::Element(_)), false))));
    match (others.next(), others.next()) {
        (Some(one), None) => one,
        _ => body,
    }
}

/// Returns the field that must have a value, if the predicate tests nothing else.
fn value_test(predicate: &Predicate) -> Option<&FieldRef> {
    match predicate.as_test()? {
        (Atom::Defined(field), false) => Some(&field.field),
        _ => None,
    }
}

/// Returns the field that must have no value, if the predicate tests nothing else.
fn absence_test(predicate: &Predicate) -> Option<&FieldRef> {
    match predicate.as_test()? {
        (Atom::Defined(field), true) => Some(&field.field),
        (Atom::Present(field), true) if is_text_when_present(field) => Some(&field.field),
        _ => None,
    }
}

/// Whether the test is only a precondition of other tests.
fn is_guard(part: &Predicate) -> bool {
    matches!(part.as_test(), Some((Atom::Utf8(_) | Atom::Defined(_) | Atom::Present(_), _)))
}

/// Whether the description can omit this part because of other parts of the conjunction. `named` are the fields that
/// the other parts mention.
fn is_redundant(
    part: &Predicate,
    all: &[&Predicate],
    named: &HashSet<&FieldRef>,
    is_described: &impl Fn(&FieldRef) -> bool,
) -> bool {
    match part.as_test() {
        Some((Atom::Defined(field), false)) => is_described(&field.field),
        Some((Atom::Present(field), false)) => is_text_when_present(field) && is_described(&field.field),
        Some((Atom::Utf8(text), false)) => match text {
            Text::Field(field) => named.contains(&field.field),
            Text::Element(_) => all.iter().any(|other| !is_guard(other)),
            Text::Literal(_) => true,
        },
        // The description of a pattern shows its prefix.
        Some((Atom::TextCall(TextFunction::StartsWith, text, Text::Literal(start)), false)) => {
            all.iter().any(|other| match other.as_test() {
                Some((Atom::Matches(matched, pattern), false)) => {
                    let prefix = pattern.prefix.as_ref();
                    matched == text && prefix.is_some_and(|prefix| prefix.starts_with(start.as_str()))
                }
                _ => false,
            })
        }
        _ => false,
    }
}
