//! ClickHouse's estimate of what a statement reads. It only chooses between equivalent plans, so it may be wrong.

use serde_json::Value;

use super::required_predicates::RequiredPredicate;
use super::search::{Search, TimeRange};

/// Granules that a statement reads, according to `EXPLAIN`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Granules {
    /// Granules of the table.
    pub(crate) table: u64,
    /// Granules left after all indexes.
    pub(crate) selected: u64,
    /// Granules left after partition pruning and the primary key. If skip indexes leave far fewer, the predicate is rare.
    pub(crate) after_primary_key: u64,
}

/// Estimated granules for the spans of each range that satisfy a predicate, if there is one, then for the whole trace index;
/// `None` if there is no estimate. Errors are dropped: the search's own statements report them.
pub(crate) async fn estimate_granules(
    search: &Search<'_>,
    reads: &[(Option<RequiredPredicate>, TimeRange)],
) -> Option<Vec<Granules>> {
    if !search.table.in_parts() {
        // A table without parts of its own, such as a distributed one, gives no estimate.
        return None;
    }
    let mut statement = search.table.statement();
    let mut branches = Vec::new();
    for (predicate, range) in reads {
        let range = search.range(*range, &mut statement);
        let condition = match predicate {
            None => "1".to_owned(),
            Some(predicate) => search.required_predicates.span_condition(*predicate, &mut statement).ok()?,
        };
        let spans = search.table.spans(&format!("{range} AND {condition}"), &mut statement);
        branches.push(format!("SELECT {} FROM {spans}", search.table.trace_id.text));
    }
    if let Some(index) = &search.index {
        branches.push(format!("SELECT {} FROM {}", index.trace_id, index.name));
    }
    statement.push(&format!("EXPLAIN json = 1, indexes = 1 {}", branches.join(" UNION ALL ")));
    let rows: Vec<(String,)> = search.rows(statement).await.ok()?;
    parse_explain(&rows.into_iter().map(|(line,)| line).collect::<Vec<String>>().join("\n"), branches.len())
}

/// The granules of each branch of a union, from `EXPLAIN json = 1, indexes = 1`; `None` if the output is incomplete.
fn parse_explain(explained: &str, branches: usize) -> Option<Vec<Granules>> {
    let explained: Value = serde_json::from_str(explained).ok()?;
    let mut node = explained.get(0)?.get("Plan")?;
    if branches > 1 {
        while node.get("Node Type")?.as_str()? != "Union" {
            node = node.get("Plans")?.get(0)?;
        }
        let plans = node.get("Plans")?.as_array()?;
        return if plans.len() == branches { plans.iter().map(branch_granules).collect() } else { None };
    }
    Some(vec![branch_granules(node)?])
}

/// The granules of everything that is read below a node; zero if a condition is always false.
fn branch_granules(node: &Value) -> Option<Granules> {
    let mut sum = Granules::default();
    if node.get("Node Type")?.as_str()?.starts_with("ReadFromMergeTree") {
        let indexes = node.get("Indexes")?.as_array()?;
        let count = |index: &Value, what: &str| index.get(what)?.as_u64();
        sum.table = count(indexes.first()?, "Initial Granules")?;
        sum.selected = count(indexes.last()?, "Selected Granules")?;
        let skips = |index: &&Value| index.get("Type").and_then(Value::as_str) == Some("Skip");
        sum.after_primary_key = match indexes.iter().find(skips) {
            Some(first) => count(first, "Initial Granules")?,
            None => sum.selected,
        };
    }
    for child in node.get("Plans").and_then(Value::as_array).into_iter().flatten() {
        let child = branch_granules(child)?;
        sum.table = sum.table.saturating_add(child.table);
        sum.selected = sum.selected.saturating_add(child.selected);
        sum.after_primary_key = sum.after_primary_key.saturating_add(child.after_primary_key);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_are_those_that_the_last_index_leaves() {
        let read = |indexes: &str| {
            format!(
                r#"{{"Node Type": "Filter", "Plans": [{{"Node Type": "ReadFromMergeTree", "Indexes": [{indexes}]}}]}}"#
            )
        };
        let index = |kind: &str, initial: u64, selected: u64| {
            format!(r#"{{"Type": "{kind}", "Initial Granules": {initial}, "Selected Granules": {selected}}}"#)
        };
        let rare =
            read(&[index("PrimaryKey", 90, 40), index("Skip", 40, 30), index("Skip", 30, 2)].join(", "));
        let all = read(&index("PrimaryKey", 90, 70));
        let nothing = r#"{"Node Type": "ReadNothing"}"#;
        let union = format!(
            r#"[{{"Plan": {{"Node Type": "Expression", "Plans": [{{"Node Type": "Union", "Plans": [{rare}, {all}, {nothing}]}}]}}}}]"#
        );
        let expected = [(90, 2, 40), (90, 70, 70), (0, 0, 0)]
            .map(|(table, selected, after_primary_key)| Granules { table, selected, after_primary_key })
            .to_vec();
        assert_eq!(parse_explain(&union, 3), Some(expected));
        assert_eq!(parse_explain(&union, 2), None);
        assert_eq!(
            parse_explain(&format!(r#"[{{"Plan": {rare}}}]"#), 1),
            Some(vec![Granules { table: 90, selected: 2, after_primary_key: 40 }])
        );
        for odd in ["", "[]", "{}", r#"[{"Plan": {}}]"#, r#"[{"Plan": {"Node Type": "ReadFromMergeTree"}}]"#]
        {
            assert_eq!(parse_explain(odd, 1), None, "{odd}");
        }
    }
}
