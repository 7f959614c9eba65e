//! The policy cache never returns a policy of another model, another view of the model, or another text.

use std::sync::Arc;

use crate::support::{caller, field, model};
use tracewarden_model::{AccessModel, Caller, FieldRef, LogicalType};
use tracewarden_policy::{
    AccessScope, BrokenPolicy, CompiledPolicies, KeyConstraint, PolicyCacheStats, PolicySource, RolePolicy,
    authorise,
};

fn granted(
    expression: &str,
    model: &AccessModel,
    compiled: &CompiledPolicies,
) -> Result<AccessScope, BrokenPolicy> {
    let policy = RolePolicy { role: "r", title: "t", expression };
    authorise([policy], None, &caller(), model, compiled)
}

#[test]
fn policies_are_compiled_once() {
    let compiled = CompiledPolicies::new();
    let first = granted("ServiceName == \"a\"", &model(), &compiled).unwrap();
    let again = granted("ServiceName == \"a\"", &model(), &compiled).unwrap();
    assert_eq!(first.predicate(), again.predicate());
    assert_eq!(compiled.cache_stats(), PolicyCacheStats { found: 1, compiled: 1 });
    granted("ServiceName == \"b\"", &model(), &compiled).unwrap();
    assert_eq!(compiled.cache_stats(), PolicyCacheStats { found: 1, compiled: 2 });
}

#[test]
fn another_model_under_the_same_version_is_another_model() {
    let compiled = CompiledPolicies::new();
    let before = model();
    let text = "SpanAttributes[\"flag\"]";
    let grants = granted(text, &before, &compiled).unwrap();
    // As after restoring a backup and changing the model again: the version is the same, but the key is now a string.
    let mut restored = before.clone();
    let position = restored.fields.iter().position(|field| field.field.name == "flag").unwrap();
    restored.fields[position] = field(FieldRef::key("SpanAttributes", "flag"), LogicalType::String, "String");
    assert_eq!(restored.version, before.version);
    assert_eq!(granted(text, &restored, &compiled).unwrap_err().diagnostics[0].code, "type_mismatch");
    // The field is no longer marked.
    restored.fields.remove(position);
    assert_eq!(granted(text, &restored, &compiled).unwrap_err().diagnostics[0].code, "unmarked_field");
    // The field may no longer be used in policies.
    let mut unmarked = before.clone();
    unmarked.fields[position].policy = false;
    assert!(granted(text, &unmarked, &compiled).is_err());
    // The field's column has another type.
    let mut nullable = before.clone();
    nullable.fields[position].column_type = tracewarden_model::ColumnType::parse("Nullable(String)");
    assert_ne!(granted(text, &nullable, &compiled).unwrap().predicate(), grants.predicate());
    // A column replaces the field's map key.
    let mut adopted = before.clone();
    adopted.fields[position].column = Some("SpanAttributes_flag".to_owned());
    assert_ne!(granted(text, &adopted, &compiled).unwrap().predicate(), grants.predicate());
    assert_eq!(granted(text, &before, &compiled).unwrap().predicate(), grants.predicate());
}

#[test]
fn policies_with_administrator_fields_are_not_reused_for_others() {
    let compiled = CompiledPolicies::new();
    let mut model = model();
    model.fields.iter_mut().find(|field| field.field.name == "env").unwrap().filterable = false;
    let text = "SpanAttributes[\"env\"] == \"x\"";
    let granting = RolePolicy { role: "r", title: "t", expression: text };
    for _ in 0..2 {
        for knows_policy_fields in [true, false] {
            let key_constraint = Some(KeyConstraint { expression: text, knows_policy_fields });
            let scope = authorise([granting], key_constraint, &caller(), &model, &compiled);
            assert_eq!(scope.is_ok(), knows_policy_fields);
            if let Err(broken) = scope {
                assert_eq!(broken.source, PolicySource::KeyConstraint);
            }
        }
    }
}

#[test]
fn policies_that_do_not_compile_are_not_kept() {
    let compiled = CompiledPolicies::new();
    for count in 1..4 {
        assert!(granted("Gone == \"x\"", &model(), &compiled).is_err());
        assert_eq!(compiled.cache_stats(), PolicyCacheStats { found: 0, compiled: count });
    }
}

#[test]
fn callers_share_only_policy_texts() {
    let compiled = CompiledPolicies::new();
    let policy = RolePolicy {
        role: "r",
        title: "t",
        expression: "\"admin\" in user.roles || user.attributes.team == \"shop\"",
    };
    let (model, mut open) = (model(), caller());
    open.roles.insert("admin".to_owned());
    let authorised =
        |caller: &Caller| authorise([policy], None, caller, &model, &compiled).map(|scope| scope.is_empty());
    for _ in 0..2 {
        assert_eq!(authorised(&caller()), Ok(true));
        assert_eq!(authorised(&open), Ok(false));
    }
}

#[test]
fn the_cache_size_is_limited() {
    let compiled = CompiledPolicies::new();
    let texts: Vec<String> = (0..9_000).map(|number| format!("ServiceName == \"{number}\"")).collect();
    // In requests of a hundred, because all together are too large for one.
    let each = |texts: &[String]| {
        for some in texts.chunks(100) {
            let policies = some.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
            authorise(policies, None, &caller(), &model(), &compiled).unwrap();
        }
    };
    each(&texts);
    let before = compiled.cache_stats();
    // The first entries were evicted, the last ones are still cached.
    each(&texts[..100]);
    assert_eq!(compiled.cache_stats(), PolicyCacheStats { compiled: before.compiled + 100, ..before });
    each(&texts[8_900..]);
    assert_eq!(
        compiled.cache_stats(),
        PolicyCacheStats { found: before.found + 100, compiled: before.compiled + 100 }
    );
}

#[test]
fn many_threads_at_once() {
    let compiled = Arc::new(CompiledPolicies::new());
    let models: Vec<AccessModel> = (0..3).map(|version| AccessModel { version, ..model() }).collect();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (compiled, models) = (Arc::clone(&compiled), &models);
            scope.spawn(move || {
                for round in 0..60 {
                    let text = format!("ServiceName == \"{}\"", (thread + round) % 5);
                    let expected = granted(&text, &models[0], &CompiledPolicies::new()).unwrap();
                    let found = granted(&text, &models[(thread * round) % models.len()], &compiled).unwrap();
                    assert_eq!(found.predicate(), expected.predicate());
                }
            });
        }
    });
    let cache_stats = compiled.cache_stats();
    assert_eq!(cache_stats.found + cache_stats.compiled, 240);
    assert!(cache_stats.found > 100, "{cache_stats:?}");
}

#[test]
fn long_policies_are_cached() {
    let compiled = CompiledPolicies::new();
    let text = vec!["ServiceName == \"checkout\""; 100].join(" || ");
    for found in 0..2 {
        granted(&text, &model(), &compiled).unwrap();
        assert_eq!(compiled.cache_stats(), PolicyCacheStats { found, compiled: 1 });
    }
}
