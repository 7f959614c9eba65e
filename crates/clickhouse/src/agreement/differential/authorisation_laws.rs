//! Laws of authorisation, for random roles on random traces: compares the real path from policies through a scope to
//! ClickHouse with the reference evaluation of each policy alone.

use std::collections::BTreeSet;

use tracewarden_model::Caller;
use tracewarden_policy::{
    AccessScope, BrokenPolicy, CompiledPolicies, PolicySource, Predicate, RolePolicy, Span, authorise, check,
};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{GeneratedPolicy, Generator};

use super::generated_model::MODEL;
use super::lowered_policy::{LoweredPolicy, Verdict, reference, sides_by_store};
use super::store::{connect, load};

const SPANS: usize = 48;
/// Number of spans of one trace.
const SPANS_PER_TRACE: usize = 2;
const ROUNDS: usize = 40;

/// Authorises a caller by roles, each of which has some policies.
fn authorise_roles(
    roles: &[&[String]],
    caller: &Caller,
    compiled: &CompiledPolicies,
) -> Result<AccessScope, BrokenPolicy> {
    let policies = roles.iter().flat_map(|role| role.iter());
    let policies = policies.map(|expression| RolePolicy { role: "r", title: "t", expression });
    authorise(policies, None, caller, &MODEL, compiled)
}

fn lowered(scope: &AccessScope, caller: &Caller) -> LoweredPolicy {
    LoweredPolicy {
        policy: GeneratedPolicy { text: "a scope".to_owned(), operations: Vec::new(), standalone: false },
        caller: caller.clone(),
        is_true: scope.predicate().clone(),
        is_false: Predicate::False,
    }
}

/// Returns the traces with a span for which `open` is true.
fn traces(open: impl Iterator<Item = bool>) -> BTreeSet<usize> {
    open.enumerate().filter(|(_, open)| *open).map(|(span, _)| span / SPANS_PER_TRACE).collect()
}

/// Returns the traces that these policies grant access to, by the reference and one policy at a time.
fn by_reference(policies: &[String], caller: &Caller, spans: &[Span]) -> BTreeSet<usize> {
    policies
        .iter()
        .flat_map(|text| traces(reference(text, caller, spans).into_iter().map(|is| is == Verdict::True)))
        .collect()
}

#[tokio::test]
async fn access_is_the_union_of_the_policies() {
    let mut generator = Generator::new(5);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let spans: Vec<Span> = (0..SPANS).map(|_| generator.span()).collect();
    generator.learn_values(&spans);
    load(&local, &spans).await;
    // One cache for all callers, as in the service: entries of one caller must not affect the access of the next one.
    let compiled = CompiledPolicies::new();
    let (mut some, mut all) = (0, 0);
    for round in 0..ROUNDS {
        let caller = generator.caller();
        let roles: Vec<Vec<String>> = (0..3)
            .map(|_| {
                // With single policies, nearly every trace would be visible to some role.
                let both = std::iter::repeat_with(|| {
                    format!("({}) && ({})", generator.policy().text, generator.policy().text)
                });
                both.filter(|text| LoweredPolicy::is_accepted(text, &caller)).take(1 + round % 2).collect()
            })
            .collect();
        let roles: Vec<&[String]> = roles.iter().map(Vec::as_slice).collect();
        let scope = |roles: &[&[String]]| authorise_roles(roles, &caller, &compiled).unwrap();

        let one_by_one = roles.iter().map(|role| scope(&[role]));
        let mut scopes: Vec<AccessScope> = one_by_one.collect();
        scopes.push(scope(&roles));
        scopes.push(scope(&[roles[2], roles[0], roles[1], roles[0]]));
        scopes.push(scope(&roles[..2]));
        let lowered: Vec<LoweredPolicy> = scopes.iter().map(|scope| lowered(scope, &caller)).collect();
        let granted: Vec<BTreeSet<usize>> = sides_by_store(&store, &lowered, SPANS)
            .await
            .into_iter()
            .map(|sides| traces(sides.into_iter().map(|(open, _)| open)))
            .collect();

        for (role, granted) in roles.iter().zip(&granted) {
            assert_eq!(granted, &by_reference(role, &caller, &spans), "{role:?}\n{caller:?}");
        }
        let union: BTreeSet<usize> = granted[..3].iter().flatten().copied().collect();
        assert_eq!(
            granted[3], union,
            "roles together grant the union of their access: {roles:?}\n{caller:?}"
        );
        assert_eq!(granted[4], granted[3], "neither order nor repetition matters: {roles:?}\n{caller:?}");
        assert!(
            granted[5].is_subset(&granted[3]),
            "an additional role revokes nothing: {roles:?}\n{caller:?}"
        );
        some += usize::from(!union.is_empty());
        all += usize::from(union.len() == SPANS / SPANS_PER_TRACE);

        // A policy that no longer compiles refuses everything, whatever its position and whatever other policies allow.
        let (broken, open) = (["Gone == \"x\"".to_owned()], ["true".to_owned()]);
        for roles in [&[&broken[..], roles[0]][..], &[roles[0], &open, &broken], &[&open, &broken]] {
            let refused = authorise_roles(roles, &caller, &compiled).unwrap_err();
            assert_eq!(refused.diagnostics[0].code, "unmarked_field");
            assert!(matches!(refused.source, PolicySource::Role { .. }));
        }
    }
    assert!(authorise_roles(&[], &Caller::default(), &compiled).unwrap().is_empty());
    assert!(authorise_roles(&[&[]], &Caller::default(), &compiled).unwrap().is_empty());
    println!("{ROUNDS} rounds, {some} grant some traces, {all} of them all");
    assert!(some > ROUNDS / 2 && all < ROUNDS / 2, "{some} {all}");
    assert!(compiled.cache_stats().found > compiled.cache_stats().compiled);
}

impl LoweredPolicy {
    /// Whether the policy is valid and not too large for the caller.
    fn is_accepted(text: &str, caller: &Caller) -> bool {
        check(text, &MODEL).is_ok_and(|checked| checked.predicate(caller).is_some())
    }
}
