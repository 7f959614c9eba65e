//! Resolves names: variables of macros, members of the caller, and marked fields.

use std::sync::Arc;

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};
use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, FieldSource, LogicalType, MarkedField, nearest::nearest};

use crate::check::{Checker, text_literal};
use crate::expression::{Kind, Node, Type};

/// How an administrator makes a field available to policies.
const MARK_FIELD_HINT: &str = "an administrator can mark it with `policy` in the trace source's fields";

/// Returns the names of a chain of selections such as `a.b.c`, outermost first.
pub(super) fn path(node: &IdedExpr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut node = node;
    loop {
        match &node.expr {
            Expr::Ident(name) => {
                names.push(name.as_str());
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) => {
                names.push(select.field.as_str());
                node = &select.operand;
            }
            _ => return None,
        }
    }
}

/// Whether this is `user.attributes`.
pub(super) fn is_user_attributes(node: &IdedExpr) -> bool {
    path(node).as_deref() == Some(&["user", "attributes"])
}

impl Checker<'_> {
    fn variable(&self, name: &str) -> Option<(u32, Type)> {
        self.scope.iter().rev().find(|(known, ..)| known == name).map(|(_, variable, ty)| (*variable, *ty))
    }

    /// Returns the name of the map column that this expression refers to, unless a variable shadows it.
    pub(super) fn map_named(&self, node: &IdedExpr) -> Option<String> {
        let name = path(node)?.join(".");
        let known = self.model.fields.iter().any(|field| field.field.map.as_deref() == Some(name.as_str()));
        (known && self.variable(&name).is_none()).then_some(name)
    }

    /// Whether a variable must not have this name, because it would shadow another name.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        name == "user"
            || self.model.fields.iter().any(|field| {
                let column = field.field.map.as_deref().unwrap_or(&field.field.name);
                column.split('.').next() == Some(name)
            })
    }

    /// Whether this is the name of a JSON column with marked paths.
    pub(super) fn is_json(&self, map: &str) -> bool {
        self.source_of(map) == Some(FieldSource::JsonPath) && self.variable(map).is_none()
    }

    /// Whether a single word is a known name.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.variable(name).is_some() || self.is_reserved(name)
    }

    /// Returns the source of values of a map column or of a JSON column's paths.
    pub(super) fn source_of(&self, map: &str) -> Option<FieldSource> {
        let mut fields = self.model.fields.iter();
        fields.find(|field| field.field.map.as_deref() == Some(map)).map(|field| field.source)
    }

    /// Checks an identifier or a chain of selections.
    pub(super) fn name(&mut self, node: &IdedExpr) -> Option<Node> {
        let Some(names) = path(node) else { return self.member(node) };
        let root = names.first().copied().unwrap_or_default();
        if let Some((variable, ty)) = self.variable(root) {
            if names.len() > 1 {
                let message = format!("`{root}` is an element of a list and has no members");
                let hint = suggest_member_call(root, names.last().copied().unwrap_or_default());
                return self.refuse(node, "unsupported", message, &hint.unwrap_or_default());
            }
            return Some(self.typed(node, ty, Kind::Variable(variable)));
        }
        if root == "user" {
            return self.user(node, &names);
        }
        let joined = names.join(".");
        let column = FieldRef::column(&joined);
        if self.model.field(&column).is_some() {
            return self.field(node, &column);
        }
        if self.map_named(node).is_some() {
            let message = format!("`{joined}` is a map: a policy names one of its keys");
            let hint = format!("write for instance `{}`", self.example_of(&joined));
            return self.refuse(node, "type_mismatch", message, &hint);
        }
        if let [map, keys @ ..] = names.as_slice()
            && let Some(source) = self.source_of(map)
        {
            let key = FieldRef::key(*map, keys.join("."));
            if keys.len() == 1 || (source == FieldSource::JsonPath && self.model.field(&key).is_some()) {
                return self.field(node, &key);
            }
            return self.path_of_map(node, map, keys, source);
        }
        // `ServiceName.length`
        if let [columns @ .., last] = names.as_slice()
            && self.model.field(&FieldRef::column(columns.join("."))).is_some()
            && let Some(hint) = suggest_member_call(&columns.join("."), last)
        {
            let message = format!("`{}` is a value and has no members", columns.join("."));
            return self.refuse(node, "unsupported", message, &hint);
        }
        if names.len() == 1 && !self.is_known(root) {
            match root.to_ascii_lowercase().as_str() {
                truth @ ("true" | "false") => {
                    let hint = format!("write `{truth}`");
                    return self.refuse(node, "unknown_name", format!("`{root}` is not known"), &hint);
                }
                _ if is_null_keyword(root) => {
                    let hint = self.suggest_key_test();
                    let message = format!("`{root}` is not supported in a policy");
                    return self.refuse(node, "unsupported", message, &hint);
                }
                _ => {}
            }
        }
        if self.lookalikes(&column).is_empty()
            && self.suggest_caller_member(&column).is_none()
            && !self.is_known(root)
        {
            let message = format!("`{joined}` is neither a field that policies can name nor text in quotes");
            let hint = format!("if it is text, write `\"{joined}\"`; {MARK_FIELD_HINT} if it is a column");
            return self.refuse(node, "unmarked_field", message, &hint);
        }
        self.field(node, &column)
    }

    /// Checks `SpanAttributes.tenant.id`: a key that contains dots, or a member of a key.
    fn path_of_map(
        &mut self,
        node: &IdedExpr,
        map: &str,
        keys: &[&str],
        source: FieldSource,
    ) -> Option<Node> {
        let whole = FieldRef::key(map, keys.join("."));
        let is_json = source == FieldSource::JsonPath;
        if let [key @ .., last] = keys
            && self.model.field(&FieldRef::key(map, key.join("."))).is_some()
            && self.model.field(&whole).is_none()
            && (key.len() == 1 || is_json)
            && let Some(hint) = suggest_member_call(&format!("{map}.{}", key.join(".")), last)
        {
            return self.refuse(node, "unsupported", "a string has no members", &hint);
        }
        if is_json {
            return self.field(node, &whole);
        }
        let hint = match self.model.field(&whole) {
            Some(_) => format!("a key with dots is written in quotes: `{whole}`"),
            None => match self.lookalikes(&whole).first() {
                Some(name) => format!("a key with dots is written in quotes: did you mean `{name}`?"),
                None => format!("a key with dots is written in quotes: `{whole}`"),
            },
        };
        let message = format!("the keys of `{map}` have no members");
        self.refuse(node, "unsupported", message, &hint)
    }

    /// Checks a selection from an expression that is not a name: `SpanAttributes["env"].size`.
    fn member(&mut self, node: &IdedExpr) -> Option<Node> {
        let Expr::Select(select) = &node.expr else {
            return self.refuse(node, "unsupported", "this value has no members", "");
        };
        if let Some(map) = indexed_caller_member(&select.operand) {
            let hint = format!("write `user.{map}.{}`", select.field);
            return self.refuse(node, "unsupported", "the caller cannot be indexed", &hint);
        }
        if let Some(whole) = self.dotted_key(&select.operand, &select.field)
            && self.model.field(&whole).is_some()
        {
            let hint = format!("a key with dots is written as one: `{whole}`");
            return self.refuse(node, "unsupported", "the keys of a map have no members", &hint);
        }
        self.expression(&select.operand)?;
        let operand = self.operand(&select.operand, "x");
        let hint = suggest_member_call(&operand, &select.field).unwrap_or_default();
        self.refuse(node, "unsupported", "this value has no members", &hint)
    }

    /// For `M["a"].b` and `M["a"]["b"]`, returns the key `a.b` that was probably intended.
    fn dotted_key(&self, operand: &IdedExpr, last: &str) -> Option<FieldRef> {
        let Expr::Call(call) = &operand.expr else { return None };
        let [container, key] = call.args.as_slice() else { return None };
        let map = self.map_named(container).filter(|_| call.func_name == operators::INDEX)?;
        Some(FieldRef::key(map, format!("{}.{last}", text_literal(key)?)))
    }

    fn user(&mut self, node: &IdedExpr, names: &[&str]) -> Option<Node> {
        match names {
            [_, "username"] => Some(self.typed(node, Type::Text, Kind::Username)),
            [_, "roles"] => Some(self.typed(node, Type::List, Kind::Roles)),
            [_, "attributes", name] => {
                Some(self.typed(node, Type::Dynamic, Kind::Attribute((*name).to_owned())))
            }
            [_] => {
                let hint = "write `user.username`, `user.roles` or `user.attributes.team`";
                self.refuse(node, "type_mismatch", "`user` is not a value by itself", hint)
            }
            [_, "attributes"] => {
                let message = "`user.attributes` is not a value by itself: a policy names one attribute";
                self.refuse(node, "type_mismatch", message, "write for instance `user.attributes.team`")
            }
            [_, "attributes", rest @ ..] => {
                let hint = match rest {
                    [name @ .., last] => {
                        suggest_member_call(&format!("user.attributes.{}", name.join(".")), last)
                    }
                    [] => None,
                };
                let hint = hint.unwrap_or_else(|| {
                    let name = rest.join(".");
                    format!("an attribute whose name has dots is written `user.attributes[\"{name}\"]`")
                });
                self.refuse(node, "unsupported", "attributes have no members", &hint)
            }
            [_, "roles", role] => {
                let hint = suggest_member_call("user.roles", role)
                    .unwrap_or_else(|| format!("to test for a role, write `\"{role}\" in user.roles`"));
                self.refuse(node, "unsupported", "`user.roles` is a list and has no members", &hint)
            }
            [_, "username", last] => {
                let hint = suggest_member_call("user.username", last).unwrap_or_default();
                self.refuse(node, "unsupported", "`user.username` is a string and has no members", &hint)
            }
            [_, wrong, rest @ ..] => {
                let tail: String = rest.iter().map(|name| format!(".{name}")).collect();
                let hint = match caller_member(wrong) {
                    Some(member) => format!("did you mean `user.{member}{tail}`?"),
                    None => format!("an attribute is written `user.attributes.{wrong}{tail}`"),
                };
                self.refuse(node, "unknown_name", format!("the caller has no `{wrong}`"), &hint)
            }
            [] => None,
        }
    }

    /// Checks `container[key]`.
    pub(super) fn index(&mut self, node: &IdedExpr, container: &IdedExpr, key: &IdedExpr) -> Option<Node> {
        let literal = text_literal(key);
        if is_user_attributes(container) {
            return match literal {
                Some(name) => Some(self.typed(node, Type::Dynamic, Kind::Attribute(name.to_owned()))),
                None => {
                    let message = "the name of an attribute must be a string literal";
                    let hint = match path(key) {
                        Some(names) if !self.is_known(names.first().copied().unwrap_or_default()) => {
                            format!("put it in quotes: `user.attributes[\"{}\"]`", names.join("."))
                        }
                        _ => "write for instance `user.attributes[\"team\"]`".to_owned(),
                    };
                    self.refuse(key, "unsupported", message, &hint)
                }
            };
        }
        if path(container).as_deref() == Some(&["user"]) {
            let hint = match literal.map(|name| (name, caller_member(name))) {
                Some((_, Some(member))) => format!("write `user.{member}`"),
                Some((name, None)) => {
                    format!("an attribute is written `user.attributes[\"{}\"]`", escape(name))
                }
                None => "write `user.username`, `user.roles` or `user.attributes.team`".to_owned(),
            };
            return self.refuse(node, "unsupported", "the caller cannot be indexed", &hint);
        }
        let names = path(container);
        if let Some(name) = &names
            && name.first().is_some_and(|root| *root != "user" && self.variable(root).is_none())
            && self.model.field(&FieldRef::column(name.join("."))).is_none()
            && (name.len() == 1 || self.source_of(name.first().copied().unwrap_or_default()).is_none())
        {
            let map = name.join(".");
            return match literal {
                Some(key) => self.field(node, &FieldRef::key(map, key)),
                None => {
                    let hint = match path(key) {
                        Some(names) if !self.is_known(names.first().copied().unwrap_or_default()) => {
                            format!("put it in quotes: `{}`", FieldRef::key(map, names.join(".")))
                        }
                        _ => format!("write for instance `{}`", self.example_of(&map)),
                    };
                    self.refuse(key, "unsupported", "the key of a map must be a string literal", &hint)
                }
            };
        }
        if let Some(member) = indexed_caller_member(container) {
            let hint = match literal {
                Some(name) => format!("write `user.{member}[\"{}\"]`", escape(name)),
                None => format!("write `user.{member}`"),
            };
            return self.refuse(node, "unsupported", "the caller cannot be indexed", &hint);
        }
        let whole = literal.and_then(|last| self.dotted_key(container, last)).or_else(|| {
            let [map, keys @ ..] = names.as_deref()? else { return None };
            let last = literal.filter(|_| self.source_of(map).is_some() && !keys.is_empty())?;
            Some(FieldRef::key(*map, format!("{}.{last}", keys.join("."))))
        });
        if let Some(whole) = whole {
            let hint = format!("a key with dots is written as one: `{whole}`");
            return self.refuse(node, "unsupported", "the keys of a map have no members", &hint);
        }
        let checked = self.expression(container)?;
        let list = self.operand(container, "list");
        let message = format!("only maps can be indexed in a policy, this is {}", checked.ty.name());
        let hint = match (literal, checked.ty) {
            (Some(_), Type::Text) => format!("a string is compared whole, as in `{list} == \"…\"`"),
            (Some(_), _) => {
                format!("to look for an element, write `{} in {list}`", self.operand(key, "x"))
            }
            (None, Type::Text) => "to test how it begins, write `startsWith`".to_owned(),
            (None, _) => format!("to test the elements, write `{list}.exists(v, v == \"…\")`"),
        };
        self.refuse(node, "unsupported", message, &hint)
    }

    /// Checks a marked field that is used as a value.
    pub(super) fn field(&mut self, node: &IdedExpr, reference: &FieldRef) -> Option<Node> {
        let field = self.resolve_policy_field(node, reference)?;
        let ty = match field.logical {
            LogicalType::StringArray => Type::List,
            LogicalType::Boolean => Type::Bool,
            _ => Type::Text,
        };
        Some(self.typed(node, ty, Kind::Field(field)))
    }

    /// Returns the marked field if policies may use it. Only this function decides that.
    pub(super) fn resolve_policy_field(
        &mut self,
        node: &IdedExpr,
        reference: &FieldRef,
    ) -> Option<Arc<MarkedField>> {
        match self.model.field(reference) {
            Some(field) if field.logical == LogicalType::Number => self.refuse(
                node,
                "number_field",
                format!("`{reference}` is a number, and policies cannot use numbers"),
                "numbers can be used in filters only: leave the condition out, or name a field of another type",
            ),
            Some(field) if field.policy => Some(Arc::new(field.clone())),
            Some(_) => self.refuse(
                node,
                "unmarked_field",
                format!("`{reference}` is not marked as a policy input"),
                MARK_FIELD_HINT,
            ),
            None => {
                let hint = self.suggest_field(reference);
                let message = format!("`{reference}` is not a field that policies can name");
                self.refuse(node, "unmarked_field", message, &hint)
            }
        }
    }

    /// Suggests a replacement for a field that does not exist.
    fn suggest_field(&self, reference: &FieldRef) -> String {
        if let Some(name) =
            self.suggest_caller_member(reference).or_else(|| self.lookalikes(reference).into_iter().next())
        {
            return format!("did you mean `{name}`?");
        }
        let mut named: Vec<String> = self.policy_fields().map(|field| field.field.to_string()).collect();
        // Fields of the same map are more likely to be intended.
        named.sort_by_key(|name| {
            reference
                .map
                .as_ref()
                .is_none_or(|map| !name.strip_prefix(map.as_str()).is_some_and(|rest| rest.starts_with('[')))
        });
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
    fn suggest_caller_member(&self, reference: &FieldRef) -> Option<String> {
        let column = reference.map.as_deref().unwrap_or(&reference.name);
        let (root, rest) = column.split_once('.')?;
        if !root.eq_ignore_ascii_case("user") || self.is_known(root) {
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
    pub(super) fn same_letters(&self, reference: &FieldRef) -> Vec<String> {
        let wanted = normalize_name(&reference.name);
        if wanted.is_empty() {
            return Vec::new();
        }
        let same = self.policy_fields().filter(|field| normalize_name(&field.field.name) == wanted);
        same.map(|field| field.field.to_string()).collect()
    }

    /// Returns names that are similar to an unknown name, best first.
    pub(super) fn lookalikes(&self, reference: &FieldRef) -> Vec<String> {
        let mut found = self.same_letters(reference);
        // Names of one or two letters are similar to too many others.
        if reference.name.len() > 2 {
            found.extend(self.model.suggest(reference, |field| field.policy));
        }
        if reference.map.is_none()
            && let Some(member) = caller_member(&reference.name)
        {
            found.push(format!("user.{member}"));
        }
        found
    }
}

/// Returns the member of the caller that a name probably means.
fn caller_member(name: &str) -> Option<&'static str> {
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

/// Whether this is the name of a null value in another language.
pub(super) fn is_null_keyword(name: &str) -> bool {
    ["null", "none", "nil", "undefined"].iter().any(|null| name.eq_ignore_ascii_case(null))
}

/// Returns the ASCII letters and digits of a name, in lower case.
fn normalize_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Suggests the call of a function that was written as a member of a value.
fn suggest_member_call(value: &str, member: &str) -> Option<String> {
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
fn indexed_caller_member(node: &IdedExpr) -> Option<&'static str> {
    let Expr::Call(call) = &node.expr else { return None };
    let [container, key] = call.args.as_slice() else { return None };
    let is_index = call.func_name == operators::INDEX && path(container).as_deref() == Some(&["user"]);
    caller_member(text_literal(key).filter(|_| is_index)?)
}
