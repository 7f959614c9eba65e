//! Filter operators: one table of all of them, and the test that an operator makes of its operands.

use crate::decimal::Decimal;
use crate::logical::LogicalType;
use crate::relation::Relation;
use crate::spelling::spelled;

/// The operands that an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    /// None.
    None,
    /// One, in `value`.
    One,
    /// At least one, in `values`.
    List,
    /// Two numbers, in `values`.
    Range,
}

/// Declares the operators in display order: spelling, operands, types that have the operator, and when a span matches.
macro_rules! operators {
    ($($variant:ident = $name:literal, $operands:ident, [$($logical:ident),+], $meaning:literal;)+) => {
        /// A filter operator. The spellings are part of the wire format and of cursors and never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operator {
            $(#[doc = $meaning] $variant,)+
        }

        // In display order.
        spelled!(Operator, "A filter operator.", { $($variant = $name),+ });

        impl Operator {
            /// Returns the operands that the operator takes.
            pub fn operands(self) -> Operands {
                match self { $(Self::$variant => Operands::$operands),+ }
            }

            /// Returns the types that have the operator.
            pub fn types(self) -> &'static [LogicalType] {
                match self { $(Self::$variant => &[$(LogicalType::$logical),+]),+ }
            }

            /// Returns a sentence that says which spans match.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),+ }
            }
        }
    };
}

operators! {
    Eq = "eq", One, [String, Boolean, Number], "The value equals the operand.";
    Ne = "ne", One, [String, Boolean, Number], "There is a value, and it differs from the operand.";
    In = "in", List, [String], "The value is one of the operands.";
    NotIn = "not_in", List, [String], "There is a value, and it is none of the operands.";
    Prefix = "prefix", One, [String], "The value begins with the operand.";
    Exists = "exists", None, [String], "The field is present, with any value.";
    NotExists = "not_exists", None, [String], "The field is absent.";
    Has = "has", One, [StringArray], "The operand is an element.";
    HasAny = "has_any", List, [StringArray], "At least one of the operands is an element.";
    HasAll = "has_all", List, [StringArray], "Each operand is an element.";
    Gt = "gt", One, [Number], "The value is greater than the operand.";
    Gte = "gte", One, [Number], "The value is greater than the operand, or equal.";
    Lt = "lt", One, [Number], "The value is less than the operand.";
    Lte = "lte", One, [Number], "The value is less than the operand, or equal.";
    Between = "between", Range, [Number], "The value is in the range, both ends included.";
}

impl Operator {
    /// Returns the operators that filters may use on a field of this type, in display order.
    pub fn of_type(logical: LogicalType) -> Vec<Self> {
        Self::ALL.into_iter().filter(|operator| operator.types().contains(&logical)).collect()
    }

    /// Returns the operators that take these operands, in display order.
    pub fn taking(operands: Operands) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |operator| operator.operands() == operands)
    }
}

/// The test of a condition, with operands of the right type.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// The string equals this value.
    StringEq(String),
    /// The string is present and differs from this value.
    StringNe(String),
    /// The string is one of these values.
    StringIn(Vec<String>),
    /// The string is present and none of these values.
    StringNotIn(Vec<String>),
    /// The string begins with this prefix.
    Prefix(String),
    /// The value contains the text, ignoring the case of ASCII letters: for lists of values, no operator has it.
    Contains(String),
    /// The key is present.
    Exists,
    /// The key is absent.
    NotExists,
    /// The array contains this value.
    Has(String),
    /// The array contains at least one of these values.
    HasAny(Vec<String>),
    /// The array contains all of these values.
    HasAll(Vec<String>),
    /// The boolean equals this value.
    BoolEq(bool),
    /// The boolean is present and differs from this value.
    BoolNe(bool),
    /// The number compares with this value.
    Compare(Relation, Decimal),
    /// The number is in the closed range.
    Between(Decimal, Decimal),
}

/// Where the operands of a test come from: a request, or a generator of tests. Each method fails if the operand is not there or
/// has another type.
pub trait OperandSource {
    /// Reason why there is no such operand.
    type Error;

