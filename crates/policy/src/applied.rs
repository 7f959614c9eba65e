//! Applies each stored policy of a caller separately: to explain an access decision, and to count the traces that a
//! caller would see.
//!
//! Nothing here grants access. Reading needs an [`AccessScope`](crate::AccessScope), and these types cannot be
//! converted to one. Whether the same policies would give a scope is computed by [`authorise`] itself, so the two
//! cannot disagree.

use std::sync::Arc;

use tracewarden_model::{AccessModel, Caller, MarkedField};

use crate::authorise::{
    BrokenPolicy, BrokenReason, CompiledPolicy, KeyConstraint, PolicySource, RolePolicy, authorise,
};
use crate::compiled::CompiledPolicies;
use crate::parse::on_deep_stack;
use crate::predicate::Predicate;
use crate::predicate::work::Budget;

/// A stored policy as it applies to one caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AppliedPolicy {
    /// Predicate that a span must satisfy.
    pub predicate: Predicate,
    /// Fields that the policy's text names.
    pub fields: Vec<Arc<MarkedField>>,
}

impl AppliedPolicy {
    /// Whether the policy names only filterable fields, which all users may know of.
    pub fn has_only_filterable_fields(&self) -> bool {
        self.fields.iter().all(|field| field.filterable)
    }
}

/// The policies of one caller, in the given order, and the result of authorising the caller with them.
#[derive(Debug, Clone)]
pub struct AppliedPolicies {
    /// Each policy by itself, or the reason why it cannot be applied.
    pub policies: Vec<Result<AppliedPolicy, BrokenPolicy>>,
    /// The key constraint of the caller's credential, if it has one.
    pub key_constraint: Option<Result<AppliedPolicy, BrokenPolicy>>,
    /// Why every read of this caller is rejected; `None` if reads are allowed.
    pub refused: Option<BrokenPolicy>,
    /// Fields that reads depend on, as returned by
    /// [`AccessScope::referenced_fields`](crate::AccessScope::referenced_fields). Empty if reads are rejected.
    pub referenced_fields: Vec<Arc<MarkedField>>,
}

impl AppliedPolicies {
    /// Returns the predicates that grant this caller access to traces, one per policy. Empty if reads are rejected. A
    /// policy that matches no span is left out; if one policy matches every span, only that one is returned. Ignores
    /// the key constraint.
    pub fn granting_predicates(&self) -> Vec<&Predicate> {
        if self.refused.is_some() {
            return Vec::new();
        }
        let predicates = || self.policies.iter().flatten().map(|policy| &policy.predicate);
        match predicates().find(|predicate| matches!(predicate, Predicate::True)) {
            Some(everything) => vec![everything],
            None => predicates().filter(|predicate| !matches!(predicate, Predicate::False)).collect(),
        }
    }
}

/// Applies stored policies to a caller, each separately. The caller need not be the user who sends the request.
pub fn apply<'a>(
    policies: impl IntoIterator<Item = RolePolicy<'a>>,
    key_constraint: Option<KeyConstraint<'a>>,
    caller: &Caller,
    model: &AccessModel,
    compiled: &CompiledPolicies,
) -> AppliedPolicies {
    let policies: Vec<RolePolicy<'a>> = policies.into_iter().collect();
    let (refused, referenced_fields) =
        match authorise(policies.iter().copied(), key_constraint, caller, model, compiled) {
            Ok(scope) => (None, scope.referenced_fields().to_vec()),
            Err(broken) => (Some(broken), Vec::new()),
        };
    let apply = |policy: Result<CompiledPolicy<'_>, BrokenPolicy>| {
        let policy = policy?;
        let predicate = policy.lower(caller, &Budget::unlimited())?;
        Ok(AppliedPolicy { predicate, fields: policy.fields() })
    };
    let work = || {
        let compiler = compiled.compiler(model, true);
        let compile =
            |policy: &RolePolicy<'a>| CompiledPolicy::compile(&compiler, policy.expression, policy.source());
        let results = policies.iter().map(|policy| apply(compile(policy)));
        (results.collect(), key_constraint.map(|constraint| apply(constraint.compile(model, compiled))))
    };
    let (policies, key_constraint) = on_deep_stack("checked", work).unwrap_or_else(|diagnostics| {
        let failed = |source| {
            Err(BrokenPolicy { source, reason: BrokenReason::Unavailable, diagnostics: diagnostics.clone() })
        };
        let results = policies.iter().map(|policy| failed(policy.source())).collect();
        (results, key_constraint.map(|_| failed(PolicySource::KeyConstraint)))
    });
    AppliedPolicies { policies, key_constraint, refused, referenced_fields }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType};

    use super::*;

    fn model() -> AccessModel {
        let field = |name: &str, filterable| MarkedField {
            field: FieldRef::column(name),
            source: FieldSource::Column,
            logical: LogicalType::String,
            column_type: ColumnType::parse("String"),
            filterable,
            policy: true,
            column: None,
        };
        AccessModel {
            version: 1,
            binding: None,
            fields: vec![field("ServiceName", true), field("Secret", false)],
        }
    }

    fn applied(expressions: &[&str], key_constraint: Option<&str>) -> AppliedPolicies {
        let policies =
            expressions.iter().map(|expression| RolePolicy { role: "r", title: expression, expression });
        let key_constraint =
            key_constraint.map(|expression| KeyConstraint { expression, knows_policy_fields: false });
        apply(policies, key_constraint, &Caller::default(), &model(), &CompiledPolicies::new())
    }

    #[test]
    fn each_policy_is_reported_separately() {
        let found = applied(&["ServiceName == 'a'", "Secret == 'b' || false", "false"], None);
        let filterable: Vec<bool> = found
            .policies
            .iter()
            .map(|policy| policy.as_ref().unwrap().has_only_filterable_fields())
            .collect();
        assert_eq!(filterable, [true, false, true]);
        assert_eq!(found.granting_predicates().len(), 2);
        assert!(found.refused.is_none() && found.referenced_fields.len() == 2, "{found:?}");
    }

    #[test]
    fn a_policy_that_grants_everything_replaces_the_others() {
        let found = applied(&["ServiceName == 'a'", "true"], None);
        assert_eq!(found.granting_predicates(), [&Predicate::True]);
    }

    #[test]
    fn one_broken_policy_refuses_all_and_is_named() {
        let found = applied(&["ServiceName == 'a'", "Gone == 'b'"], None);
        assert!(found.policies[0].is_ok());
        let broken = found.policies[1].as_ref().unwrap_err();
        assert_eq!(Some(broken), found.refused.as_ref());
        assert_eq!(
            broken.source,
            PolicySource::Role { role: "r".to_owned(), title: "Gone == 'b'".to_owned() }
        );
        assert!(found.granting_predicates().is_empty() && found.referenced_fields.is_empty());
    }

    #[test]
    fn a_key_policy_sees_only_fields_of_its_author() {
        let found = applied(&["true"], Some("ServiceName == 'a'"));
        assert!(found.key_constraint.unwrap().is_ok() && found.refused.is_none());
        let found = applied(&["true"], Some("Secret == 'a'"));
        assert!(found.key_constraint.unwrap().is_err() && found.refused.is_some());
    }
}
