//! Mapping of the claims of an identity provider to roles and attributes: expressions of the policy language over `claims`
//! instead of spans and the caller.

use std::collections::{BTreeMap, BTreeSet};

use cel::IdedExpr;
use tracewarden_model::claims::claim_reference;
use tracewarden_model::{AccessModel, AttributeValue, Claims, ClaimsMapping};

use crate::check::{Checker, Scope};
use crate::diagnostics::Diagnostic;
use crate::evaluate::evaluate_claims;
use crate::expression::{Kind, Node, Type};
use crate::parse::{on_deep_stack, parse};
use crate::syntax_tree::{claim_path, path};

/// A valid mapping.
#[derive(Debug, Clone)]
pub struct CheckedMapping {
    /// Conditions of the rules, in order, each with its role.
    roles: Vec<(String, Node)>,
    attributes: BTreeMap<String, Node>,
}

/// An error in an expression of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingError {
    /// JSON Pointer from the mapping to the expression.
    pub pointer: String,
    /// The error.
    pub diagnostic: Diagnostic,
}

/// What a person gets from claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MappedAccess {
    /// Roles whose conditions hold.
    pub roles: BTreeSet<String>,
    /// All attributes of the mapping; `None` if the expression has no value.
    pub attributes: BTreeMap<String, Option<AttributeValue>>,
    /// Rules without a result: a claim is absent, or has an unexpected type.
    pub unmapped: Vec<UnmappedRule>,
}

/// A rule of a mapping that has no result for certain claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmappedRule {
    /// JSON Pointer from the mapping to the expression.
    pub pointer: String,
    /// Claims that the expression names and that are absent, sorted. If it is empty, a claim has an unexpected type.
    pub absent: Vec<String>,
}

/// Checks the expressions of a mapping. The names of roles and attributes are not checked.
///
/// # Errors
/// All errors of all expressions; never empty.
pub fn check_mapping(mapping: &ClaimsMapping) -> Result<CheckedMapping, Vec<MappingError>> {
    let work = || {
        let mut errors = Vec::new();
        let mut check = |pointer: String, text: &str, is_condition: bool| {
            let checked = check_expression(text, is_condition);
            let refuse = |diagnostic| MappingError { pointer: pointer.clone(), diagnostic };
            checked.map_err(|found| errors.extend(found.into_iter().map(refuse))).ok()
        };
        let roles = mapping.roles.iter().enumerate().filter_map(|(index, rule)| {
            Some((rule.role.clone(), check(role_pointer(index), &rule.when, true)?))
        });
        let roles = roles.collect();
        let attributes = mapping
            .attributes
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), check(attribute_pointer(name), value, false)?)));
        let attributes = attributes.collect();
        if errors.is_empty() { Ok(CheckedMapping { roles, attributes }) } else { Err(errors) }
    };
    on_deep_stack("checked", work).unwrap_or_else(|diagnostics| {
        let refuse = |diagnostic| MappingError { pointer: String::new(), diagnostic };
        Err(diagnostics.into_iter().map(refuse).collect())
    })
}

fn role_pointer(index: usize) -> String {
    format!("/roles/{index}/when")
}

