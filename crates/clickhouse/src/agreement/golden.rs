//! The SQL of policies, for reviewers: each file of `golden/` holds policies of one caller, the SQL of their combined access,
//! and its parameters. `UPDATE_DOCS=1 cargo test golden` in this crate updates the files. Odd SQL there should be improved.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tracewarden_model::{
    AccessModel, AttributeValue, Binding, Caller, ColumnType, Condition, Display, FieldRef, FieldSource,
    Filter, LogicalType, MarkedField, Test, Timestamp, Window,
};
use tracewarden_policy::{AccessScope, CompiledPolicies, KeyConstraint, RolePolicy, authorise};

use crate::agreement::differential::connect_at;
use crate::schema::{BoundTable, Column, TraceIndex, WindowShare};
use crate::search::{
    BoundedTraces, PassOptions, PlannerOptions, RemainingWindow, RequiredPredicate, TraceBounds, TraceSet,
    filtered_pass_statement, grouped_statement, long_traces_statement, step_statement,
};
use crate::sql::{Statement, render};
use crate::{Position, SelectRequest, TraceOrder};

/// Prefixes of a policy, of another policy of the same caller, and of a policy of the caller's API key.
const POLICY: &str = ">>> ";
const ADDITIONAL_POLICY: &str = "+++ ";
const KEY_CONSTRAINT: &str = "key ";
/// Prefix of a number of roles with five policies each, in place of a policy.
const ROLES: &str = "roles ";

/// Columns of the table; all are marked.
const COLUMNS: [(&str, &str); 14] = [
    ("TraceId", "String"),
    ("SpanId", "String"),
    ("ParentSpanId", "String"),
    ("Timestamp", "DateTime64(9)"),
    ("ServiceName", "LowCardinality(String)"),
    ("SpanName", "String"),
    ("Nick", "Nullable(String)"),
    ("Kind", "Enum8('Server' = 1, 'Client' = 2)"),
    ("Request", "UUID"),
    ("Short", "FixedString(4)"),
    ("Sampled", "Bool"),
    ("Events.Name", "Array(LowCardinality(String))"),
    ("SpanAttributes", "Map(LowCardinality(String), String)"),
    ("Attrs", "JSON"),
];

fn marked(
    field: FieldRef,
    source: FieldSource,
    column_type: ColumnType,
    logical: LogicalType,
) -> MarkedField {
    MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
}

fn model() -> AccessModel {
    let mut fields: Vec<MarkedField> = COLUMNS
        .iter()
        .skip(4)
        .filter_map(|(name, kind)| {
            let column_type = ColumnType::parse(kind);
            let logical = *column_type.logical_types().first()?;
            Some(marked(FieldRef::column(*name), FieldSource::Column, column_type, logical))
        })
        .collect();
    for (key, logical) in [
        ("env", LogicalType::String),
        ("tenant.id", LogicalType::String),
        ("flag", LogicalType::Boolean),
        ("list", LogicalType::StringArray),
    ] {
        let field = FieldRef::key("SpanAttributes", key);
        fields.push(marked(field, FieldSource::MapKey, ColumnType::STRING, logical));
    }
    for (key, logical) in
        [("team", LogicalType::String), ("live", LogicalType::Boolean), ("owners", LogicalType::StringArray)]
    {
        let field = FieldRef::key("SpanAttributes", key);
        let marked = marked(field, FieldSource::MapKey, ColumnType::STRING, logical);
        fields.push(MarkedField { column: Some(format!("SpanAttributes_{key}")), ..marked });
    }
    for (path, logical) in [
        ("http.method", LogicalType::String),
        ("tags", LogicalType::StringArray),
        ("ok", LogicalType::Boolean),
    ] {
        let field = FieldRef::key("Attrs", path);
        fields.push(marked(field, FieldSource::JsonPath, ColumnType::Dynamic, logical));
    }
    AccessModel { version: 1, binding: Some(binding()), fields }
}

fn binding() -> Binding {
    Binding {
        database: "otel".to_owned(),
        table: "otel_traces".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    }
}

/// Ada: roles `dev` and `oncall`; a team, a flag, three tenants, forty prefixes.
fn caller() -> Caller {
    let list =
        |values: &[&str]| AttributeValue::Strings(values.iter().map(|&text| text.to_owned()).collect());
    Caller {
        username: "ada".to_owned(),
        roles: ["dev".to_owned(), "oncall".to_owned()].into(),
        attributes: [
            ("team".to_owned(), AttributeValue::String("payments".to_owned())),
            ("lead".to_owned(), AttributeValue::Bool(true)),
            ("tenants".to_owned(), list(&["t1", "t2", "it's"])),
            (
                "prefixes".to_owned(),
                AttributeValue::Strings((0..40).map(|number| format!("team-{number}/")).collect()),
            ),
        ]
        .into(),
    }
}

