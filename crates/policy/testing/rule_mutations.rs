//! Altered rules for mutation tests: common mistakes in a table like this one, one at a time. A test that compares the
//! lowering with the reference evaluator must detect each of them. Otherwise it would not detect the same mistake in
//! the real rules.

use crate::expression::Constant;
use crate::lower::rules::{self, Elements, RULES, Rules};
use crate::lower::{LoweredValue, Truth, fields};
use crate::predicate::{Atom, Predicate, Quantifier, Relation};

macro_rules! rule_mutations {
    ($($(#[$doc:meta])* $name:ident: $rule:ident = $wrong:expr;)*) => {
        /// An altered rule. `T` is where the operation is true, `F` where it is false, `D` where its operands are
        /// defined.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RuleMutation {
            $($(#[$doc])* $name,)*
        }

        impl RuleMutation {
            /// All alterations.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the rules with this alteration.
            pub(crate) fn rules(self) -> Rules {
                match self {
                    $(Self::$name => Rules { $rule: $wrong, ..RULES },)*
                }
            }
        }

        /// Names of the altered rules, with repetitions.
        #[cfg(test)]
        const MUTATED_RULES: &[&str] = &[$(stringify!($rule)),*];
    };
}

/// A rule with the side that the function chooses computed without `D`.
macro_rules! without_defined {
    ($side:ident, $rule:ident($($operand:ident),*)) => {
        |defined, $($operand),*| $side(defined, |defined| (RULES.$rule)(defined, $($operand.clone()),*))
    };
}

rule_mutations! {
    /// `!a`: T is "not true", which treats errors as false.
    NotTrueOfErrors: not = |a| Truth { is_true: a.is_true.clone().negate(), is_false: a.is_true };
    /// `!a`: F is "not false".
    NotFalseOfErrors: not = |a| Truth { is_true: a.is_false.clone(), is_false: a.is_false.negate() };
    /// `a && b`: T needs only one of both.
    AndTrueOfOne: and = |a, b| Truth { is_true: a.is_true.or(b.is_true), is_false: a.is_false.or(b.is_false) };
    /// `a && b`: F needs both.
    AndFalseOfBoth: and =
        |a, b| Truth { is_true: a.is_true.and(b.is_true), is_false: a.is_false.and(b.is_false) };
    /// `a && b`: F is the complement of T.
    AndFalseOfErrors: and = |a, b| complement((RULES.and)(a, b));
    /// `a || b`: T needs both.
    OrTrueOfBoth: or = |a, b| Truth { is_true: a.is_true.and(b.is_true), is_false: a.is_false.and(b.is_false) };
    /// `a || b`: F needs only one of both.
    OrFalseOfOne: or = |a, b| Truth { is_true: a.is_true.or(b.is_true), is_false: a.is_false.or(b.is_false) };
    /// `a || b`: F is the complement of T.
    OrFalseOfErrors: or = |a, b| complement((RULES.or)(a, b));
    /// `c ? a : b`: an error of `c` selects `b`.
    ConditionalErrorTakesElse: conditional = |c, a, b| {
        let error_as_false = Truth { is_true: c.is_true.clone(), is_false: c.is_true.clone().negate() };
        (RULES.conditional)(&error_as_false, a, b)
    };
    /// `c ? a : b`: F is the complement of T.
    ConditionalFalseOfErrors: conditional = |c, a, b| complement((RULES.conditional)(c, a, b));
    /// `c ? a : b`: the branches are swapped for F.
    ConditionalFalseSwapped: conditional = |c, a, b| Truth {
        is_false: (RULES.conditional)(c, b.clone(), a.clone()).is_false,
        is_true: (RULES.conditional)(c, a, b).is_true,
    };
    /// A conditional in a list: it needs both branches.
    ConditionalNeedsBothBranches: conditional_defined = |c, a, b| c.not_error().and(a).and(b);
    /// A boolean in a list or a comparison: defined only where it is true.
    BooleanDefinedWhereTrue: boolean_defined = |a| a.is_true.clone();
    /// An operation on two values: defined where the left one is.
    DefinedByLeft: both_defined = |a, _| a;
    /// An operation on two values: defined where the right one is.
    DefinedByRight: both_defined = |_, b| b;
    /// An operation on two values: defined where one of them is.
    DefinedByEither: both_defined = |a, b| a.or(b);
    /// A list: defined where one of its elements is.
    ListDefinedByOne: list_defined = Predicate::any;
    /// A list: always defined.
    ListAlwaysDefined: list_defined = |_| Predicate::True;
    /// Order, patterns and sizes: also defined for strings that are not UTF-8.
    InvalidUtf8IsText: utf8 = |defined, _| defined;
    /// A field has a value on every span.
    FieldAlwaysDefined: field_defined = |_| Predicate::True;
    /// A field has a value wherever it is present, regardless of its type.
    FieldDefinedWherePresent: field_defined = fields::present;
    /// A field is present only where it has a value of its type.
    FieldPresentWhereDefined: field_present = fields::defined;
    /// An attribute that the caller lacks is an empty string.
    AbsentAttributeIsEmpty: absent_attribute = || LoweredValue::constant_text("");
    /// An attribute that the caller lacks is false.
    AbsentAttributeIsFalse: absent_attribute = || LoweredValue::Constant(Constant::Bool(false));
    /// A boolean field: F without D. (T without D would not be detectable: a value that is not a boolean is not
    /// `true`.)
    BooleanFieldFalseUndefined: boolean_field = |defined, value| Truth {
        is_true: defined.and(value.clone()),
        is_false: value.negate(),
    };
    /// A boolean field: T and F swapped.
    BooleanFieldSwapped: boolean_field = |defined, value| (RULES.not)((RULES.boolean_field)(defined, value));
    /// `"k" in m`: an error where the key is absent.
    AbsentKeyIsError: has_key = |present| Truth { is_true: present, is_false: Predicate::False };
    /// `"k" in m`: always true.
    KeyAlwaysPresent: has_key = |_| Truth::known(true);
    /// `==` of values of different types: an error.
    DifferentTypesIsError: different_types = |_| Truth::ERROR;
    /// `==` of values of different types: F without D.
    DifferentTypesUndefined: different_types = |_| Truth::known(false);
    /// `!=`: T is the complement of the T of `==`.
    UnequalTrueOfErrors: unequal = |equal| Truth { is_true: equal.is_true.clone().negate(), is_false: equal.is_true };
    /// `!=`: F is the complement of the F of `==`.
    UnequalFalseOfErrors: unequal =
        |equal| Truth { is_true: equal.is_false.clone(), is_false: equal.is_false.negate() };
    /// `==` of strings: T without D.
    EqualTextsTrueUndefined: equal_texts = without_defined!(true_where_undefined, equal_texts(a, b));
    /// `==` of strings: F without D.
    EqualTextsFalseUndefined: equal_texts = without_defined!(false_where_undefined, equal_texts(a, b));
    /// `==` of integers: T without D.
    EqualIntegersTrueUndefined: equal_integers = without_defined!(true_where_undefined, equal_integers(a, b));
    /// `==` of integers: F without D.
    EqualIntegersFalseUndefined: equal_integers = without_defined!(false_where_undefined, equal_integers(a, b));
    /// `==` of booleans: T only where both are true.
    EqualBooleansBothTrue: equal_booleans = |a, b| Truth {
        is_true: a.is_true.clone().and(b.is_true.clone()),
        is_false: (RULES.equal_booleans)(a, b).is_false,
    };
    /// `==` of booleans: F is the complement of T.
    EqualBooleansFalseOfErrors: equal_booleans = |a, b| complement((RULES.equal_booleans)(a, b));
    /// `==` of arrays: T without D.
    EqualArraysTrueUndefined: equal_arrays = without_defined!(true_where_undefined, equal_arrays(a, b));
    /// `==` of arrays: F without D.
    EqualArraysFalseUndefined: equal_arrays = without_defined!(false_where_undefined, equal_arrays(a, b));
    /// `==` of lists: T needs one pair.
    EqualListsOnePair: equal_lists = RULES.in_list;
    /// `==` of lists: without D, so that an unequal pair hides an error.
    EqualListsUndefined: equal_lists = |_, pairs| rules::every(pairs);
    /// Order of strings: T without D.
    OrderedTextsTrueUndefined: ordered_texts = without_defined!(true_where_undefined, ordered_texts(relation, a, b));
    /// Order of strings: F without D.
    OrderedTextsFalseUndefined: ordered_texts = without_defined!(false_where_undefined, ordered_texts(relation, a, b));
    /// Order of strings: F is the reversed relation, which excludes equal strings.
    OrderedTextsFalseReversed: ordered_texts = |defined, relation, a, b| Truth {
        is_true: Predicate::atom(Atom::CompareText(relation, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareText(reversed(relation), a, b)),
    }
    .where_defined(&defined);
    /// Order of integers: T without D.
    OrderedIntegersTrueUndefined: ordered_integers = without_defined!(true_where_undefined, ordered_integers(relation, a, b));
    /// Order of integers: F without D.
    OrderedIntegersFalseUndefined: ordered_integers = without_defined!(false_where_undefined, ordered_integers(relation, a, b));
    /// Order of integers: F is the reversed relation, which excludes equal integers.
    OrderedIntegersFalseReversed: ordered_integers = |defined, relation, a, b| Truth {
        is_true: Predicate::atom(Atom::CompareInt(relation, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareInt(reversed(relation), a, b)),
    }
    .where_defined(&defined);
    /// Order of booleans: true comes before false.
    OrderedBooleansReversed: ordered_booleans = |relation, a, b| (RULES.ordered_booleans)(relation, b, a);
    /// `in` known strings: T without D.
    InTextsTrueUndefined: in_texts = without_defined!(true_where_undefined, in_texts(needle, texts));
    /// `in` known strings: F without D.
    InTextsFalseUndefined: in_texts = without_defined!(false_where_undefined, in_texts(needle, texts));
    /// `in` a list: without D, so that an equal element hides an element that is an error.
    InListUndefined: in_list = |_, equal| rules::any(equal);
    /// `in` a list: T needs all.
    InListAll: in_list = RULES.equal_lists;
    /// `in` an array: T without D.
    InArrayTrueUndefined: in_array = without_defined!(true_where_undefined, in_array(array, needle));
    /// `in` an array: F without D.
    InArrayFalseUndefined: in_array = without_defined!(false_where_undefined, in_array(array, needle));
    /// `startsWith` and the like: T without D.
    TextCallTrueUndefined: text_call = without_defined!(true_where_undefined, text_call(function, a, b));
    /// `startsWith` and the like: F without D.
    TextCallFalseUndefined: text_call = without_defined!(false_where_undefined, text_call(function, a, b));
    /// `matches`: T without D.
    MatchesTrueUndefined: matches = |defined, text, pattern| {
        true_where_undefined(defined, |defined| (RULES.matches)(defined, text.clone(), pattern))
    };
    /// `matches`: F without D.
    MatchesFalseUndefined: matches = |defined, text, pattern| {
        false_where_undefined(defined, |defined| (RULES.matches)(defined, text.clone(), pattern))
    };
    /// `exists` over an array: T without D.
    ExistsTrueUndefined: exists =
        |defined, elements, body| true_where_undefined(defined, |defined| (RULES.exists)(defined, elements, body.clone()));
    /// `exists` over an array: F needs one false element.
    ExistsFalseOfOne: exists = |defined, elements, body| Truth {
        is_true: elements.satisfy(Quantifier::Exists, body.is_true),
        is_false: elements.satisfy(Quantifier::Exists, body.is_false),
    }
    .where_defined(&defined);
    /// `exists` over an array: F is the complement of T where the array is defined.
    ExistsFalseOfErrors: exists =
        |defined, elements, body| complement((RULES.exists)(Predicate::True, elements, body)).where_defined(&defined);
    /// `exists` over an array: F without D, which is true of the empty array that an absent key gives.
    ExistsFalseUndefined: exists =
        |defined, elements, body| false_where_undefined(defined, |defined| (RULES.exists)(defined, elements, body.clone()));
    /// `all` over an array: T needs one true element.
    AllTrueOfOne: all = |defined, elements, body| Truth {
        is_true: elements.satisfy(Quantifier::Exists, body.is_true),
        is_false: elements.satisfy(Quantifier::Exists, body.is_false),
    }
    .where_defined(&defined);
    /// `all` over an array: T is "none is false".
    AllTrueOfErrors: all = |defined, elements, body| {
        let found = elements.satisfy(Quantifier::Exists, body.is_false);
        Truth { is_true: found.clone().negate(), is_false: found }.where_defined(&defined)
    };
    /// `all` over an array: F without D.
    AllFalseUndefined: all =
        |defined, elements, body| false_where_undefined(defined, |defined| (RULES.all)(defined, elements, body.clone()));
    /// `all` over an array: T without D.
    AllTrueUndefined: all =
        |defined, elements, body| true_where_undefined(defined, |defined| (RULES.all)(defined, elements, body.clone()));
    /// `exists_one` over an array: elements that are errors are ignored.
    ExistsOneOfErrors: exists_one = |defined, elements, body| {
        let one = elements.satisfy(Quantifier::ExistsOne, body.is_true);
        Truth::of(one).where_defined(&defined)
    };
    /// `exists_one` over an array: T needs one or more.
    ExistsOneOfMany: exists_one = |defined, elements: &Elements, body| {
        let not_error = elements.satisfy(Quantifier::All, body.not_error());
        let some = elements.satisfy(Quantifier::Exists, body.is_true);
        Truth::of(some).where_defined(&defined.and(not_error))
    };
    /// `exists_one` over an array: without D.
    ExistsOneUndefined: exists_one = |_, elements, body| (RULES.exists_one)(Predicate::True, elements, body);
    /// `exists` over a list: F needs one false element.
    ListExistsFalseOfOne: list_exists = |defined, bodies| Truth {
        is_true: Predicate::any(bodies.iter().map(|body| body.is_true.clone())),
        is_false: Predicate::any(bodies.into_iter().map(|body| body.is_false)),
    }
    .where_defined(&defined);
    /// `exists` over a list: without D.
    ListExistsUndefined: list_exists = |_, bodies| rules::any(bodies);
    /// `all` over a list: T needs one true element.
    ListAllTrueOfOne: list_all = |defined, bodies| Truth {
        is_true: Predicate::any(bodies.iter().map(|body| body.is_true.clone())),
        is_false: Predicate::any(bodies.into_iter().map(|body| body.is_false)),
    }
    .where_defined(&defined);
    /// `all` over a list: T is "none is false".
    ListAllTrueOfErrors: list_all = |defined, bodies| {
        let found = Predicate::any(bodies.into_iter().map(|body| body.is_false));
        Truth { is_true: found.clone().negate(), is_false: found }.where_defined(&defined)
    };
    /// `all` over a list: without D.
    ListAllUndefined: list_all = |_, bodies| rules::every(bodies);
    /// `exists_one` over a list: elements that are errors are ignored.
    ListExistsOneOfErrors: list_exists_one = |defined, bodies| {
        let one = Predicate::exactly_one(bodies.into_iter().map(|body| body.is_true));
        Truth::of(one).where_defined(&defined)
    };
    /// `exists_one` over a list: T needs one or more.
    ListExistsOneOfMany: list_exists_one = |defined, bodies| {
        let not_error = Predicate::all(bodies.iter().map(Truth::not_error));
        let some = Predicate::any(bodies.into_iter().map(|body| body.is_true));
        Truth::of(some).where_defined(&defined.and(not_error))
    };
    /// `exists_one` over a list: without D.
    ListExistsOneUndefined: list_exists_one = |_, bodies| (RULES.list_exists_one)(Predicate::True, bodies);
}

/// Replaces F by the complement of T.
fn complement(truth: Truth) -> Truth {
    Truth { is_false: truth.is_true.clone().negate(), is_true: truth.is_true }
}

/// Applies the rule with T without D.
fn true_where_undefined(defined: Predicate, rule: impl Fn(Predicate) -> Truth) -> Truth {
    Truth { is_true: rule(Predicate::True).is_true, is_false: rule(defined).is_false }
}

/// Applies the rule with F without D.
fn false_where_undefined(defined: Predicate, rule: impl Fn(Predicate) -> Truth) -> Truth {
    Truth { is_false: rule(Predicate::True).is_false, is_true: rule(defined).is_true }
}

fn reversed(relation: Relation) -> Relation {
    match relation {
        Relation::Lt => Relation::Gt,
        Relation::Le => Relation::Ge,
        Relation::Gt => Relation::Lt,
        Relation::Ge => Relation::Le,
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! names {
        ($($rule:ident)*) => {{
            // A rule that is missing here is a compile error.
            let Rules { $($rule: _),* } = RULES;
            [$(stringify!($rule)),*]
        }};
    }

    #[test]
    fn every_rule_has_a_mutation() {
        let names = names!(
            not and or conditional conditional_defined boolean_defined both_defined list_defined utf8 field_defined
            field_present absent_attribute boolean_field has_key different_types unequal equal_texts equal_integers
            equal_booleans equal_arrays equal_lists ordered_texts ordered_integers ordered_booleans in_texts in_list
            in_array text_call matches exists all exists_one list_exists list_all list_exists_one
        );
        for rule in names {
            assert!(MUTATED_RULES.contains(&rule), "nothing shows that a mistake in `{rule}` is noticed");
        }
    }
}