fn attribute_pointer(name: &str) -> String {
    format!("/attributes/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn check_expression(text: &str, is_condition: bool) -> Result<Node, Vec<Diagnostic>> {
    let model = AccessModel::default();
    let parsed = parse(text, &|_| Err(None))?;
    let scope = Scope::of_claims(&model);
    let mut checker = Checker { parsed: &parsed, scope, errors: Vec::new() };
    let root = match is_condition {
        true => checker.condition(&parsed.root, "the condition of a role"),
        false => checker.attribute(&parsed.root),
    };
    let mut errors = checker.errors;
    errors.sort_by_key(|error| (error.line, error.column));
    root.filter(|_| errors.is_empty()).ok_or(errors)
}

impl CheckedMapping {
    /// Maps the claims of each person.
    ///
    /// # Errors
    /// If no thread is available.
    pub fn evaluate(&self, people: &[Claims]) -> Result<Vec<MappedAccess>, Vec<Diagnostic>> {
        let conditions = self.roles.iter().map(|(_, condition)| condition);
        let expressions: Vec<&Node> = conditions.chain(self.attributes.values()).collect();
        on_deep_stack("evaluated", || {
            let values = evaluate_claims(&expressions, people);
            people.iter().zip(values).map(|(claims, values)| self.mapped(claims, values)).collect()
        })
    }

    fn mapped(&self, claims: &Claims, values: Vec<Option<AttributeValue>>) -> MappedAccess {
        let mut mapped = MappedAccess::default();
        let mut values = values.into_iter();
        for ((index, (role, condition)), value) in self.roles.iter().enumerate().zip(&mut values) {
            match value {
                Some(AttributeValue::Bool(holds)) => mapped.roles.extend(holds.then(|| role.clone())),
                _ => mapped.unmapped.push(UnmappedRule::new(role_pointer(index), condition, claims)),
            }
        }
        for ((name, expression), value) in self.attributes.iter().zip(values) {
            if value.is_none() {
                mapped.unmapped.push(UnmappedRule::new(attribute_pointer(name), expression, claims));
            }
            mapped.attributes.insert(name.clone(), value);
        }
        mapped
    }

    /// Returns the claims that an expression names, by the JSON Pointer to the expression.
    pub fn claims(&self) -> BTreeMap<String, BTreeSet<String>> {
        let roles = self.roles.iter().enumerate().map(|(index, (_, node))| (role_pointer(index), node));
        let attributes = self.attributes.iter().map(|(name, node)| (attribute_pointer(name), node));
        roles.chain(attributes).map(|(pointer, node)| (pointer, named_claims(node))).collect()
    }
}

impl UnmappedRule {
    fn new(pointer: String, expression: &Node, claims: &Claims) -> Self {
        let named = named_claims(expression).into_iter();
        Self { pointer, absent: named.filter(|claim| !claims.0.contains_key(claim)).collect() }
    }
}

fn named_claims(expression: &Node) -> BTreeSet<String> {
    let claim = |node: &Node| match &node.kind {
        Kind::Attribute(claim) | Kind::HasAttribute(claim) => Some(claim.clone()),
        _ => None,
    };
    expression.walk().into_iter().filter_map(claim).collect()
}

impl Checker<'_> {
    /// Checks an expression whose value an attribute gets.
    fn attribute(&mut self, node: &IdedExpr) -> Option<Node> {
        let checked = self.expression(node)?;
        if checked.ty == Type::Int {
            let message = "an attribute is a string, a boolean or a list of strings, this is an integer";
            return self.refuse(node, "type_mismatch", message, "compare the integer, or name a claim");
        }
        Some(checked)
    }

    /// Checks a name or a path in a mapping, which must be a claim.
    pub(super) fn claim(&mut self, node: &IdedExpr) -> Option<Node> {
        match claim_path(node).as_deref() {
            Some([]) => {
                let message = "`claims` is not a value by itself: a mapping names one claim";
                self.refuse(node, "type_mismatch", message, "write for instance `claims.groups`")
            }
            Some(names) => {
                let claim = claim_reference(names.iter().copied());
                Some(self.typed(node, Type::Dynamic, Kind::Attribute(claim)))
            }
            None => {
                let text = self.parsed.snippet(node).unwrap_or("x");
                let hint = match path(node).as_deref() {
                    Some(["user", ..]) => {
                        "a mapping is applied before there is a user: name a claim, such as `claims.groups`"
                            .to_owned()
                    }
                    Some(names) => {
                        let claim = claim_reference(names.iter().copied());
                        format!("if it is a claim, write `{claim}`; if it is text, write `\"{text}\"`")
                    }
                    None => "a claim is written `claims.groups`, or `claims[\"https://example.com/groups\"]`"
                        .to_owned(),
                };
                self.refuse(node, "unknown_name", format!("`{text}` is not a claim"), &hint)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::RoleRule;

    use super::*;

    fn rule(when: &str) -> ClaimsMapping {
        let rule = RoleRule { role: "r".to_owned(), when: when.to_owned() };
        ClaimsMapping { roles: vec![rule], attributes: BTreeMap::new() }
    }

    fn attribute(expression: &str) -> ClaimsMapping {
        ClaimsMapping {
            roles: Vec::new(),
            attributes: BTreeMap::from([("a".to_owned(), expression.to_owned())]),
        }
    }

    fn people(text: &str) -> Vec<Claims> {
        vec![Claims::from_json(&serde_json::from_str(text).unwrap())]
    }

    fn mapped(mapping: &ClaimsMapping, claims: &str) -> MappedAccess {
        check_mapping(mapping).unwrap().evaluate(&people(claims)).unwrap().pop().unwrap()
    }

    const CLAIMS: &str = r#"{"sub": "1", "groups": ["/payments", "/on call"], "active": true, "off": false, "none": [],
        "realm_access": {"roles": ["reader"]}, "https://example.com/team": "blue", "level": 3, "mixed": ["a", 1]}"#;

    #[test]
    fn rules_hold_or_not_or_have_no_result() {
        let holds = |when: &str| {
            let mapped = mapped(&rule(when), CLAIMS);
            assert!(mapped.unmapped.is_empty() || mapped.roles.is_empty());
            mapped.unmapped.is_empty().then_some(!mapped.roles.is_empty())
        };
        for (when, expected) in [
            ("\"/payments\" in claims.groups", Some(true)),
            ("\"/other\" in claims.groups", Some(false)),
            ("claims.groups.exists(g, g.startsWith(\"/on\"))", Some(true)),
            ("claims.groups.exists(g, g.matches(\"^/p.*s$\"))", Some(true)),
            ("size(claims.none) == 0", Some(true)),
            ("\"reader\" in claims.realm_access.roles", Some(true)),
            ("\"reader\" in claims[\"realm_access\"][\"roles\"]", Some(true)),
            ("claims[\"https://example.com/team\"] == \"blue\"", Some(true)),
            ("claims.active", Some(true)),
            ("claims.off", Some(false)),
            ("true", Some(true)),
            ("has(claims.groups)", Some(true)),
            ("has(claims.realm_access.roles)", Some(true)),
            ("has(claims.absent)", Some(false)),
            ("\"groups\" in claims", Some(true)),
            // An absent claim gives no result, whatever is asked of it.
            ("\"a\" in claims.absent", None),
            ("!(\"a\" in claims.absent)", None),
            ("claims.absent != \"a\"", None),
            ("claims.realm_access.groups.all(g, g != \"a\")", None),
            // Claims of other types are absent.
            ("claims.level == \"3\"", None),
            ("!(\"a\" in claims.mixed)", None),
            ("has(claims.level)", Some(false)),
            // As in policies, a decisive side hides an error of the other.
            ("claims.active || claims.absent", Some(true)),
            ("claims.off && claims.absent", Some(false)),
            ("claims.active && claims.absent", None),
            // A value of an unexpected type.
            ("claims.sub", None),
            ("claims.groups", None),
            ("claims.groups.contains(\"a\")", None),
        ] {
            assert_eq!(holds(when), expected, "{when}");
        }
    }

    #[test]
    fn attributes_get_strings_booleans_and_lists_of_strings() {
        let value = |expression: &str| mapped(&attribute(expression), CLAIMS).attributes.remove("a").unwrap();
        let text = |text: &str| Some(AttributeValue::String(text.to_owned()));
        let list = |texts: &[&str]| {
            Some(AttributeValue::Strings(texts.iter().map(|&text| text.to_owned()).collect()))
        };
        assert_eq!(value("claims.sub"), text("1"));
        assert_eq!(value("claims.groups"), list(&["/payments", "/on call"]));
        assert_eq!(value("claims.none"), list(&[]));
        assert_eq!(value("claims.active"), Some(AttributeValue::Bool(true)));
        assert_eq!(value("[\"x\", claims.sub]"), list(&["x", "1"]));
        assert_eq!(value("\"/payments\" in claims.groups ? \"pay\" : \"other\""), text("pay"));
        assert_eq!(value("claims.absent"), None);
        assert_eq!(value("[claims.active]"), None);
    }

    #[test]
    fn unmapped_rules_name_the_absent_claims() {
        let unmapped =
            mapped(&rule("claims.b == \"1\" && \"x\" in claims.a && claims.active"), CLAIMS).unmapped;
        let absent = vec!["claims.a".to_owned(), "claims.b".to_owned()];
        assert_eq!(unmapped, [UnmappedRule { pointer: "/roles/0/when".to_owned(), absent }]);
        let unmapped =
            mapped(&attribute("claims.groups.size() > 1 ? claims.absent : claims.sub"), CLAIMS).unmapped;
        assert_eq!(unmapped[0].absent, ["claims.absent"]);
        let unmapped = mapped(&rule("claims.sub"), CLAIMS).unmapped;
        assert_eq!(unmapped[0].absent, Vec::<String>::new());
    }

    #[test]
    fn errors_have_positions_and_say_what_to_write() {
        let refused = |mapping: &ClaimsMapping| {
            let errors = check_mapping(mapping).unwrap_err();
            let MappingError { pointer, diagnostic } = errors.first().unwrap();
            let hint = diagnostic.hint.as_deref().unwrap_or_default();
            format!("{pointer} {} {}; {hint}", diagnostic.code, diagnostic.message)
        };
        for (when, expected) in [
            (
                "groups == \"a\"",
                "unknown_name `groups` is not a claim; if it is a claim, write `claims.groups`",
            ),
            ("\"a\" in user.roles", "a mapping is applied before there is a user"),
            ("SpanAttributes[\"a\"] == \"b\"", "unknown_name `SpanAttributes[\"a\"]` is not a claim"),
            ("claims == \"a\"", "type_mismatch `claims` is not a value by itself"),
            ("claims[claims.sub] == \"a\"", "is not a claim"),
            ("has(claims)", "`has` takes a claim"),
            ("\"a\"", "type_mismatch the condition of a role must be a boolean, this is a string"),
            ("claims.a.exists(claims, true)", "already means something else"),
            ("claims.a.exists(x, claims.b.exists(y, x == y))", "macros cannot be nested"),
            ("claims.groups.map(g, g) == []", "unknown_function"),
            ("claims.a ==", "syntax"),
            ("", "syntax the expression is empty"),
        ] {
            let refused = refused(&rule(when));
            assert!(refused.starts_with("/roles/0/when ") && refused.contains(expected), "{when}: {refused}");
        }
        assert!(refused(&attribute("size(claims.groups)")).contains("this is an integer"));
        let both = ClaimsMapping { attributes: attribute("x").attributes, ..rule("y") };
        assert_eq!(check_mapping(&both).unwrap_err().len(), 2);
    }

    #[test]
    fn policies_cannot_name_claims() {
        let errors = crate::check("claims.groups == \"a\"", &AccessModel::default()).unwrap_err();
        assert_eq!(errors[0].code, "unmarked_field");
    }

    #[test]
    fn named_claims_are_listed_by_expression() {
        let mapping = rule("has(claims.email) && claims[\"a.b\"] == claims.sub");
        let claims = check_mapping(&mapping).unwrap().claims();
        let expected = ["claims.email", "claims.sub", "claims[\"a.b\"]"].map(str::to_owned);
        assert_eq!(claims, BTreeMap::from([("/roles/0/when".to_owned(), BTreeSet::from(expected))]));
    }
}