/// Returns the cases of a file, each as its lines.
fn cases(text: &str) -> Vec<Vec<&str>> {
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        if line.starts_with(POLICY) || line.starts_with(ROLES) {
            cases.push(vec![line]);
        } else if line.starts_with(ADDITIONAL_POLICY) || line.starts_with(KEY_CONSTRAINT) {
            cases.last_mut().unwrap().push(line);
        }
    }
    cases
}

/// Returns five policies of a role, some of which other roles have, too.
fn role_policies(role: u32) -> Vec<String> {
    vec![
        format!("ServiceName == \"service-{role}\""),
        format!("SpanAttributes[\"tenant.id\"] == \"tenant-{}\"", role % 7),
        "SpanAttributes[\"env\"] == \"dev\" || SpanAttributes[\"env\"].startsWith(\"test\")".to_owned(),
        format!("\"role-{role}\" in user.roles && Sampled"),
        format!("has(SpanAttributes.flag) && SpanAttributes.flag && ServiceName == \"service-{}\"", role % 3),
    ]
}

fn scope(case: &[&str]) -> AccessScope {
    let mut policies: Vec<String> = Vec::new();
    let mut key_constraint = None;
    for line in case {
        if let Some(count) = line.strip_prefix(ROLES) {
            policies.extend((0..count.parse().unwrap()).flat_map(role_policies));
        } else if let Some(text) = line.strip_prefix(KEY_CONSTRAINT) {
            key_constraint = Some(KeyConstraint { expression: text, knows_policy_fields: true });
        } else {
            policies.push(line[POLICY.len()..].to_owned());
        }
    }
    let policies = policies.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
    authorise(policies, key_constraint, &caller(), &model(), &CompiledPolicies::new()).unwrap()
}

/// Wraps SQL: conjunctions and disjunctions that do not fit on one line are split.
fn wrapped(sql: &str, indent: usize) -> String {
    let pad = "  ".repeat(indent);
    let inside = sql.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let parts = inside.map(operands).unwrap_or_default();
    if sql.len() + 2 * indent <= 110 || parts.len() < 2 {
        return format!("{pad}{sql}");
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(joined, part)| match joined {
            "" => wrapped(part, indent + 1),
            joined => format!("{pad}  {joined}\n{}", wrapped(part, indent + 1)),
        })
        .collect();
    format!("{pad}(\n{}\n{pad})", parts.join("\n"))
}

/// Returns the parts of a conjunction or disjunction, each with the operator before it.
fn operands(inside: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut quoted) = (0_i32, false);
    let (mut parts, mut start, mut keyword) = (Vec::new(), 0, "");
    for (at, character) in inside.char_indices() {
        match character {
            '\'' | '`' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ' ' if !quoted && depth == 0 => {
                for next in ["AND", "OR"] {
                    if inside[at + 1..].starts_with(&format!("{next} ")) {
                        parts.push((keyword, &inside[start..at]));
                        (keyword, start) = (next, at + next.len() + 2);
                    }
                }
            }
            _ => {}
        }
        // A bracket closes that was not opened here: the outer brackets do not belong together.
        if depth < 0 {
            return Vec::new();
        }
    }
    parts.push((keyword, &inside[start..]));
    parts
}

fn parameters(statement: &Statement) -> String {
    let mut text = String::new();
    for (at, value) in statement.parameters.iter().enumerate() {
        let shown: String = value.chars().take(60).collect();
        let more =
            if shown.len() < value.len() { format!(" … {} bytes", value.len()) } else { String::new() };
        writeln!(text, "  p{at} = {shown}{more}").unwrap();
    }
    text
}

fn access_sql(scope: &AccessScope) -> String {
    let mut statement = Statement::default();
    let mut text = wrapped(&render(scope.predicate(), &mut statement), 0);
    if let Some(key_constraint) = scope.key_constraint() {
        write!(text, "\nkey\n{}", wrapped(&render(key_constraint, &mut statement), 0)).unwrap();
    }
    format!("{text}\n{}", parameters(&statement))
}

