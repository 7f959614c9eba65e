//! Operations on lowered values: selects the rule to apply, and folds constants.

use std::cmp::Ordering;
use std::sync::Arc;

use tracewarden_model::{LogicalType, MarkedField};

use super::rules::Rules;
use super::truth::Truth;
use super::values::{BYTES_PER_STEP, LoweredValue};
use super::work::LoweringContext;
use crate::expression::Constant;
use crate::pattern::Pattern;
use crate::predicate::{Array, Atom, Int, Predicate, Relation, Text, TextFunction};

/// Number of elements of a known list that are compared in one step.
const ELEMENTS_PER_STEP: u64 = 4;

/// Returns the value of a field, defined where it has its logical type.
pub(crate) fn field_value(rules: &Rules, field: &Arc<MarkedField>) -> LoweredValue {
    let defined = (rules.field_defined)(field);
    let field = Arc::clone(field);
    match field.logical {
        LogicalType::String => LoweredValue::Text { defined, text: Text::Field(field) },
        LogicalType::StringArray => LoweredValue::Array { defined, array: Array::Field(field) },
        LogicalType::Boolean => {
            LoweredValue::from((rules.boolean_field)(defined, Predicate::atom(Atom::Flag(field))))
        }
        // The checker rejects numbers. If one gets here, it must not grant access.
        LogicalType::Number => LoweredValue::Error,
    }
}

impl LoweredValue {
    /// Converts to a condition. A value that is not a boolean is an error, which `&&` and `||` absorb like any other.
    pub(crate) fn truth(&self, rules: &LoweringContext<'_>) -> Truth {
        match self {
            _ if !rules.step(1) => Truth::ERROR,
            Self::Constant(Constant::Bool(value)) => Truth::known(*value),
            Self::Bool(truth) => truth.clone(),
            Self::Choice { condition, yes, no } => {
                (rules.conditional)(condition, yes.truth(rules), no.truth(rules))
            }
            _ => Truth::ERROR,
        }
    }

    /// Returns where the value is not an error.
    pub(crate) fn defined(&self, rules: &LoweringContext<'_>) -> Predicate {
        match self {
            _ if !rules.step(1) => Predicate::False,
            Self::Error => Predicate::False,
            Self::Constant(_) => Predicate::True,
            Self::Bool(truth) => (rules.boolean_defined)(truth),
            Self::Text { defined, .. } | Self::Int { defined, .. } | Self::Array { defined, .. } => {
                defined.clone()
            }
            Self::List(elements) => {
                (rules.list_defined)(elements.iter().map(|element| element.defined(rules)).collect())
            }
            Self::Choice { condition, yes, no } => {
                (rules.conditional_defined)(condition, yes.defined(rules), no.defined(rules))
            }
        }
    }

    /// Applies `operation`; if a side is a choice, to each of its branches.
    fn distribute(
        &self,
        rules: &LoweringContext<'_>,
        other: &Self,
        operation: &dyn Fn(&Self, &Self) -> Truth,
    ) -> Truth {
        let (condition, yes, no) = match (self, other) {
            _ if !rules.step(1) => return Truth::ERROR,
            (Self::Choice { condition, yes, no }, _) => {
                (condition, yes.distribute(rules, other, operation), no.distribute(rules, other, operation))
            }
            (_, Self::Choice { condition, yes, no }) => {
                (condition, self.distribute(rules, yes, operation), self.distribute(rules, no, operation))
            }
            _ => return operation(self, other),
        };
        (rules.conditional)(condition, yes, no)
    }

    pub(crate) fn compare(&self, rules: &LoweringContext<'_>, relation: Relation, other: &Self) -> Truth {
        self.distribute(rules, other, &|left, right| match relation {
            Relation::Eq => left.equals(rules, right),
            Relation::Ne => (rules.unequal)(left.equals(rules, right)),
            _ => left.ordered(rules, relation, right),
        })
    }

