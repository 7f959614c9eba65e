//! Mappings of claims: what administrators read, change and try.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tracewarden_appdb::ADMIN_ROLE;
use tracewarden_model::nearest::nearest;
use tracewarden_model::{AttributeValue, Claims, ClaimsMapping, ClaimsMappings, RoleRule};
use tracewarden_policy::{CheckedMapping, check_mapping};
use utoipa::ToSchema;

use super::mapped::remap;
use crate::access::Identities;
use crate::core::{
    Administrator, FieldError, IfMatch, Mapped, Result, ServiceError, bounded_member, evaluate_checked,
    no_change_detail, unknown, validate,
};

const RULES_MAX: usize = 500;
const ATTRIBUTES_MAX: usize = 64;
const EXPRESSION_MAX_BYTES: usize = 4_096;

/// Claims of OpenID Connect that people can change themselves at many providers, or that the provider has not verified.
const UNVERIFIED_CLAIMS: [&str; 14] = [
    "email",
    "name",
    "given_name",
    "family_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "phone_number",
    "address",
    "locale",
    "zoneinfo",
];

/// An identity provider with its mapping.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = IdentityProviderInfo)]
pub struct ProviderInfo {
    /// Name, as in the configuration.
    #[schema(examples("company"))]
    pub name: String,
    /// Text of the button on the sign-in page; null if the provider is not configured.
    #[schema(required = true)]
    pub label: Option<String>,
    /// Issuer identifier; null if the provider is not configured.
    #[schema(required = true)]
    pub issuer: Option<String>,
    /// Roles and attributes that its people get.
    pub mapping: ClaimsMapping,
}

/// A possible mistake in a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MappingWarning {
    /// JSON Pointer to the expression or role.
    #[schema(examples("/roles/0/when"))]
    pub pointer: String,
    /// Description, as readable text.
    pub detail: String,
}

/// A stored mapping.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MappingAnswer {
    /// Roles, as in the request.
    pub roles: Vec<RoleRule>,
    /// Attributes, as in the request.
    pub attributes: BTreeMap<String, String>,
    /// Possible mistakes.
    pub warnings: Vec<MappingWarning>,
    /// Number of people whose roles or attributes the request changed.
    pub people_changed: u64,
    /// Digest of the mapping, for [`IfMatch::Versions`].
    #[serde(skip)]
    pub tag: u64,
}

/// An expression of a mapping that has no result for these claims. The person gets no role and no attribute by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnmappedExpression {
    /// JSON Pointer to the expression.
    #[schema(examples("/roles/0/when"))]
    pub pointer: String,
    /// Claims that the expression names and that are absent; empty if a claim has another type than the expression needs, or the
    /// result is too large.
    #[schema(examples(json!(["claims.realm_access.roles"])))]
    pub absent_claims: Vec<String>,
}

/// What a person with certain claims gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MappingEvaluation {
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Expressions without a result.
    pub unmapped: Vec<UnmappedExpression>,
}

impl Identities {
    /// Returns all providers that are configured or have a mapping.
    pub async fn list(&self, _admin: &Administrator<'_>) -> Result<Vec<ProviderInfo>> {
        let mut mappings = self.core.db.begin_read().await?.identities().mappings(None).await?;
        let mut providers: Vec<ProviderInfo> = Vec::new();
        for provider in self.core.settings.providers.iter() {
            providers.push(ProviderInfo {
                name: provider.name().to_owned(),
                label: Some(provider.label().to_owned()),
                issuer: Some(provider.issuer().to_owned()),
                mapping: mappings.remove(provider.name()).unwrap_or_default(),
            });
        }
        let others = mappings.into_iter();
        providers.extend(others.map(|(name, mapping)| ProviderInfo {
            name,
            label: None,
            issuer: None,
            mapping,
        }));
        providers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(providers)
    }

    /// Returns the mapping of a provider, and its digest for [`IfMatch::Versions`].
    ///
    /// # Errors
    /// [`ServiceError::NotFound`] for a provider that is not configured and has no mapping.
    pub async fn mapping(&self, _admin: &Administrator<'_>, provider: &str) -> Result<(ClaimsMapping, u64)> {
        let mapping = self.core.db.begin_read().await?.identities().mappings(None).await?.remove(provider);
        let mapping = match mapping {
            Some(mapping) => mapping,
            None => self.provider(provider).map(|_| ClaimsMapping::default())?,
        };
        let tag = tag(&mapping);
        Ok((mapping, tag))
    }

