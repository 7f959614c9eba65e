//! Suggestions for names that are not known: fields, and members of the caller.

use cel::IdedExpr;
use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, nearest::nearest};

use crate::check::suggestions::Suggester;
use crate::syntax_tree::{index, path, text_literal};

/// How an administrator makes a field available to policies.
pub(in crate::check) const MARK_FIELD_HINT: &str =
    "an administrator can mark it with `policy` in the trace source's fields";

impl Suggester<'_> {
    /// Suggests a replacement for a field that does not exist.
    pub(in crate::check) fn field(&self, reference: &FieldRef) -> String {
        if let Some(name) =
            self.caller_member(reference).or_else(|| self.lookalikes(reference).into_iter().next())
        {
            return format!("did you mean `{name}`?");
        }
        let mut named: Vec<&FieldRef> = self.scope.policy_fields().map(|field| &field.field).collect();
        // Fields of the same map are more likely to be intended.
        named.sort_by_key(|field| reference.map.is_none() || field.map != reference.map);
        const MAX_LISTED_FIELDS: usize = 4;
        let more = named.len().saturating_sub(MAX_LISTED_FIELDS);
        let shown: Vec<String> =
            named.iter().take(MAX_LISTED_FIELDS).map(|name| format!("`{name}`")).collect();
        match (shown.is_empty(), more) {
            (true, _) => MARK_FIELD_HINT.to_owned(),
            (_, 0) => format!("policies can name {}; {MARK_FIELD_HINT}", shown.join(", ")),
            (_, more) => format!("policies can name {} and {more} more; {MARK_FIELD_HINT}", shown.join(", ")),
        }
    }

    /// Recognises `User.username`: a member of the caller, written in another letter case.
    pub(in crate::check) fn caller_member(&self, reference: &FieldRef) -> Option<String> {
        let column = reference.map.as_deref().unwrap_or(&reference.name);
        let (root, rest) = column.split_once('.')?;
        if !root.eq_ignore_ascii_case("user") || self.scope.is_known(root) {
            return None;
        }
        let (member, tail) = rest.split_once('.').map_or((rest, None), |(member, tail)| (member, Some(tail)));
        let known = caller_member(member);
        Some(match (known, tail, &reference.map) {
            (Some("attributes"), None, Some(_)) => {
                format!("user.attributes[\"{}\"]", escape(&reference.name))
            }
            (Some("attributes"), Some(name), _) => format!("user.attributes.{name}"),
            (Some("attributes"), None, None) => "user.attributes.team".to_owned(),
            (Some(member), ..) => format!("user.{member}"),
            (None, ..) => format!("user.attributes.{member}"),
        })
    }

    /// Returns the fields whose names have the same letters and digits: `service.name` for `ServiceName`, `tenant_id`
    /// for `SpanAttributes["tenant.id"]`, the key of another map.
    pub(in crate::check) fn same_letters(&self, reference: &FieldRef) -> Vec<String> {
        let wanted = normalize_name(&reference.name);
        if wanted.is_empty() {
            return Vec::new();
        }
        let same = self.scope.policy_fields().filter(|field| normalize_name(&field.field.name) == wanted);
        same.map(|field| field.field.to_string()).collect()
    }

    /// Returns names that are similar to an unknown name, best first.
    pub(in crate::check) fn lookalikes(&self, reference: &FieldRef) -> Vec<String> {
        let mut found = self.same_letters(reference);
        // Names of one or two letters are similar to too many others.
        if reference.name.len() > 2 {
            found.extend(self.scope.model.suggest(reference, |field| field.policy));
        }
        if reference.map.is_none()
            && let Some(member) = caller_member(&reference.name)
        {
            found.push(format!("user.{member}"));
        }
        found
    }

    /// For `M["a"].b` and `M["a"]["b"]`, returns the key `a.b` that was probably intended.
    pub(in crate::check) fn dotted_key(&self, operand: &IdedExpr, last: &str) -> Option<FieldRef> {
        let (container, key) = index(operand)?;
        Some(FieldRef::key(self.scope.map_named(container)?, format!("{}.{last}", text_literal(key)?)))
    }
}

/// Returns the member of the caller that a name probably means.
pub(in crate::check) fn caller_member(name: &str) -> Option<&'static str> {
    match normalize_name(name).as_str() {
        "name" | "login" | "user" | "id" | "userid" => return Some("username"),
        "groups" | "group" | "role" => return Some("roles"),
        "attr" | "attrs" | "claims" | "properties" => return Some("attributes"),
        _ => {}
    }
    let members = ["username", "roles", "attributes"];
    let close = nearest(name, members).into_iter().next().filter(|_| name.len() > 3)?;
    members.into_iter().find(|member| **member == close)
}

/// Returns the ASCII letters and digits of a name, in lower case.
fn normalize_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Suggests the call of a function that was written as a member of a value.
pub(in crate::check) fn member_call(value: &str, member: &str) -> Option<String> {
    let written = match normalize_name(member).as_str() {
        "size" | "length" | "len" | "count" => format!("size({value})"),
        "startswith" => format!("{value}.startsWith(\"…\")"),
        "endswith" => format!("{value}.endsWith(\"…\")"),
        "contains" | "includes" => format!("{value}.contains(\"…\")"),
        "matches" => format!("{value}.matches(\"…\")"),
        _ => return None,
    };
    Some(format!("write `{written}`"))
}

/// Returns the member in `user["member"]`.
pub(in crate::check) fn indexed_caller_member(node: &IdedExpr) -> Option<&'static str> {
    let (container, key) = index(node)?;
    caller_member(text_literal(key).filter(|_| path(container).as_deref() == Some(&["user"]))?)
}
