//! Relations, functions and quantifiers of tests.

pub use tracewarden_model::Relation;

/// Functions of two strings.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::EnumString, strum::IntoStaticStr,
)]
#[strum(serialize_all = "camelCase")]
pub enum TextFunction {
    /// The first begins with the second.
    StartsWith,
    /// The first ends with the second.
    EndsWith,
    /// The first contains the second.
    Contains,
}

impl TextFunction {
    /// Returns the name in policy syntax.
    pub(crate) fn name(self) -> &'static str {
        self.into()
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Quantifier {
    /// At least one.
    Exists,
    /// Every one.
    All,
    /// Exactly one.
    #[strum(serialize = "exists_one", serialize = "existsOne")]
    ExistsOne,
}