    /// Replaces the mapping of a provider; takes effect with each person's next request. An empty mapping removes it.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::Refused`] with `policy_invalid` and the position in the text, `unknown_role` or
    /// for invalid members; [`ServiceError::PreconditionFailed`] when `if_match` does not hold; [`ServiceError::SessionRequired`]
    /// when a caller with an API key grants `admin`.
    pub async fn put_mapping(
        &self,
        admin: &Administrator<'_>,
        provider: &str,
        mapping: ClaimsMapping,
        if_match: Option<IfMatch>,
    ) -> Result<MappingAnswer> {
        const ACTION: &str = "mapping.put";
        let result = async {
            let work = move || (check_expressions(&mapping), mapping);
            let (checked, mapping) = self.core.permits.model_checks.run(work).await?;
            let checked = checked?;
            let mut tx = self.core.begin_change(admin).await?;
            let mut mappings = tx.identities().mappings(None).await?;
            if !mappings.contains_key(provider) {
                self.provider(provider)?;
            }
            let before = mappings.get(provider).cloned().unwrap_or_default();
            IfMatch::check_any(if_match, Some(tag(&before)))?;
            let mut errors = Vec::new();
            check_roles(&mapping, &tx.role_names().await?, &mut errors);
            validate::no_errors(errors)?;
            if grants_admin(&before, &mapping) {
                // A leaked key must not create administrators who remain after its revocation.
                admin.require_session()?;
            }
            let answer = |mapping: ClaimsMapping, people_changed| MappingAnswer {
                warnings: warnings(&mapping, &checked),
                tag: tag(&mapping),
                roles: mapping.roles,
                attributes: mapping.attributes,
                people_changed,
            };
            if mapping == before {
                let detail = no_change_detail(tx.change_number().await?);
                self.core.commit_change(tx, admin, ACTION, Some(provider), detail).await?;
                return Ok(answer(mapping, 0));
            }
            mappings.insert(provider.to_owned(), mapping.clone());
            mappings.retain(|_, mapping| *mapping != ClaimsMapping::default());
            let model_version = tx.access_model().await?.version;
            let change = self.core.new_change(admin, ACTION, Some(provider), model_version);
            let version = tx.record_change(&change, &[], None).await?;
            tx.identities_mut().record_mappings(version, &mappings).await?;
            let people_changed = remap(&mut tx, provider, &mapping).await?;
            let detail = json!({
                "version": version,
                "mapping": bounded_member(json!({ "before": before, "after": mapping })),
                "people_changed": people_changed,
            });
            self.core.commit_change(tx, admin, ACTION, Some(provider), detail).await?;
            Ok(answer(mapping, people_changed))
        };
        self.core.audit_denial(admin, ACTION, Some(provider), result.await).await
    }

    /// Returns what a person with these claims would get by a mapping, or by the provider's stored one.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::Refused`] for an invalid mapping.
    pub async fn evaluate_mapping(
        &self,
        admin: &Administrator<'_>,
        provider: &str,
        claims: Map<String, Value>,
        mapping: Option<ClaimsMapping>,
    ) -> Result<MappingEvaluation> {
        let (stored, _) = self.mapping(admin, provider).await?;
        let mapping = mapping.unwrap_or(stored);
        let roles = self.core.db.begin_read().await?.role_names().await?;
        let work = move || {
            let checked = check_expressions(&mapping)?;
            let mut errors = Vec::new();
            check_roles(&mapping, &roles, &mut errors);
            validate::no_errors(errors)?;
            let access = evaluate_checked(&checked, &[Claims::from_json(&claims)])?.pop().unwrap_or_default();
            let mut unmapped: Vec<UnmappedExpression> = access
                .unmapped
                .iter()
                .map(|rule| UnmappedExpression {
                    pointer: rule.pointer.clone(),
                    absent_claims: rule.absent.clone(),
                })
                .collect();
            let Mapped { roles, attributes } = Mapped::new(access, &roles.into_iter().collect());
            for (name, _) in attributes.iter().filter(|(_, value)| value.is_none()) {
                let pointer = format!("/attributes/{}", validate::pointer_token(name));
                if unmapped.iter().all(|rule| rule.pointer != pointer) {
                    unmapped.push(UnmappedExpression { pointer, absent_claims: Vec::new() });
                }
            }
            let attributes = attributes.into_iter().filter_map(|(name, value)| Some((name, value?)));
            Ok(MappingEvaluation { roles, attributes: attributes.collect(), unmapped })
        };
        self.core.permits.analysis.run(work).await?
    }
}