    /// Confirms that there is no operand.
    fn none(&mut self) -> Result<(), Self::Error>;
    /// Returns the operand, a string.
    fn string(&mut self) -> Result<String, Self::Error>;
    /// Returns the operand, a boolean.
    fn boolean(&mut self) -> Result<bool, Self::Error>;
    /// Returns the operand, a number.
    fn number(&mut self) -> Result<Decimal, Self::Error>;
    /// Returns the operands, at least one string.
    fn strings(&mut self) -> Result<Vec<String>, Self::Error>;
    /// Returns both ends of a range.
    fn range(&mut self) -> Result<(Decimal, Decimal), Self::Error>;
}

impl Test {
    /// Returns the test of an operator that the type has. Every operator has an arm of its own, so that none gets the
    /// meaning of another by omission.
    ///
    /// # Errors
    /// If the source has no such operands.
    pub fn new<S: OperandSource>(
        operator: Operator,
        logical: LogicalType,
        source: &mut S,
    ) -> Result<Self, S::Error> {
        Ok(match operator {
            Operator::Eq => match logical {
                LogicalType::String | LogicalType::StringArray => Self::StringEq(source.string()?),
                LogicalType::Boolean => Self::BoolEq(source.boolean()?),
                LogicalType::Number => Self::Compare(Relation::Eq, source.number()?),
            },
            Operator::Ne => match logical {
                LogicalType::String | LogicalType::StringArray => Self::StringNe(source.string()?),
                LogicalType::Boolean => Self::BoolNe(source.boolean()?),
                LogicalType::Number => Self::Compare(Relation::Ne, source.number()?),
            },
            Operator::In => Self::StringIn(source.strings()?),
            Operator::NotIn => Self::StringNotIn(source.strings()?),
            Operator::Prefix => Self::Prefix(source.string()?),
            Operator::Exists => source.none().map(|()| Self::Exists)?,
            Operator::NotExists => source.none().map(|()| Self::NotExists)?,
            Operator::Has => Self::Has(source.string()?),
            Operator::HasAny => Self::HasAny(source.strings()?),
            Operator::HasAll => Self::HasAll(source.strings()?),
            Operator::Gt => Self::Compare(Relation::Gt, source.number()?),
            Operator::Gte => Self::Compare(Relation::Ge, source.number()?),
            Operator::Lt => Self::Compare(Relation::Lt, source.number()?),
            Operator::Lte => Self::Compare(Relation::Le, source.number()?),
            Operator::Between => source.range().map(|(low, high)| Self::Between(low, high))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source that has every operand, and keeps which ones a test took.
    struct Recorder(Operands);

    impl Recorder {
        fn take<T>(&mut self, operands: Operands, value: T) -> Result<T, ()> {
            self.0 = operands;
            Ok(value)
        }
    }

    impl OperandSource for Recorder {
        type Error = ();

        fn none(&mut self) -> Result<(), ()> {
            self.take(Operands::None, ())
        }

        fn string(&mut self) -> Result<String, ()> {
            self.take(Operands::One, String::new())
        }

        fn boolean(&mut self) -> Result<bool, ()> {
            self.take(Operands::One, true)
        }

        fn number(&mut self) -> Result<Decimal, ()> {
            self.take(Operands::One, Decimal::zero())
        }

        fn strings(&mut self) -> Result<Vec<String>, ()> {
            self.take(Operands::List, Vec::new())
        }

        fn range(&mut self) -> Result<(Decimal, Decimal), ()> {
            self.take(Operands::Range, (Decimal::zero(), Decimal::zero()))
        }
    }

    #[test]
    fn tests_take_the_operands_of_the_table() {
        let mut tests = Vec::new();
        for operator in Operator::ALL {
            assert_eq!(Operator::parse(operator.as_str()), Some(operator));
            for logical in operator.types() {
                let mut source = Recorder(Operands::None);
                let test = Test::new(operator, *logical, &mut source).unwrap();
                assert_eq!(source.0, operator.operands(), "{operator} {logical}");
                assert!(!tests.contains(&test), "{operator} {logical}: {test:?}");
                tests.push(test);
            }
        }
    }
}
