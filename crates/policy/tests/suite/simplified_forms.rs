//! Tests the simplified form of each kind of predicate. `simplify.rs` tests with random predicates that simplified
//! ones are equivalent; a case missing here would only give a longer predicate.

use std::sync::Arc;

use crate::support::builders::{
    all, any, call, compared, defined, element, every, exactly_one_element, exists, flag, flags, has,
    has_all, has_any, is, is_not, literal, none_of, not, one, one_of, other_is, owned, present, quantified,
    starts, starts_any, tags, text,
};
use tracewarden_policy::predicate::{Array, Atom, Int, Quantifier, Relation, Text, TextFunction};
use tracewarden_policy::{Pattern, Predicate};

/// Each first predicate simplifies to the second.
#[track_caller]
fn assert_simplified<const N: usize>(cases: [(Predicate, Predicate); N]) {
    for (at, (predicate, expected)) in cases.into_iter().enumerate() {
        let simple = predicate.simplified();
        assert!(simple == expected, "case {at}: {predicate:#?}\nbecame {simple:#?}\nnot {expected:#?}");
    }
}

/// Each predicate is already simple.
#[track_caller]
fn assert_unchanged<const N: usize>(predicates: [Predicate; N]) {
    assert_simplified(predicates.map(|predicate| (predicate.clone(), predicate)));
}

#[test]
fn junctions_are_flat_and_hold_no_constants() {
    let [p, q, r] = flags(["p", "q", "r"]);
    let many = |count| (0..count).map(|number: u32| flag(&number.to_string()));
    for (made, expected) in [
        (all([all([p.clone(), q.clone()]), r.clone()]), all([p.clone(), q.clone(), r.clone()])),
        (any([p.clone(), any([q.clone(), r.clone()])]), any([p.clone(), q.clone(), r.clone()])),
        (all([p.clone(), p.clone()]), p.clone()),
        (any([p.clone(), Predicate::False, p.clone()]), p.clone()),
        (all([p.clone(), Predicate::True, q.clone()]), all([p.clone(), q.clone()])),
        (all([p.clone(), Predicate::False]), Predicate::False),
        (any([p.clone(), Predicate::True]), Predicate::True),
        (all([]), Predicate::True),
        (any([]), Predicate::False),
        (Predicate::any(many(15).chain([flag("14")])), Predicate::any(many(15))),
        (not(not(p.clone())), p.clone()),
    ] {
        assert_eq!(made, expected);
    }
    // Parts of a nested junction are not parts of the outer one.
    let parts = |predicate: Predicate| match predicate {
        Predicate::And(junction) | Predicate::Or(junction) => junction.parts().len(),
        _ => 1,
    };
    assert_eq!(parts(all([all([p.clone(), q.clone()]), r.clone()])), 3);
    assert_eq!(parts(all([any([p.clone(), q.clone()]), r.clone()])), 2);
    // With more than sixteen parts, duplicates are only removed by simplification.
    assert_eq!(parts(Predicate::any(many(16).chain([flag("15")]))), 17);
    assert_ne!(p, q);
    assert_ne!(is("a"), is("b"));
    assert_ne!(all([p.clone(), q.clone()]), any([p, q]));
}

#[test]
fn duplicates_are_removed() {
    let [p, q, r, s] = flags(["p", "q", "r", "s"]);
    let many = || (0..20).map(|number| flag(&number.to_string()));
    assert_simplified([
        (any([p.clone(), p.clone()]), p.clone()),
        (all([p.clone(), q.clone(), p.clone()]), all([p.clone(), q.clone()])),
        (Predicate::any(many().chain(many())), Predicate::any(many())),
        (Predicate::all(many().chain(many())), Predicate::all(many())),
        // The same parts in another order.
        (any([all([p.clone(), q.clone()]), all([q.clone(), p.clone()])]), all([p.clone(), q.clone()])),
        (
            any([not(all([p.clone(), q.clone()])), r.clone(), not(all([q.clone(), p.clone()]))]),
            any([not(all([p.clone(), q.clone()])), r.clone()]),
        ),
        // A part that becomes a disjunction is flattened.
        (
            any([r.clone(), one([all([p.clone(), not(p.clone())]), any([s.clone(), r.clone(), q.clone()])])]),
            any([r.clone(), s.clone(), q.clone()]),
        ),
        (
            all([r.clone(), one([all([p.clone(), not(p.clone())]), all([s.clone(), r.clone(), q.clone()])])]),
            all([r.clone(), s.clone(), q.clone()]),
        ),
    ]);
    assert_unchanged([
        any([p.clone(), q.clone()]),
        all([p.clone(), q.clone()]),
        any([all([p.clone(), q.clone()]), all([r, s])]),
        all([p, not(q)]),
    ]);
}

