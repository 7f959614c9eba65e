//! A simplified predicate is equivalent on every span, and never larger.

use std::collections::HashMap;

use crate::support::predicates::{holds, predicate, spans};
use proptest::prelude::*;
use tracewarden_policy::Predicate;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn simplification_is_equivalent_and_not_larger(predicate in predicate(), spans in spans()) {
        let simple = predicate.simplified();
        prop_assert!(simple.size() <= predicate.size() , "{simple:?}\nof {predicate:?}");
        for span in &spans {
            let none = HashMap::new();
            let (before, after) = (holds(&predicate, span, &none), holds(&simple, span, &none));
            prop_assert_eq!(before, after, "{:?}\nas {:?}\non {:?}", predicate, simple, span);
        }
        prop_assert_eq!(&simple.simplified(), &simple, "of {:?}", predicate);
    }

    #[test]
    fn the_order_of_alternatives_does_not_matter(parts in prop::collection::vec(predicate(), 1..6)) {
        let size = |parts: Vec<Predicate>| Predicate::any(parts).simplified().size();
        let mut turned = parts.clone();
        turned.reverse();
        prop_assert_eq!(size(parts), size(turned));
    }
}