    fn equals(&self, rules: &LoweringContext<'_>, other: &Self) -> Truth {
        if let (Self::Constant(left), Self::Constant(right)) = (self, other) {
            if !rules.step(compare_steps(left).min(compare_steps(right))) {
                return Truth::ERROR;
            }
            return Truth::known(left == right);
        }
        let defined = (rules.both_defined)(self.defined(rules), other.defined(rules));
        if matches!(defined, Predicate::False) {
            return Truth::ERROR;
        }
        if let (Some((_, left)), Some((_, right))) = (self.as_text(), other.as_text()) {
            return (rules.equal_texts)(defined, left, right);
        }
        if let (Some((_, left)), Some((_, right))) = (self.as_int(), other.as_int()) {
            return (rules.equal_integers)(defined, left, right);
        }
        if self.is_boolean() && other.is_boolean() {
            return (rules.equal_booleans)(self.truth(rules), other.truth(rules));
        }
        self.equals_as_list(rules, other, &defined)
    }

    /// Compares for equality where a side may be a list or an array.
    fn equals_as_list(&self, rules: &LoweringContext<'_>, other: &Self, defined: &Predicate) -> Truth {
        // The elements of lists are copied; for lists with choices, once for each branch.
        if !rules.step(self.copy_steps().saturating_add(other.copy_steps())) {
            return Truth::ERROR;
        }
        match (self, other) {
            (Self::Array { array: left, .. }, Self::Array { array: right, .. }) => {
                (rules.equal_arrays)(defined.clone(), left.clone(), right.clone())
            }
            (whole @ Self::Array { array, .. }, list) | (list, whole @ Self::Array { array, .. }) => {
                let Some(elements) = list.as_elements() else {
                    return (rules.different_types)(defined.clone());
                };
                if let Some((condition, yes, no)) = split_first_choice(&elements) {
                    let either = |elements| whole.equals_as_list(rules, &Self::List(elements), defined);
                    return (rules.conditional)(&condition, either(yes), either(no));
                }
                let texts: Option<Vec<Text>> =
                    elements.iter().map(|element| element.as_text().map(|(_, text)| text)).collect();
                match texts {
                    Some(texts) => (rules.equal_arrays)(defined.clone(), array.clone(), Array::List(texts)),
                    None => (rules.different_types)(defined.clone()),
                }
            }
            _ => match (self.as_elements(), other.as_elements()) {
                (Some(left), Some(right)) if left.len() == right.len() => {
                    let pairs = left.iter().zip(&right);
                    let pairs = pairs.map(|(left, right)| left.compare(rules, Relation::Eq, right)).collect();
                    (rules.equal_lists)(defined.clone(), pairs)
                }
                _ => (rules.different_types)(defined.clone()),
            },
        }
    }

    fn ordered(&self, rules: &LoweringContext<'_>, relation: Relation, other: &Self) -> Truth {
        if let (Self::Constant(left), Self::Constant(right)) = (self, other) {
            if !rules.step(compare_steps(left).min(compare_steps(right))) {
                return Truth::ERROR;
            }
            return match constant_order(left, right) {
                Some(ordering) => Truth::known(relation.holds(ordering)),
                None => Truth::ERROR,
            };
        }
        if let (Some((left_defined, left)), Some((right_defined, right))) = (self.as_text(), other.as_text())
        {
            let defined =
                (rules.both_defined)((rules.utf8)(left_defined, &left), (rules.utf8)(right_defined, &right));
            return (rules.ordered_texts)(defined, relation, left, right);
        }
        if let (Some((left_defined, left)), Some((right_defined, right))) = (self.as_int(), other.as_int()) {
            let defined = (rules.both_defined)(left_defined, right_defined);
            return (rules.ordered_integers)(defined, relation, left, right);
        }
        if self.is_boolean() && other.is_boolean() {
            return (rules.ordered_booleans)(relation, &self.truth(rules), &other.truth(rules));
        }
        Truth::ERROR
    }

    pub(crate) fn is_in(&self, rules: &LoweringContext<'_>, haystack: &Self) -> Truth {
        self.distribute(rules, haystack, &|needle, haystack| needle.is_element(rules, haystack))
    }