#[test]
fn a_part_and_its_negation_are_constant() {
    let [p, q, r] = flags(["p", "q", "r"]);
    let both = || all([p.clone(), q.clone()]);
    assert_simplified([
        (all([p.clone(), r.clone(), not(p.clone())]), Predicate::False),
        (any([p.clone(), r.clone(), not(p.clone())]), Predicate::True),
        (all([both(), r.clone(), not(p.clone())]), Predicate::False),
        (any([both(), r.clone(), not(both())]), Predicate::True),
        // Constants are removed.
        (all([any([p.clone(), not(p.clone())]), q.clone()]), q.clone()),
        (any([all([p.clone(), not(p.clone())]), q.clone()]), q.clone()),
        (all([any([p.clone(), not(p.clone())]), any([q.clone(), not(q.clone())])]), Predicate::True),
        (any([all([p.clone(), not(p.clone())]), all([q.clone(), not(q.clone())])]), Predicate::False),
        (not(any([p.clone(), not(p.clone())])), Predicate::False),
    ]);
    assert_unchanged([all([p.clone(), not(q.clone())]), any([p.clone(), not(q)]), not(p)]);
}

#[test]
fn implied_parts_are_removed() {
    let [p, q, r, s, t] = flags(["p", "q", "r", "s", "t"]);
    assert_simplified([
        (any([all([p.clone(), q.clone()]), s.clone(), p.clone()]), any([s.clone(), p.clone()])),
        (all([any([p.clone(), q.clone()]), s.clone(), p.clone()]), all([s.clone(), p.clone()])),
        (
            any([all([p.clone(), q.clone(), r.clone()]), all([q.clone(), p.clone()]), s.clone()]),
            any([all([q.clone(), p.clone()]), s.clone()]),
        ),
        (
            all([s.clone(), any([q.clone(), p.clone()]), any([p.clone(), q.clone(), r.clone()])]),
            all([s.clone(), any([q.clone(), p.clone()])]),
        ),
        (
            any([
                all([p.clone(), q.clone(), r.clone(), t.clone()]),
                all([q.clone(), p.clone(), r.clone()]),
                all([q.clone(), p.clone()]),
                s.clone(),
            ]),
            any([all([q.clone(), p.clone()]), s.clone()]),
        ),
        (
            any([
                all([p.clone(), q.clone(), r.clone(), t.clone(), flag("v")]),
                all([q.clone(), p.clone(), r.clone(), t.clone()]),
                s.clone(),
            ]),
            any([all([q.clone(), p.clone(), r.clone(), t.clone()]), s.clone()]),
        ),
    ]);
    // Regardless of the number of parts.
    let many = || (0..300).map(|number| flag(&number.to_string()));
    assert_simplified([(
        Predicate::any(many().chain([all([flag("0"), p.clone()])])),
        Predicate::any(many()),
    )]);
    // Neither contains the other.
    assert_unchanged([any([all([p.clone(), q.clone(), r.clone()]), all([p, s.clone()]), all([t, s, r])])]);
}

#[test]
fn presence_is_tested_once() {
    let [p, q] = flags(["p", "q"]);
    assert_simplified([
        (all([present(0), defined(0)]), defined(0)),
        (all([defined(0), p.clone(), present(0)]), all([defined(0), p.clone()])),
        (any([present(0), defined(0)]), present(0)),
        (any([all([defined(0), p.clone()]), q.clone(), present(0)]), any([q.clone(), present(0)])),
    ]);
    assert_unchanged([
        all([present(0), defined(1)]),
        any([present(0), defined(1)]),
        any([all([present(0), p.clone()]), q.clone(), defined(0)]),
        all([any([defined(0), p]), q, present(0)]),
    ]);
}

