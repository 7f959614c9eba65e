//! Many comparisons, and many predicates.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

#[tokio::test]
async fn many_comparisons_of_large_predicates_are_possible() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, FEW).await;
    let service = Arc::new(field("Service"));
    let large = |prefix: &str| {
        let equal = |number: u32| {
            let literal =
                Text::Literal(if number == 0 { prefix.to_owned() } else { format!("{prefix}{number}") });
            Predicate::atom(Atom::CompareText(Relation::Eq, Text::Field(Arc::clone(&service)), literal))
        };
        Predicate::any((0..6_000).map(equal))
    };
    let predicates = [large("web"), large("cart"), large("none"), Predicate::True];
    let comparisons: Vec<Comparison> =
        (0..400).map(|number: usize| comparison(&[number % 3], &[number % 4])).collect();
    let collateral = CollateralQuery {
        predicate_sets: &[vec![3]],
        by: &CollateralGrouping::Column("Service".to_owned()),
        limit: 1,
    };
    let compared: Vec<&Comparison> = comparisons.iter().collect::<BTreeSet<_>>().into_iter().collect();
    let asked = parts(&compared, Some(collateral), &predicates, false);
    assert!(asked.len() > 1 && asked.iter().filter(|part| part.collateral.is_some()).count() == 1);
    let readable = unrestricted_scope();
    let test_request = TestRequest::unrestricted(&predicates, &comparisons, &readable);
    let found =
        test_request.impact(&store, "spans", SamplingPlan::within(Duration::from_secs(600))).await.unwrap();
    for (number, difference) in found.compared.iter().enumerate() {
        let grants_access = |predicate: usize| predicate != 2;
        let (before, after) = (grants_access(number % 3), grants_access(number % 4));
        let all = |is: bool| if is { FEW } else { 0 };
        let counts = (difference.gained, difference.lost, difference.unchanged);
        assert_eq!(counts, (all(after && !before), all(before && !after), all(before && after)), "{number}");
    }

    let refused =
        TestRequest { predicates: &vec![Predicate::True; MAX_IMPACT_PREDICATES + 1], ..test_request };
    let refused = refused.impact(&store, "spans", sampling()).await;
    assert!(matches!(refused, Err(ClickHouseError::Internal(_))), "{refused:?}");
    let refused = TestRequest { predicates: &vec![Predicate::True; MAX_PREDICATE_SETS + 1], ..test_request };
    let refused = refused.collateral(&store, "spans", sampling()).await;
    assert!(matches!(refused, Err(ClickHouseError::Internal(_))), "{refused:?}");
    let refused = TestRequest { comparisons: &[comparison(&[], &[4])], ..test_request };
    let refused = refused.impact(&store, "spans", sampling()).await;
    assert!(matches!(refused, Err(ClickHouseError::Internal(_))), "{refused:?}");
    // The maximum number of predicate sets, which differ in the spans that they match.
    let services = ["web", "cart", "db", "none"];
    let expressions = (0..MAX_PREDICATE_SETS).map(|number| format!("Service == '{}'", services[number % 4]));
    let many: Vec<Predicate> = expressions.map(|expression| scope(&expression).predicate().clone()).collect();
    let asked = TestRequest { predicates: &many, ..test_request };
    let found =
        asked.collateral(&store, "spans", SamplingPlan::within(Duration::from_secs(600))).await.unwrap();
    for (number, shared) in found.collateral_values.iter().enumerate() {
        let own: Vec<&str> = shared
            .values
            .iter()
            .filter(|value| value.matching_traces > 0)
            .map(|value| &*value.value)
            .collect();
        match services[number % 4] {
            "none" => assert_eq!(shared, &CollateralValues::default()),
            service => assert_eq!((shared.traces, shared.only_shared, own), (FEW, 3, vec![service])),
        }
    }
}

/// Each trace is of one team of ten, so each predicate grants access to a tenth of the traces or to none: bits of all words
/// are used, alone and together.
#[tokio::test]
async fn hundreds_of_predicates_are_compared_at_once() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, FEW).await;
    let teams: Vec<Predicate> =
        (0..11).map(|team| scope(&format!("Team == '{team}'")).predicate().clone()).collect();
    let predicates: Vec<Predicate> =
        (0..MAX_IMPACT_PREDICATES).map(|number| teams[number % teams.len()].clone()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut random_numbers = || -> Vec<usize> {
        let many = random.random_range(0..6);
        (0..many).map(|_| random.random_range(0..MAX_IMPACT_PREDICATES)).collect()
    };
    let comparisons: Vec<Comparison> =
        (0..300).map(|_| Comparison { before: random_numbers(), after: random_numbers() }).collect();
    let readable = unrestricted_scope();
    let test_request = TestRequest::unrestricted(&predicates, &comparisons, &readable);
    let found =
        test_request.impact(&store, "spans", SamplingPlan::within(Duration::from_secs(600))).await.unwrap();
    let open = |numbers: &[usize]| -> BTreeSet<usize> {
        numbers.iter().map(|number| number % teams.len()).filter(|team| *team < 10).collect()
    };
    let mut changed = 0;
    for (difference, Comparison { before, after }) in found.compared.iter().zip(&comparisons) {
        let (before, after) = (open(before), open(after));
        let traces = |teams: usize| teams as u64 * FEW / 10;
        let expected = (
            traces(after.difference(&before).count()),
            traces(before.difference(&after).count()),
            traces(before.intersection(&after).count()),
        );
        assert_eq!((difference.gained, difference.lost, difference.unchanged), expected);
        let ids = difference.gained_ids.iter().map(|id| u64::from_str_radix(id, 16).unwrap() - 1);
        let ids: BTreeSet<usize> = ids.map(|trace| (trace % 10) as usize).collect();
        assert!(ids.iter().all(|team| after.contains(team) && !before.contains(team)), "{difference:?}");
        assert_eq!(difference.gained_ids.len() as u64, difference.gained.min(50));
        changed += usize::from(difference.gained > 0 && difference.lost > 0);
    }
    assert!(changed > 50, "{changed}");
}
