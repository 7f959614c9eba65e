//! Relations, functions and quantifiers of tests.

pub use tracewarden_model::Relation;

/// Functions of two strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextFunction {
    /// The first begins with the second.
    StartsWith,
    /// The first ends with the second.
    EndsWith,
    /// The first contains the second.
    Contains,
}

impl TextFunction {
    /// Returns the function with this name in policy syntax.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::StartsWith, Self::EndsWith, Self::Contains].into_iter().find(|known| known.name() == name)
    }

    /// Returns the name in policy syntax.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Contains => "contains",
        }
    }

    pub(crate) fn holds(self, text: &str, argument: &str) -> bool {
        match self {
            Self::StartsWith => text.starts_with(argument),
            Self::EndsWith => text.ends_with(argument),
            Self::Contains => text.contains(argument),
        }
    }
}

/// How many elements must satisfy the body of a macro.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantifier {
    /// At least one.
    Exists,
    /// Every one.
    All,
    /// Exactly one.
    ExistsOne,
}

impl Quantifier {
    /// Returns the quantifier of the macro with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "exists" => Some(Self::Exists),
            "all" => Some(Self::All),
            "exists_one" | "existsOne" => Some(Self::ExistsOne),
            _ => None,
        }
    }
}