#[test]
fn common_parts_are_factored_out() {
    let [p, q, r, s, t] = flags(["p", "q", "r", "s", "t"]);
    assert_simplified([
        (
            any([all([p.clone(), q.clone()]), all([r.clone(), p.clone()])]),
            all([p.clone(), any([q.clone(), r.clone()])]),
        ),
        (
            all([any([p.clone(), q.clone()]), any([r.clone(), p.clone()])]),
            any([p.clone(), all([q.clone(), r.clone()])]),
        ),
        (
            any([
                all([p.clone(), q.clone(), r.clone()]),
                all([q.clone(), s.clone(), p.clone()]),
                all([t.clone(), q.clone(), p.clone()]),
            ]),
            all([p.clone(), q.clone(), any([r.clone(), s.clone(), t.clone()])]),
        ),
        (
            any([all([r.clone(), not(r.clone())]), all([p.clone(), q.clone()]), all([p.clone(), s.clone()])]),
            all([p.clone(), any([q.clone(), s.clone()])]),
        ),
        (
            all([any([r.clone(), not(r.clone())]), any([p.clone(), q.clone()]), any([p.clone(), s.clone()])]),
            any([p.clone(), all([q.clone(), s.clone()])]),
        ),
        // Simplifies the remaining parts again.
        (
            any([
                all([p.clone(), q.clone(), is("a")]),
                all([p.clone(), is("b"), r.clone()]),
                all([p.clone(), q.clone(), is("c")]),
            ]),
            all([p.clone(), any([all([q.clone(), one_of(&["a", "c"])]), all([is("b"), r.clone()])])]),
        ),
    ]);
    assert_unchanged([any([all([p.clone(), q.clone()]), all([p, r]), all([q, s])])]);
}

#[test]
fn alternatives_that_differ_in_one_test_are_merged() {
    let [p, q, s] = flags(["p", "q", "s"]);
    let starts_element = |value| element(TextFunction::StartsWith, value);
    assert_simplified([
        (
            any([all([p.clone(), is("a")]), s.clone(), all([p.clone(), is("b")])]),
            any([all([p.clone(), one_of(&["a", "b"])]), s.clone()]),
        ),
        (
            all([any([is_not("a"), p.clone()]), s.clone(), any([p.clone(), is_not("b")])]),
            all([any([p.clone(), none_of(&["a", "b"])]), s.clone()]),
        ),
        (
            any([
                all([p.clone(), q.clone(), has("a")]),
                s.clone(),
                all([has("b"), q.clone(), p.clone()]),
                all([q.clone(), has("c"), p.clone()]),
            ]),
            any([all([p.clone(), q.clone(), has_any(&["a", "b", "c"])]), s.clone()]),
        ),
        (
            any([
                all([exists(starts_element("a")), is("a")]),
                all([exists(starts_element("b")), is("b")]),
                all([exists(starts_element("b")), is("c")]),
                s.clone(),
            ]),
            any([
                all([exists(starts_element("a")), is("a")]),
                all([exists(starts_element("b")), one_of(&["b", "c"])]),
                s.clone(),
            ]),
        ),
        // Merges the largest group first.
        (
            any([
                all([is("x"), other_is("a")]),
                all([is("a"), other_is("y")]),
                all([is("x"), other_is("y")]),
                all([is("b"), other_is("y")]),
                s.clone(),
            ]),
            any([all([is("x"), other_is("a")]), all([other_is("y"), one_of(&["a", "x", "b"])]), s.clone()]),
        ),
        // A merged part is a new part, although it begins like the one that it replaces.
        (
            any([
                all([other_is("u"), is("a"), p.clone()]),
                all([other_is("u"), is("b"), p.clone()]),
                all([other_is("u"), is("c"), p.clone()]),
                all([other_is("v"), is("a"), p.clone()]),
                s.clone(),
            ]),
            any([
                all([other_is("u"), p.clone(), one_of(&["a", "b", "c"])]),
                all([other_is("v"), is("a"), p.clone()]),
                s.clone(),
            ]),
        ),
        // Merged parts can be merged again.
        (
            any([
                all([is("x"), other_is("a")]),
                all([is("x"), other_is("b")]),
                all([is("y"), other_is("b")]),
                all([is("y"), other_is("a")]),
                s.clone(),
            ]),
            any([
                all([one_of(&["x", "y"]), Predicate::atom(Atom::TextIn(text(1), owned(&["a", "b"]), false))]),
                s.clone(),
            ]),
        ),
    ]);
    assert_unchanged([
        any([all([p.clone(), is("a")]), s.clone(), all([q.clone(), is("b")])]),
        any([all([p.clone(), is("a")]), s.clone(), all([p.clone(), q, is("b")])]),
        any([all([p.clone(), is("a")]), s.clone(), all([p.clone(), other_is("b")])]),
        any([all([p.clone(), not(starts("a"))]), s, all([p, not(starts("b"))])]),
    ]);
}

