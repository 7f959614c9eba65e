//! Lowered values.

use std::sync::Arc;

use super::truth::Truth;
use crate::expression::Constant;
use crate::predicate::{Array, Int, Predicate, Text};

/// Number of bytes that are copied or searched in one step.
pub(super) const BYTES_PER_STEP: u64 = 256;
/// A copy of an element is kept for both sides of a test. The cost is memory rather than time.
pub(super) const STEPS_PER_COPY: u64 = 3;
/// Cost of a list in addition to its elements.
pub(super) const LIST_STEPS: u64 = 2;

/// A value, as far as it is known without the span.
#[derive(Debug, Clone)]
pub(crate) enum LoweredValue {
    /// An error on every span.
    Error,
    /// A constant on every span.
    Constant(Constant),
    Bool(Truth),
    Text {
        defined: Predicate,
        text: Text,
    },
    Int {
        defined: Predicate,
        int: Int,
    },
    Array {
        defined: Predicate,
        array: Array,
    },
    /// A list with at least one element that depends on the span. Defined where all elements are defined.
    List(Vec<LoweredValue>),
    /// One of two values, selected by a condition. Operations are applied to both.
    Choice {
        condition: Truth,
        yes: Box<LoweredValue>,
        no: Box<LoweredValue>,
    },
}

impl From<Truth> for LoweredValue {
    fn from(truth: Truth) -> Self {
        match (&truth.is_true, &truth.is_false) {
            (Predicate::True, Predicate::False) => Self::Constant(Constant::Bool(true)),
            (Predicate::False, Predicate::True) => Self::Constant(Constant::Bool(false)),
            (Predicate::False, Predicate::False) => Self::Error,
            _ => Self::Bool(truth),
        }
    }
}

impl LoweredValue {
    pub(crate) fn constant_text(text: &str) -> Self {
        Self::Constant(Constant::Text(text.to_owned()))
    }

    pub(crate) fn constant_texts<'a>(texts: impl Iterator<Item = &'a String>) -> Self {
        Self::Constant(Constant::List(Arc::new(texts.cloned().map(Constant::Text).collect())))
    }

    pub(crate) fn list(elements: Vec<Self>) -> Self {
        let mut known = Vec::with_capacity(elements.len());
        for element in &elements {
            match element {
                Self::Error => return Self::Error,
                Self::Constant(value) => known.push(value.clone()),
                _ => {}
            }
        }
        if known.len() == elements.len() {
            Self::Constant(Constant::List(Arc::new(known)))
        } else {
            Self::List(elements)
        }
    }

    pub(crate) fn choice(condition: Truth, yes: Self, no: Self) -> Self {
        match Self::from(condition) {
            Self::Constant(Constant::Bool(true)) => yes,
            Self::Constant(Constant::Bool(false)) => no,
            Self::Bool(condition) => Self::Choice { condition, yes: Box::new(yes), no: Box::new(no) },
            _ => Self::Error,
        }
    }

    /// Cost of [`LoweredValue::as_elements`] and of splitting the elements.
    pub(super) fn copy_steps(&self) -> u64 {
        match self {
            Self::Constant(Constant::List(list)) => STEPS_PER_COPY.saturating_mul(list.len() as u64),
            Self::List(_) => self.weight().saturating_mul(2),
            _ => 0,
        }
    }

    pub(super) fn size_steps(&self) -> u64 {
        match self {
            Self::Constant(Constant::Text(text)) => 1 + text.len() as u64 / BYTES_PER_STEP,
            _ => 1,
        }
    }

    pub(super) fn as_text(&self) -> Option<(Predicate, Text)> {
        match self {
            Self::Constant(Constant::Text(text)) => Some((Predicate::True, Text::Literal(text.clone()))),
            Self::Text { defined, text } => Some((defined.clone(), text.clone())),
            _ => None,
        }
    }

    pub(super) fn as_int(&self) -> Option<(Predicate, Int)> {
        match self {
            Self::Constant(Constant::Int(int)) => Some((Predicate::True, Int::Literal(*int))),
            Self::Int { defined, int } => Some((defined.clone(), int.clone())),
            _ => None,
        }
    }

    pub(super) fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Constant(Constant::Bool(_)))
    }

    /// Returns the elements of a list that is not an array of the span.
    pub(super) fn as_elements(&self) -> Option<Vec<Self>> {
        match self {
            Self::Constant(Constant::List(elements)) => {
                Some(elements.iter().cloned().map(Self::Constant).collect())
            }
            Self::List(elements) => Some(elements.clone()),
            _ => None,
        }
    }

    /// Cost of copying the value.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::Constant(Constant::Text(text)) => 1 + text.len() as u64 / BYTES_PER_STEP,
            Self::List(elements) => elements.iter().map(Self::weight).fold(LIST_STEPS, u64::saturating_add),
            Self::Choice { yes, no, .. } => yes.weight().saturating_add(no.weight()).saturating_add(1),
            _ => 1,
        }
    }

    /// Number of combinations to expand for a comparison with an array: lists of choices multiply.
    pub(crate) fn combinations(&self) -> u64 {
        match self {
            Self::List(elements) => elements.iter().map(Self::combinations).fold(1, u64::saturating_mul),
            Self::Choice { yes, no, .. } => yes.combinations().saturating_add(no.combinations()),
            _ => 1,
        }
    }

    pub(crate) fn contains_array(&self) -> bool {
        match self {
            Self::Array { .. } => true,
            Self::List(elements) => elements.iter().any(Self::contains_array),
            Self::Choice { yes, no, .. } => yes.contains_array() || no.contains_array(),
            _ => false,
        }
    }
}
