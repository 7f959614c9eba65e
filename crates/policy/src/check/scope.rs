//! The names that an expression can use: variables of the macros around it, the caller, and marked fields.

use cel::IdedExpr;
use cel::common::ast::Expr;
use tracewarden_model::{AccessModel, FieldSource, MarkedField};

use crate::expression::Type;
use crate::syntax_tree::path;

/// Prefixes of functions of other CEL environments, as in `sets.contains(a, b)`. They are not values.
const NAMESPACES: [&str; 16] = [
    "sets", "lists", "maps", "strings", "math", "optional", "regex", "base64", "json", "cel", "ip", "cidr",
    "net", "url", "semver", "time",
];

/// The names that the current expression can use.
pub(super) struct Scope<'a> {
    pub(super) model: &'a AccessModel,
    /// Whether the expression reads the claims of an identity provider, and neither spans nor the caller.
    pub(super) reads_claims: bool,
    /// Variables of the macros around the current expression, innermost last.
    variables: Vec<(String, u32, Type)>,
    /// Number of variables of all macros so far.
    count: u32,
}

impl<'a> Scope<'a> {
    pub(super) fn new(model: &'a AccessModel) -> Self {
        Self { model, reads_claims: false, variables: Vec::new(), count: 0 }
    }

    /// Creates the scope of a mapping. The model must be empty.
    pub(super) fn of_claims(model: &'a AccessModel) -> Self {
        Self { reads_claims: true, ..Self::new(model) }
    }

    /// Adds the variable of a macro for the check of its body. Returns its number, which no other variable has.
    pub(super) fn bind(&mut self, name: &str, ty: Type) -> u32 {
        self.count += 1;
        self.variables.push((name.to_owned(), self.count, ty));
        self.count
    }

    pub(super) fn unbind(&mut self) {
        self.variables.pop();
    }

    pub(super) fn depth(&self) -> usize {
        self.variables.len()
    }

    /// Returns the number and the type of the variable with this name.
    pub(super) fn variable(&self, name: &str) -> Option<(u32, Type)> {
        self.variables
            .iter()
            .rev()
            .find(|(known, ..)| known == name)
            .map(|(_, variable, ty)| (*variable, *ty))
    }

    /// Returns the name of the map column that this expression refers to, unless a variable shadows it.
    pub(super) fn map_named(&self, node: &IdedExpr) -> Option<String> {
        let name = path(node)?.join(".");
        (self.source_of(&name).is_some() && self.variable(&name).is_none()).then_some(name)
    }

    /// Whether a variable must not have this name, because it would shadow another name.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        name == if self.reads_claims { "claims" } else { "user" }
            || self.model.fields.iter().any(|field| {
                let column = field.field.map.as_deref().unwrap_or(&field.field.name);
                column.split('.').next() == Some(name)
            })
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

    pub(super) fn policy_fields(&self) -> impl Iterator<Item = &MarkedField> {
        self.model.fields.iter().filter(|field| field.policy)
    }

    /// Returns the library that a call names, unless it is a field.
    pub(super) fn namespace<'e>(&self, target: &'e IdedExpr) -> Option<&'e str> {
        match &target.expr {
            Expr::Ident(name) if NAMESPACES.contains(&name.as_str()) && !self.is_known(name) => Some(name),
            _ => None,
        }
    }
}