#[test]
fn merging_does_not_depend_on_order() {
    let parts = [all([is("x"), other_is("a")]), all([is("x"), other_is("y")]), all([is("b"), other_is("y")])];
    let left = |order: [usize; 3]| {
        let Predicate::Or(written) = any(order.map(|at| parts[at].clone())).simplified() else { panic!() };
        assert_eq!(written.parts().len(), 2, "{written:?}");
        parts.iter().position(|part| written.parts().contains(part))
    };
    let first = left([0, 1, 2]);
    assert!(first == Some(0) || first == Some(2), "{first:?}");
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(left(order), first, "{order:?}");
    }
    // The order of listed values has no effect either.
    for listing in [one_of, none_of, starts_any, has_any, has_all] {
        assert_eq!(listing(&["a", "b"]), listing(&["b", "a"]));
        assert_ne!(listing(&["a", "b"]), listing(&["a", "c"]));
    }
    for other in [has_any(&["a"]), has_any(&["a", "a"]), has_all(&["a", "b"]), one_of(&["a", "b"])] {
        assert_ne!(has_any(&["a", "b"]), other);
    }
    assert_ne!(one_of(&["a", "b"]), none_of(&["b", "a"]));
    assert_ne!(starts_any(&["a", "b"]), one_of(&["b", "a"]));
    assert_simplified([(
        any([all([has_any(&["b", "a"]), is("x")]), has("a"), has("b")]),
        has_any(&["a", "b"]),
    )]);
}

#[test]
fn values_of_one_string_become_one_list() {
    let ([p, q], long) = (flags(["p", "q"]), "a".repeat(200));
    assert_simplified([
        (any([is("a"), p.clone(), is("b"), q.clone()]), any([one_of(&["a", "b"]), p.clone(), q.clone()])),
        (all([is_not("a"), p.clone(), is_not("b")]), all([none_of(&["a", "b"]), p.clone()])),
        (any([is("a"), one_of(&["b", "a", "c"])]), one_of(&["a", "b", "c"])),
        (any([is(&long), is("a")]), one_of(&[&long, "a"])),
        (any([is("a"), is_not("b")]), is_not("b")),
        (any([is("b"), is_not("b")]), Predicate::True),
        (any([is_not("a"), is_not("b")]), Predicate::True),
        (any([none_of(&["a", "b", "c"]), none_of(&["b", "c", "d"])]), none_of(&["b", "c"])),
        (any([none_of(&["a", "b", "c"]), is("b")]), none_of(&["a", "c"])),
        (all([is("a"), is("b")]), Predicate::False),
        (all([is("a"), p.clone(), is_not("b")]), all([is("a"), p.clone()])),
        (all([is("a"), is_not("a")]), Predicate::False),
        (all([one_of(&["a", "b", "c"]), one_of(&["b", "c", "d"])]), one_of(&["b", "c"])),
        (all([one_of(&["a", "b"]), is_not("b")]), is("a")),
        (all([not(one_of(&["a", "b"])), not(is("c"))]), none_of(&["a", "b", "c"])),
        // Two fields, merged separately.
        (
            any([is("a"), other_is("x"), is("b"), other_is("y")]),
            any([one_of(&["a", "b"]), Predicate::atom(Atom::TextIn(text(1), owned(&["x", "y"]), false))]),
        ),
    ]);
    assert_unchanged([
        any([is("a"), other_is("a")]),
        any([compared(Relation::Lt, text(0), literal("a")), is("a")]),
        any([is("a"), compared(Relation::Eq, text(0), text(1))]),
    ]);
}