fn selection_sql(scope: &AccessScope) -> String {
    let column = |(name, kind): &(&str, &str)| Column {
        in_parts: true,
        ..Column::new((*name).to_owned(), (*kind).to_owned())
    };
    let columns = COLUMNS.iter().map(column);
    let binding = binding();
    let table = BoundTable::new(&binding, columns.collect()).unwrap();
    let field = |name: &str| model().fields.iter().find(|marked| marked.field.name == name).unwrap().clone();
    let is_t1 = Condition { field: field("tenant.id"), test: Test::StringEq("t1".to_owned()) };
    let filter = Filter::of(vec![is_t1]);
    let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let window = Window::new(at(1_800_000_000), at(1_800_003_600)).unwrap();
    let request = SelectRequest {
        binding: &binding,
        scope,
        filter: &filter,
        window,
        order: TraceOrder::Newest,
        limit: 50,
        after: Some(Position { tier: 1, key: 1_800_001_800_000_000_000, trace_id: "abc".to_owned() }),
        progress: None,
    };
    let store = connect_at("http://localhost", "");
    let indexed = [("TraceId", "String"), ("Start", "DateTime"), ("End", "DateTime")]
        .map(|definition| column(&definition));
    let index = TraceIndex::from_columns(&indexed, "otel", "otel_traces_trace_id_ts");
    let search = store.prepare(&request, &table, index.clone(), PlannerOptions::default()).unwrap();
    let remainder = RemainingWindow { top: 1_800_001_800_000_000_001, after: request.after.clone() };
    let (most, part) = (WindowShare::Most, WindowShare::Part);
    let [step, step_with_index] = [false, true].map(|use_trace_index| {
        step_statement(&search, 1_800_000_000_000_000_000, &remainder, use_trace_index).unwrap()
    });
    let index = index.unwrap();
    let long = [(most, false), (part, false), (part, true)].map(|(share, checks_spans)| {
        long_traces_statement(&search, &index, share, search.default_range, 20_000, checks_spans)
    });
    let [long_most, long_part, long_checked] = long;
    let traces = ["abc", "abd", "abe"].map(str::to_owned);
    let rare = vec![RequiredPredicate::Group(0), RequiredPredicate::Policies];
    let after = request.after.clone();
    let of_rare = PassOptions { trace_filters: rare, after: after.clone(), ..PassOptions::default() };
    let of_rare = filtered_pass_statement(&search, &of_rare, &[]).unwrap();
    let of_rest = PassOptions {
        selects_traces: true,
        after,
        steps_read_from: Some(1_800_000_600_000_000_000),
        ..PassOptions::default()
    };
    let of_rest = filtered_pass_statement(&search, &of_rest, &traces).unwrap();
    let around = Some((at(1_799_996_400), at(1_800_007_200))).into();
    let grouped = grouped_statement(&search, TraceSet::Window, &around, request.after.as_ref()).unwrap();
    let mut bounds = TraceBounds::new(search.default_range);
    let (from, to) = (1_799_999_000_000_000_000, 1_800_001_000_000_000_000);
    bounds.insert(&table, ("abc".to_owned(), from, to, 0));
    bounds.insert(&table, ("abd".to_owned(), from, to, 1));
    let ranges = bounds.ranges(traces.iter().take(1));
    let decision = BoundedTraces { traces: &traces, bounds: &bounds };
    let decision = grouped_statement(&search, TraceSet::Bounded(decision), &ranges, None).unwrap();
    let mut text = String::new();
    for (plan, statement) in [
        ("a step", step),
        ("a step with the trace index", step_with_index),
        ("long traces, with most of the trace index in the window", long_most),
        ("long traces, with part of the trace index in the window", long_part),
        ("the same, of unusable entries only those with a span in the window", long_checked),
        ("a filtered pass over the rest after steps", of_rest),
        ("a filtered pass over the traces of rare predicates", of_rare),
        ("traces decided by id", decision),
        ("a grouped pass", grouped),
    ] {
        let mut sql = statement.text.clone();
        for keyword in ["FROM", "WHERE", "GROUP BY", "HAVING", "AND countIf", "ORDER BY"] {
            sql = sql.replace(&format!(" {keyword}"), &format!("\n{keyword}"));
        }
        writeln!(text, "{plan}\n{sql}\n{}", parameters(&statement)).unwrap();
    }
    text
}

/// Compares the cases with those of the file. There must be at least `min_cases`, so that no case is lost unnoticed.
fn check(file: &str, min_cases: usize, answer: impl Fn(&AccessScope) -> String) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file);
    let expected = fs::read_to_string(&path).unwrap();
    let mut current = String::new();
    let cases = cases(&expected);
    assert!(
        cases.len() >= min_cases,
        "golden/{file} has lost cases: {} are left of {min_cases}",
        cases.len()
    );
    for case in cases {
        writeln!(current, "{}\n{}", case.join("\n"), answer(&scope(&case))).unwrap();
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, current).unwrap();
        return;
    }
    let differing = expected.lines().zip(current.lines()).position(|(expected, current)| expected != current);
    let from =
        differing.unwrap_or_else(|| expected.lines().count().min(current.lines().count())).saturating_sub(6);
    let part = |text: &str| text.lines().skip(from).take(24).collect::<Vec<_>>().join("\n");
    assert!(
        expected == current,
        "golden/{file}, from line {}: run `UPDATE_DOCS=1 cargo test -p tracewarden-clickhouse golden`\n\
         ── the file ──\n{}\n── now ──\n{}\n",
        from + 1,
        part(&expected),
        part(&current),
    );
}

#[test]
fn predicates_match_the_golden_files() {
    let files = [
        ("operators.txt", 25),
        ("columns.txt", 16),
        ("adopted.txt", 9),
        ("callers.txt", 9),
        ("merging.txt", 10),
    ];
    for (file, min_cases) in files {
        check(file, min_cases, access_sql);
    }
}

#[test]
fn statements_match_the_golden_file() {
    check("selections.txt", 2, selection_sql);
}