/// Whether a mapping gives the role `admin` by a rule that was not there before.
pub(crate) fn grants_admin(before: &ClaimsMapping, after: &ClaimsMapping) -> bool {
    after.roles.iter().any(|rule| rule.role == ADMIN_ROLE && !before.roles.contains(rule))
}

fn tag(mapping: &ClaimsMapping) -> u64 {
    let digest = Sha256::digest(format!("{mapping:?}").as_bytes());
    digest.iter().take(8).fold(0, |tag, byte| (tag << 8) | u64::from(*byte))
}

/// Checks the mappings of a model file, whose roles are given. Errors point into the mappings.
pub(crate) fn check_mappings<'a>(
    mappings: &ClaimsMappings,
    roles: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    let roles: Vec<String> = roles.into_iter().cloned().collect();
    for (provider, mapping) in mappings {
        let within = |error: ServiceError| {
            let prefix = format!("/{}", validate::pointer_token(provider));
            error.map_pointers(|pointer| pointer.insert_str(0, &prefix))
        };
        let mut errors = Vec::new();
        if !is_provider_name(provider) {
            let detail = "the name of an identity provider has 1 to 32 of `a-z 0-9 -`";
            errors.push(FieldError::invalid("", detail));
        }
        check_roles(mapping, &roles, &mut errors);
        validate::no_errors(errors).map_err(within)?;
        check_expressions(mapping).map_err(within)?;
    }
    Ok(())
}

fn is_provider_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Checks all but the names of roles. Blocks its thread.
fn check_expressions(mapping: &ClaimsMapping) -> Result<CheckedMapping> {
    let mut errors = Vec::new();
    if mapping.roles.len() > RULES_MAX {
        errors.push(FieldError::invalid("/roles", format!("a mapping has at most {RULES_MAX} rules")));
    }
    if mapping.attributes.len() > ATTRIBUTES_MAX {
        errors.push(FieldError::invalid("/attributes", format!("at most {ATTRIBUTES_MAX} attributes")));
    }
    let conditions =
        mapping.roles.iter().enumerate().map(|(index, rule)| (format!("/roles/{index}/when"), &rule.when));
    let values = mapping
        .attributes
        .iter()
        .map(|(name, value)| (format!("/attributes/{}", validate::pointer_token(name)), value));
    for (pointer, text) in conditions.chain(values) {
        if text.len() > EXPRESSION_MAX_BYTES {
            let detail = format!("an expression of a mapping has at most {EXPRESSION_MAX_BYTES} bytes");
            errors.push(FieldError::invalid(pointer, detail));
        } else {
            validate::text(text, &pointer, usize::MAX, &mut errors);
        }
    }
    let names = mapping.attributes.keys().map(|name| (name.clone(), AttributeValue::Bool(true))).collect();
    validate::attributes(&names, &mut errors);
    validate::no_errors(errors)?;
    check_mapping(mapping).map_err(|errors| {
        ServiceError::Refused(
            errors.into_iter().map(|error| FieldError::policy(error.pointer, error.diagnostic)).collect(),
        )
    })
}

fn check_roles(mapping: &ClaimsMapping, roles: &[String], errors: &mut Vec<FieldError>) {
    for (index, rule) in mapping.roles.iter().enumerate() {
        if !roles.contains(&rule.role) {
            let suggestions = nearest(&rule.role, roles.iter().map(String::as_str));
            let detail = unknown("role", &rule.role, &suggestions);
            errors.push(FieldError::new(format!("/roles/{index}/role"), "unknown_role", detail));
        }
    }
}

fn warnings(mapping: &ClaimsMapping, checked: &CheckedMapping) -> Vec<MappingWarning> {
    let mut found = Vec::new();
    for (index, _) in mapping.roles.iter().enumerate().filter(|(_, rule)| rule.role == ADMIN_ROLE) {
        let detail =
            "everyone who can change this claim at the provider can make themselves administrator here";
        found.push(MappingWarning { pointer: format!("/roles/{index}/role"), detail: detail.to_owned() });
    }
    for (pointer, claims) in checked.claims() {
        let names = |name: &&str| claims.contains(&format!("claims.{name}"));
        let is_verified = ["email_verified", "phone_number_verified"].iter().any(names);
        let unverified = UNVERIFIED_CLAIMS.iter().map(|name| format!("claims.{name}"));
        for claim in unverified.filter(|claim| !is_verified && claims.contains(claim)) {
            let detail = format!(
                "`{claim}` is a claim that people can change themselves at many providers, or that is not verified: map groups \
                 or roles of the provider instead, or also require `claims.email_verified`"
            );
            found.push(MappingWarning { pointer: pointer.clone(), detail });
        }
    }
    found
}