#[test]
fn calls_of_one_function_are_merged() {
    let p = flag("p");
    let ends = |value| call(TextFunction::EndsWith, value);
    assert_simplified([
        (any([starts("a"), p.clone(), starts("b")]), any([starts_any(&["a", "b"]), p.clone()])),
        (any([starts_any(&["a", "b"]), starts_any(&["b", "c"])]), starts_any(&["a", "b", "c"])),
        (
            all([not(starts("a")), p.clone(), not(starts("b"))]),
            all([not(starts_any(&["a", "b"])), p.clone()]),
        ),
        (any([starts("a"), starts("")]), Predicate::True),
        (all([not(starts("a")), not(starts(""))]), Predicate::False),
        (
            any([starts("a"), ends("a"), starts("b"), ends("b")]),
            any([
                starts_any(&["a", "b"]),
                Predicate::atom(Atom::TextCallAny(TextFunction::EndsWith, text(0), owned(&["a", "b"]))),
            ]),
        ),
    ]);
    assert_unchanged([
        all([starts("a"), starts("b")]),
        any([not(starts("a")), not(starts("b"))]),
        any([starts("a"), ends("a")]),
        any([starts("a"), not(starts("b"))]),
        any([starts("a"), Predicate::atom(Atom::TextCall(TextFunction::StartsWith, text(1), literal("b")))]),
    ]);
}

#[test]
fn elements_of_one_array_become_one_list() {
    let p = flag("p");
    let list_has = |value| {
        let list = Array::List(vec![text(0), text(1)]);
        Predicate::atom(Atom::ArrayHas(list, literal(value)))
    };
    assert_simplified([
        (all([has("a"), p.clone(), has("b")]), all([has_all(&["a", "b"]), p.clone()])),
        (any([has("a"), p.clone(), has("b")]), any([has_any(&["a", "b"]), p.clone()])),
        (all([not(has("a")), not(has("b"))]), not(has_any(&["a", "b"]))),
        (any([not(has("a")), not(has("b"))]), not(has_all(&["a", "b"]))),
        (any([has_any(&["a", "b"]), has("c"), has_any(&["c", "d"])]), has_any(&["a", "b", "c", "d"])),
        (all([has_all(&["a", "b"]), has("c")]), has_all(&["a", "b", "c"])),
        (any([not(has_all(&["a", "b"])), not(has("c"))]), not(has_all(&["a", "b", "c"]))),
        (all([not(has_any(&["a", "b"])), not(has("c"))]), not(has_any(&["a", "b", "c"]))),
    ]);
    assert_unchanged([
        all([has_any(&["a", "b"]), has("c")]),
        any([has_all(&["a", "b"]), has("c")]),
        any([not(has_any(&["a", "b"])), not(has("c"))]),
        all([not(has_all(&["a", "b"])), not(has("c"))]),
        any([has("a"), not(has("b"))]),
        any([has("a"), list_has("b")]),
    ]);
}

