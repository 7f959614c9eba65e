//! Advice on a policy from users: whether any user has the attributes that it reads, and with a suitable type.

use std::collections::BTreeSet;

use tracewarden_appdb::{AttributeKinds, KnownAttributes};
use tracewarden_model::AttributeKind;
use tracewarden_model::nearest::nearest;
use tracewarden_policy::{AttributeUse, CheckedPolicy, Diagnostic, RoleUse};

/// Data about users that the advice needs.
pub(super) struct Users {
    /// Attributes of users; `None` if there are too many distinct sets, or no policy needs them.
    pub(super) attributes: Option<KnownAttributes>,
    /// Names of all roles; `None` if no policy needs them.
    pub(super) roles: Option<Vec<String>>,
}

/// All users, or those who have the role of the policy.
struct Population<'a> {
    known: &'a KnownAttributes,
    /// Number of users with the role; `None` for all users.
    holders: Option<u64>,
}

impl Users {
    /// Returns advice on one policy, sorted by position in the text.
    pub(super) fn warnings(&self, policy: &CheckedPolicy) -> Vec<Diagnostic> {
        let mut found: Vec<Diagnostic> = Vec::new();
        if let Some(known) = &self.attributes {
            let mut seen = BTreeSet::new();
            for attribute in policy.attributes() {
                if let Some(warning) = attribute_warning(&attribute, known)
                    && seen.insert((attribute.name.clone(), warning.code, attribute.accepted_kinds))
                {
                    found.push(warning);
                }
            }
        }
        if let Some(roles) = &self.roles {
            found.extend(policy.roles().iter().filter_map(|role| role_warning(role, roles)));
        }
        found.sort_by_key(|warning| (warning.line, warning.column));
        found
    }
}

fn attribute_warning(attribute: &AttributeUse, known: &KnownAttributes) -> Option<Diagnostic> {
    let all_users = Population { known, holders: None };
    if all_users.kinds(&attribute.name).is_empty() {
        return Some(all_users.missing(attribute));
    }
    let population = match known.holders {
        0 => all_users,
        holders => Population { known, holders: Some(holders) },
    };
    let kinds = population.kinds(&attribute.name);
    if kinds.is_empty() {
        Some(population.missing(attribute))
    } else if kinds.iter().any(|kind| attribute.accepted_kinds.contains(kind)) {
        None
    } else {
        Some(population.unusable(attribute, &kinds))
    }
}

impl Population<'_> {
    /// Returns the types of value that the attribute has among these users.
    fn kinds(&self, name: &str) -> BTreeSet<AttributeKind> {
        let kinds = self.known.kinds.get(name);
        kinds.map(|kinds| self.kinds_in_population(kinds).clone()).unwrap_or_default()
    }

    fn kinds_in_population<'k>(&self, kinds: &'k AttributeKinds) -> &'k BTreeSet<AttributeKind> {
        if self.holders.is_some() { &kinds.with_role } else { &kinds.all }
    }

    fn missing(&self, attribute: &AttributeUse) -> Diagnostic {
        let name = &attribute.name;
        let message = match self.holders {
            None => format!("no user has the attribute `{name}`"),
            Some(1) => format!("the one user with this role has no attribute `{name}`"),
            Some(holders) => format!("none of the {holders} users with this role has the attribute `{name}`"),
        };
        let known = self.known.kinds.iter().filter(|(_, kinds)| !self.kinds_in_population(kinds).is_empty());
        let known: BTreeSet<&str> = known.map(|(name, _)| name.as_str()).collect();
        let hint = match nearest(name, known).first() {
            Some(close) => format!("did you mean `user.attributes[\"{close}\"]`?"),
            None => "set it for the intended users; without it, the policy grants them no access".to_owned(),
        };
        diagnostic(attribute, "unknown_attribute", message, hint)
    }

    fn unusable(&self, attribute: &AttributeUse, kinds: &BTreeSet<AttributeKind>) -> Diagnostic {
        let name = &attribute.name;
        let list = |kinds: Vec<AttributeKind>| {
            kinds.iter().map(AttributeKind::to_string).collect::<Vec<_>>().join(" or ")
        };
        let for_users = match self.holders {
            None => "for every user who has it",
            Some(_) => "for every user with this role who has it",
        };
        let message = format!(
            "`{name}` is {} {for_users}, but this needs {}",
            list(kinds.iter().copied().collect()),
            list(attribute.accepted_kinds.to_vec())
        );
        let is_list = kinds.contains(&AttributeKind::Strings);
        let hint = match attribute.accepted_kinds {
            [AttributeKind::String] if is_list => {
                format!("to look for a value in the list, write `x in user.attributes[\"{name}\"]`")
            }
            [AttributeKind::Strings] if kinds.contains(&AttributeKind::String) => {
                format!("to compare with one string, write `x == user.attributes[\"{name}\"]`")
            }
            [AttributeKind::Bool] if kinds.contains(&AttributeKind::String) => {
                format!("to compare with a string, write `user.attributes[\"{name}\"] == \"…\"`")
            }
            _ => "give the attribute another value, or compare it with a value of its type".to_owned(),
        };
        diagnostic(attribute, "attribute_kind", message, hint)
    }
}

fn diagnostic(attribute: &AttributeUse, code: &'static str, message: String, hint: String) -> Diagnostic {
    let AttributeUse { line, column, length, .. } = *attribute;
    Diagnostic { line, column, length, code, message, hint: Some(hint) }
}

fn role_warning(role: &RoleUse, known: &[String]) -> Option<Diagnostic> {
    let RoleUse { name, line, column, length } = role;
    if known.contains(name) {
        return None;
    }
    let hint = match nearest(name, known.iter().map(String::as_str)).first() {
        Some(close) => format!("did you mean `{close}`?"),
        None => "no user can have a role that does not exist".to_owned(),
    };
    let message = format!("there is no role `{name}`");
    let (line, column, length) = (*line, *column, *length);
    Some(Diagnostic { line, column, length, code: "unknown_role", message, hint: Some(hint) })
}
