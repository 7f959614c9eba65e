//! Limits the cost of lowering.

use std::ops::Deref;

use super::limits::TooLarge;
use super::rules::Rules;
use crate::predicate::work::{Budget, charge};

/// The rules of lowering and the remaining budget. Predicates charge their own cost; other work is counted here as
/// steps.
///
/// When the budget is spent, every result is an error, which costs nothing, and [`LoweringContext::check`] rejects the result.
pub(crate) struct LoweringContext<'a> {
    rules: &'a Rules,
    budget: &'a Budget,
}

impl Deref for LoweringContext<'_> {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        self.rules
    }
}

impl<'a> LoweringContext<'a> {
    pub(crate) fn new(rules: &'a Rules, budget: &'a Budget) -> Self {
        Self { rules, budget }
    }

    /// Counts work before it is done. Returns whether the budget allows it.
    #[must_use]
    pub(crate) fn step(&self, steps: u64) -> bool {
        charge(steps);
        !self.budget.is_spent()
    }

    /// Counts work before it is done.
    pub(crate) fn steps(&self, steps: u64) -> Result<(), TooLarge> {
        if self.step(steps) { Ok(()) } else { Err(TooLarge) }
    }

    /// Rejects work early if it would exceed the budget.
    pub(crate) fn allows(&self, steps: u64) -> Result<(), TooLarge> {
        if self.budget.allows(steps) { Ok(()) } else { Err(TooLarge) }
    }

    /// Rejects the result if the budget was exceeded.
    pub(crate) fn check(&self) -> Result<(), TooLarge> {
        self.allows(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracewarden_model::{AccessModel, AttributeValue, Caller, ColumnType, FieldRef, FieldSource};
    use tracewarden_model::{LogicalType, MarkedField};

    use crate::check::check;
    use crate::lower::{
        MAX_PREDICATE_SIZE, MAX_WORK, MAX_WORK_OF_SMALL_LISTS, TooLarge, lower, simplify_bounded,
    };
    use crate::predicate::work::{Budget, charge};
    use crate::predicate::{Atom, Predicate, Relation, Text};

    fn model() -> AccessModel {
        let column = |name: &str, logical, text: &str| MarkedField {
            field: FieldRef::column(name),
            source: FieldSource::Column,
            logical,
            column_type: ColumnType::parse(text),
            filterable: true,
            policy: true,
            column: None,
        };
        let fields = vec![
            column("Name", LogicalType::String, "Nullable(String)"),
            column("Tags", LogicalType::StringArray, "Array(String)"),
        ];
        AccessModel { version: 1, binding: None, fields }
    }

    /// Lowering stops soon after the budget is spent, however large the remaining work is.
    #[test]
    fn work_is_bounded() {
        let list = |count: usize| {
            let elements = (0..count).map(|at| format!("(Name == \"{at}\" ? Name : \"b\")"));
            elements.collect::<Vec<_>>().join(", ")
        };
        let slack = MAX_WORK / 10;
        for (expression, most) in [
            (format!("[{}] == Tags", list(50)), MAX_WORK_OF_SMALL_LISTS),
            (
                format!("[\"a\", \"b\"].exists(x, [{}] == Tags && x == Name)", list(12)),
                MAX_WORK_OF_SMALL_LISTS,
            ),
            (format!("[{}].all(x, x in [{0}] || [x, x] == Tags)", list(30)), MAX_WORK_OF_SMALL_LISTS),
        ] {
            let whole = Budget::of(u64::MAX);
            crate::check::check_on_current_stack(&expression, &model()).map(drop).unwrap_err();
            // Not zero: the work before the rejection was counted.
            assert!((1_000..most + slack).contains(&whole.done()), "{}: {expression}", whole.done());
        }
        let many = (0..10_000).map(|at| format!("team-{at}")).collect();
        let attributes = [("list".to_owned(), AttributeValue::Strings(many))].into();
        let caller = Caller { attributes, ..Caller::default() };
        for expression in [
            "user.attributes.list.exists(x, size(Name) == size(x) && Name < x && Name > x)",
            "user.attributes.list.all(x, user.attributes.list.exists(y, x == y || Name == y))",
            "user.attributes.list.exists(x, user.attributes.list == [x, Name] || Name in user.attributes.list)",
            "user.attributes.list.exists(x, x in user.attributes.list && Name == x)",
        ] {
            let checked = check(expression, &model()).unwrap();
            let budget = Budget::of(MAX_WORK);
            lower(&checked.root, &caller, &budget).unwrap_err();
            assert!(budget.done() < MAX_WORK + slack, "{}: {expression}", budget.done());
        }
    }

    /// The size limit also applies to predicates that are cheap to create, because ClickHouse has to parse them.
    #[test]
    fn predicates_that_are_too_large_to_send_are_refused() {
        let field = Arc::new(model().fields.remove(0));
        let of_size = |nodes: u64| {
            let literal = "a".repeat(32 * (nodes as usize - 2));
            let text = Text::Field(Arc::clone(&field));
            Predicate::atom(Atom::CompareText(Relation::Eq, text, Text::Literal(literal)))
        };
        let (most, more) = (of_size(MAX_PREDICATE_SIZE), of_size(MAX_PREDICATE_SIZE + 1));
        assert_eq!((most.size(), more.size()), (MAX_PREDICATE_SIZE, MAX_PREDICATE_SIZE + 1));
        assert_eq!(simplify_bounded(&most, &Budget::of(MAX_WORK)), Ok(most));
        assert_eq!(simplify_bounded(&more, &Budget::of(MAX_WORK)), Err(TooLarge));
    }

    /// The work is done before it is known that the result is small.
    #[test]
    fn expensive_policies_are_refused_even_if_small() {
        let spent = Budget::of(0);
        charge(1);
        assert_eq!(simplify_bounded(&Predicate::True, &spent), Err(TooLarge));
    }
}