#[test]
fn conditions_on_elements_are_merged() {
    use Quantifier::{All, Exists, ExistsOne};
    use TextFunction::{EndsWith, StartsWith};
    let (p, a, b) = (flag("p"), element(StartsWith, "a"), element(EndsWith, "b"));
    let is_element = |value| compared(Relation::Eq, Text::Element(1), literal(value));
    let others = Predicate::atom(Atom::TextIn(Text::Element(1), owned(&["a", "b"]), true));
    assert_simplified([
        (
            any([exists(a.clone()), p.clone(), exists(b.clone())]),
            any([exists(any([a.clone(), b.clone()])), p.clone()]),
        ),
        (
            all([every(a.clone()), p.clone(), every(b.clone())]),
            all([every(all([a.clone(), b.clone()])), p.clone()]),
        ),
        // The forms that indexes support.
        (exists(is_element("a")), has_any(&["a"])),
        (exists(not(others.clone())), has_any(&["a", "b"])),
        (every(not(is_element("a"))), not(has_any(&["a"]))),
        (every(others.clone()), not(has_any(&["a", "b"]))),
        (exists(all([a.clone(), not(a.clone())])), Predicate::False),
        (exactly_one_element(all([a.clone(), not(a.clone())])), Predicate::False),
        (every(any([a.clone(), not(a.clone())])), Predicate::True),
        // Whether the array has elements.
        (exists(any([a.clone(), not(a.clone())])), exists(Predicate::True)),
        (every(all([a.clone(), not(a.clone())])), every(Predicate::False)),
        (exactly_one_element(any([a.clone(), not(a.clone())])), exactly_one_element(Predicate::True)),
    ]);
    let of_other = compared(Relation::Eq, Text::Element(2), literal("a"));
    assert_unchanged([
        all([exists(a.clone()), exists(b.clone())]),
        any([every(a.clone()), every(b.clone())]),
        any([exactly_one_element(a.clone()), exactly_one_element(b.clone())]),
        all([exactly_one_element(a.clone()), exactly_one_element(b.clone())]),
        any([exists(a.clone()), quantified(Exists, 2, flag("q"))]),
        any([not(exists(a.clone())), not(exists(b))]),
        exactly_one_element(is_element("a")),
        quantified(ExistsOne, 1, others.clone()),
        exists(others),
        every(is_element("a")),
        exists(of_other.clone()),
        quantified(All, 1, not(of_other).simplified()),
        exists(compared(Relation::Lt, Text::Element(1), literal("a"))),
    ]);
}

#[test]
fn single_tests_are_simplified() {
    use Relation::{Eq, Ge, Gt, Le, Lt, Ne};
    let int = |relation, left, right| Predicate::atom(Atom::CompareInt(relation, left, right));
    let size = || Int::ArraySize(tags());
    let given = |text: &str, values: &[&str], negated| {
        Predicate::atom(Atom::TextIn(literal(text), owned(values), negated))
    };
    let holding = [(Eq, false), (Ne, true), (Lt, true), (Le, true), (Gt, false), (Ge, false)];
    for (relation, holds) in holding {
        assert_simplified([
            (compared(relation, literal("a"), literal("b")), Predicate::constant(holds)),
            (int(relation, Int::Literal(1), Int::Literal(2)), Predicate::constant(holds)),
        ]);
    }
    for (relation, swapped, negated) in
        [(Eq, Eq, Ne), (Ne, Ne, Eq), (Lt, Gt, Ge), (Le, Ge, Gt), (Gt, Lt, Le), (Ge, Le, Lt)]
    {
        assert_simplified([
            (compared(relation, literal("a"), text(0)), compared(swapped, text(0), literal("a"))),
            (int(relation, Int::Literal(1), size()), int(swapped, size(), Int::Literal(1))),
            (not(compared(relation, text(0), text(1))), compared(negated, text(0), text(1))),
            (not(int(relation, size(), Int::Literal(1))), int(negated, size(), Int::Literal(1))),
            (compared(relation, text(0), text(0)), Predicate::constant(matches!(relation, Eq | Le | Ge))),
        ]);
    }
    assert_simplified([
        (Predicate::atom(Atom::Utf8(literal("a"))), Predicate::True),
        (given("a", &["b", "a"], false), Predicate::True),
        (given("a", &["b", "a"], true), Predicate::False),
        (given("a", &["b"], false), Predicate::False),
        (given("a", &["b"], true), Predicate::True),
        (one_of(&[]), Predicate::False),
        (none_of(&[]), Predicate::True),
        (one_of(&["a"]), is("a")),
        (none_of(&["a", "a"]), is_not("a")),
        (one_of(&["a", "b", "a"]), one_of(&["a", "b"])),
        (not(one_of(&["a", "b"])), none_of(&["a", "b"])),
        (not(none_of(&["a", "b"])), one_of(&["a", "b"])),
        (starts(""), Predicate::True),
        (starts_any(&[]), Predicate::False),
        (starts_any(&["a", "a"]), starts("a")),
        (starts_any(&["a", "", "b"]), Predicate::True),
        (starts_any(&["a", "b", "a"]), starts_any(&["a", "b"])),
        (has_any(&[]), Predicate::False),
        (has_all(&[]), Predicate::True),
    ]);
    assert_unchanged([
        Predicate::atom(Atom::Utf8(text(0))),
        starts("a"),
        has("a"),
        has_any(&["a"]),
        has_all(&["a"]),
        one_of(&["a", "b"]),
        none_of(&["a", "b"]),
        compared(Lt, text(0), text(1)),
        int(Lt, size(), Int::Literal(1)),
        present(0),
        not(starts("a")),
    ]);
}