    fn is_element(&self, rules: &LoweringContext<'_>, haystack: &Self) -> Truth {
        if let Self::Array { defined, array } = haystack {
            return match self.as_text() {
                Some((needle_defined, needle)) => {
                    let defined = (rules.both_defined)(needle_defined, defined.clone());
                    (rules.in_array)(defined, array.clone(), needle)
                }
                None => (rules.different_types)((rules.both_defined)(self.defined(rules), defined.clone())),
            };
        }
        if let (Self::Constant(needle), Self::Constant(list @ Constant::List(elements))) = (self, haystack) {
            if !rules.step(compare_steps(list)) {
                return Truth::ERROR;
            }
            return Truth::known(elements.contains(needle));
        }
        if !rules.step(haystack.copy_steps()) {
            return Truth::ERROR;
        }
        if let (Self::Text { defined, text }, Self::Constant(Constant::List(elements))) = (self, haystack) {
            let texts = elements.iter().filter_map(|element| match element {
                Constant::Text(text) => Some(text.clone()),
                _ => None,
            });
            return (rules.in_texts)(defined.clone(), text.clone(), texts.collect());
        }
        let Some(elements) = haystack.as_elements() else { return Truth::ERROR };
        let defined = (rules.both_defined)(self.defined(rules), haystack.defined(rules));
        let equal = elements.iter().map(|element| self.compare(rules, Relation::Eq, element)).collect();
        (rules.in_list)(defined, equal)
    }

    pub(crate) fn text_call(
        &self,
        rules: &LoweringContext<'_>,
        function: TextFunction,
        argument: &Self,
    ) -> Truth {
        self.distribute(rules, argument, &|subject, argument| {
            if let (Self::Constant(Constant::Text(subject)), Self::Constant(Constant::Text(argument))) =
                (subject, argument)
            {
                if !rules.step(1 + (subject.len() + argument.len()) as u64 / BYTES_PER_STEP) {
                    return Truth::ERROR;
                }
                return Truth::known(function.holds(subject, argument));
            }
            match (subject.as_text(), argument.as_text()) {
                (Some((subject_defined, subject)), Some((argument_defined, argument))) => {
                    let defined = (rules.both_defined)(subject_defined, argument_defined);
                    (rules.text_call)(defined, function, subject, argument)
                }
                _ => Truth::ERROR,
            }
        })
    }

    pub(crate) fn matches(&self, rules: &LoweringContext<'_>, pattern: &Arc<Pattern>) -> Truth {
        // ClickHouse also matches known strings, so that the same engine is used for all strings.
        self.distribute(rules, &Self::Error, &|subject, _| match subject.as_text() {
            Some((defined, text)) => (rules.matches)((rules.utf8)(defined, &text), text, pattern),
            None => Truth::ERROR,
        })
    }

    pub(crate) fn size(&self, rules: &LoweringContext<'_>) -> Self {
        match self {
            _ if !rules.step(self.size_steps()) => Self::Error,
            Self::Constant(Constant::Text(text)) => {
                Self::Constant(Constant::Int(count(text.chars().count())))
            }
            Self::Constant(Constant::List(list)) => Self::Constant(Constant::Int(count(list.len()))),
            // Its length is known, but not whether it is defined.
            Self::List(list) => match self.defined(rules) {
                Predicate::True => Self::Constant(Constant::Int(count(list.len()))),
                defined => Self::Int { defined, int: Int::Literal(count(list.len())) },
            },
            Self::Text { defined, text } => {
                Self::Int { defined: (rules.utf8)(defined.clone(), text), int: Int::TextSize(text.clone()) }
            }
            Self::Array { defined, array } => {
                Self::Int { defined: defined.clone(), int: Int::ArraySize(array.clone()) }
            }
            Self::Choice { condition, yes, no } => {
                Self::choice(condition.clone(), yes.size(rules), no.size(rules))
            }
            _ => Self::Error,
        }
    }
}

/// Cost of comparing a whole value with another.
fn compare_steps(known: &Constant) -> u64 {
    match known {
        Constant::Text(text) => 1 + text.len() as u64 / BYTES_PER_STEP,
        Constant::List(list) => 1 + list.len() as u64 / ELEMENTS_PER_STEP,
        _ => 1,
    }
}

fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Splits a list at its first choice into the list for each branch.
fn split_first_choice(elements: &[LoweredValue]) -> Option<(Truth, Vec<LoweredValue>, Vec<LoweredValue>)> {
    let at = elements.iter().position(|element| matches!(element, LoweredValue::Choice { .. }))?;
    let Some(LoweredValue::Choice { condition, yes, no }) = elements.get(at) else { return None };
    let with = |branch: &LoweredValue| {
        let mut list = elements.to_vec();
        if let Some(slot) = list.get_mut(at) {
            *slot = branch.clone();
        }
        list
    };
    Some((condition.clone(), with(yes), with(no)))
}

