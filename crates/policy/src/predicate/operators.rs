//! Relations, functions and quantifiers of tests.

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Equal.
    Eq,
    /// Unequal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Relation {
    /// Returns the operator in policy syntax.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }

    /// Returns the complementary relation, for ordered values.
    pub fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
        }
    }

    /// Returns the relation with its operands swapped.
    pub fn swapped(self) -> Self {
        match self {
            Self::Eq => Self::Eq,
            Self::Ne => Self::Ne,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
        }
    }

    /// Whether the relation holds for two values with this ordering.
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => ordering.is_eq(),
            Self::Ne => ordering.is_ne(),
            Self::Lt => ordering.is_lt(),
            Self::Le => ordering.is_le(),
            Self::Gt => ordering.is_gt(),
            Self::Ge => ordering.is_ge(),
        }
    }
}

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