#[test]
fn exactly_one_is_simplified_by_constant_parts() {
    let [p, q, r] = flags(["p", "q", "r"]);
    let never = || all([r.clone(), not(r.clone())]);
    let always = || any([r.clone(), not(r.clone())]);
    assert_eq!(one([]), Predicate::False);
    assert_eq!(one([Predicate::False, p.clone()]), p);
    assert_eq!(one([Predicate::True]), Predicate::True);
    assert_eq!(one([Predicate::True, p.clone(), q.clone()]), all([not(p.clone()), not(q.clone())]));
    assert_eq!(one([Predicate::True, p.clone(), Predicate::True]), Predicate::False);
    assert_simplified([
        (one([never(), p.clone()]), p.clone()),
        (one([never(), p.clone(), q.clone()]), one([p.clone(), q.clone()])),
        (one([always(), p.clone(), q.clone()]), all([not(p.clone()), not(q.clone())])),
        (one([always(), p.clone(), always()]), Predicate::False),
        (one([always(), is("a"), is("b")]), none_of(&["a", "b"])),
        (one([never(), all([p.clone(), never()])]), Predicate::False),
    ]);
    assert_unchanged([one([p.clone(), q.clone(), r]), one([p, not(q)])]);
}

#[test]
fn sizes_are_counted_in_nodes_and_operands() {
    let [p, q] = flags(["p", "q"]);
    let list = |count: usize, length: usize| vec!["a".repeat(length); count];
    let texts = |values: Vec<String>| Predicate::atom(Atom::TextIn(text(0), values, false));
    let array_is = |right| Predicate::atom(Atom::ArrayEq(tags(), right));
    for (predicate, size) in [
        (Predicate::True, 1),
        (p.clone(), 1),
        (not(p.clone()), 2),
        (all([p.clone(), q.clone()]), 3),
        (any([p.clone(), not(q.clone())]), 4),
        (one([p.clone(), not(q)]), 6),
        (is("a"), 2),
        (is(&"a".repeat(31)), 2),
        (is(&"a".repeat(32)), 3),
        (starts(&"a".repeat(64)), 4),
        (compared(Relation::Lt, literal(&"a".repeat(32)), literal(&"a".repeat(64))), 5),
        (has(&"a".repeat(32)), 3),
        (Predicate::atom(Atom::Matches(text(0), Arc::new(Pattern::parse(&"a".repeat(32)).unwrap()))), 3),
        (present(0), 1),
        // After the first 16, each value counts an eighth. The bytes are added.
        (texts(list(2, 15)), 3),
        (texts(list(2, 16)), 4),
        (texts(list(16, 0)), 17),
        (texts(list(24, 0)), 18),
        (texts(list(40, 4)), 25),
        (starts_any(&["a", "b"]), 3),
        (has_any(&["a", "b", "c"]), 4),
        (has_all(&["a", "b", "c"]), 4),
        (array_is(tags()), 1),
        (array_is(Array::List(vec![text(0), literal(&"a".repeat(32))])), 4),
        (exists(element(TextFunction::Contains, "a")), 6),
    ] {
        assert_eq!(predicate.size(), size, "{predicate:?}");
    }
}