fn constant_order(left: &Constant, right: &Constant) -> Option<Ordering> {
    match (left, right) {
        (Constant::Text(left), Constant::Text(right)) => Some(left.cmp(right)),
        (Constant::Int(left), Constant::Int(right)) => Some(left.cmp(right)),
        (Constant::Bool(left), Constant::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::RULES;
    use super::super::values::{LIST_STEPS, STEPS_PER_COPY};
    use super::*;
    use crate::predicate::work::{Budget, charge};

    fn text(bytes: u64) -> LoweredValue {
        LoweredValue::constant_text(&"a".repeat(bytes as usize))
    }

    fn either(yes: LoweredValue, no: LoweredValue) -> LoweredValue {
        let condition = Predicate::atom(Atom::Utf8(Text::Element(0)));
        let condition = Truth { is_true: condition.clone(), is_false: condition.negate() };
        LoweredValue::Choice { condition, yes: Box::new(yes), no: Box::new(no) }
    }

    fn array() -> LoweredValue {
        LoweredValue::Array { defined: Predicate::True, array: Array::List(Vec::new()) }
    }

    fn texts(count: usize) -> LoweredValue {
        LoweredValue::constant_texts(vec![String::new(); count].iter())
    }

    #[test]
    fn long_values_cost_more() {
        let long = || text(2 * BYTES_PER_STEP);
        assert_eq!(
            [text(BYTES_PER_STEP - 1).weight(), text(BYTES_PER_STEP).weight(), long().weight()],
            [1, 2, 3]
        );
        assert_eq!(LoweredValue::List(vec![long(), long(), text(0)]).weight(), LIST_STEPS + 3 + 3 + 1);
        assert_eq!(either(long(), text(0)).weight(), 3 + 1 + 1);
        assert_eq!(array().weight(), 1);
        assert_eq!(texts(5).copy_steps(), 5 * STEPS_PER_COPY);
        assert_eq!(LoweredValue::List(vec![long()]).copy_steps(), 2 * (LIST_STEPS + 3));
        assert_eq!([long().size_steps(), array().size_steps()], [3, 1]);
        let steps = |lowered| match lowered {
            LoweredValue::Constant(known) => compare_steps(&known),
            other => panic!("{other:?} is not known"),
        };
        assert_eq!([steps(long()), steps(texts(2 * ELEMENTS_PER_STEP as usize))], [3, 3]);
        let budget = Budget::of(u64::MAX);
        long().text_call(
            &LoweringContext::new(&RULES, &budget),
            TextFunction::Contains,
            &text(BYTES_PER_STEP),
        );
        assert_eq!(budget.done(), 1 + 1 + 2 + 1);
    }

    #[test]
    fn choices_within_lists_multiply() {
        let two = || either(text(0), array());
        assert_eq!(LoweredValue::List(vec![two(), two(), text(0), two()]).combinations(), 8);
        assert_eq!(either(two(), text(0)).combinations(), 3);
        for (lowered, holds) in [
            (array(), true),
            (LoweredValue::List(vec![text(0), array()]), true),
            (either(array(), text(0)), true),
            (either(text(0), array()), true),
            (either(text(0), text(0)), false),
            (texts(1), false),
        ] {
            assert_eq!(lowered.contains_array(), holds, "{lowered:?}");
        }
    }

    /// After the budget is spent, operations do no more work, and their results are on neither side.
    #[test]
    fn nothing_is_true_once_the_budget_is_spent() {
        let pattern = Arc::new(Pattern::parse("").unwrap());
        let some = LoweredValue::Text { defined: Predicate::True, text: Text::Element(0) };
        let budget = Budget::of(1_000_000);
        let work = LoweringContext::new(&RULES, &budget);
        for spent in [false, true] {
            let truths = [
                text(0).compare(&work, Relation::Eq, &text(0)),
                text(0).compare(&work, Relation::Le, &text(0)),
                text(0).is_in(&work, &texts(1)),
                text(0).text_call(&work, TextFunction::Contains, &text(0)),
                some.matches(&work, &pattern),
                LoweredValue::Constant(Constant::Bool(true)).truth(&work),
            ];
            for (at, truth) in truths.into_iter().enumerate() {
                assert_eq!(matches!(truth.is_true, Predicate::False), spent, "{at}: {truth:?}");
            }
            assert_eq!(matches!(text(0).defined(&work), Predicate::False), spent);
            assert_eq!(matches!(text(0).size(&work), LoweredValue::Error), spent);
            charge(1_000_000);
        }
    }
}
