//! Discovers a table, binds it, and compares answers with a plain evaluation of the generated spans.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use tracewarden_testkit::trace_tables::{
    BASE, Bound, Fixture, Generated, Notation, Questions, SECOND, Span, Window, selected,
};

use crate::support::{Client, Service};
use crate::trace_tables::explain::{Recorder, statement};
use crate::trace_tables::store::Store;

const HOUR: i64 = 3_600 * SECOND;

/// The window that contains all spans.
const ALL: (i64, i64) = (BASE - HOUR, BASE + 96 * HOUR);

/// A window that begins and ends within traces and within time buckets.
const PART: (i64, i64) = (BASE + 700 * SECOND, BASE + 1_900 * SECOND);

/// Tests a layout.
pub async fn walk(store: &Store, fixture: &Fixture, bound: &Bound) {
    let generated = bound.generate();
    for insert in bound.inserts(&generated.rows) {
        store.run(&insert).await;
    }
    let recorder = Recorder::start(&store.url);
    let service = store.service_at(&recorder.url);
    let admin = service.admin().await;
    check_proposals(&admin, fixture, bound).await;
    let is_direct = bind(store, &admin, bound).await;
    let questions = bound.questions();
    let users = users(&service, &admin, bound, &questions).await;
    let case = Case { fixture, bound, generated: &generated, questions: &questions };
    let asked = users.iter().enumerate().map(|(policy, user)| case.ask(user, policy));
    join_all(asked).await;
    case.summaries(&users[1]).await;
    case.fetch(&users[0], &recorder).await;
    if is_direct {
        check_model_file(&admin, bound).await;
    }
}

/// Removes members that are null or empty.
pub fn without_nulls(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        let all = std::mem::take(members).into_iter().map(|(name, member)| (name, without_nulls(member)));
        members.extend(all.filter(|(_, member)| !member.is_null() && *member != json!([])));
    }
    value
}

/// Returns the members in which two objects differ, one a line.
fn differences(expected: &Value, found: &Value) -> String {
    let members = |value: &Value, prefix: &str| -> Vec<(String, Value)> {
        let members = value.as_object().into_iter().flatten();
        members.map(|(name, member)| (format!("{prefix}{name}"), member.clone())).collect()
    };
    let flat = |value: &Value| -> BTreeSet<(String, String)> {
        let mut all = members(value, "");
        all.extend(members(&value["display"], "display/"));
        all.retain(|(name, _)| name != "display");
        all.into_iter().map(|(name, member)| (name, member.to_string())).collect()
    };
    let (expected, found) = (flat(expected), flat(found));
    let missing = expected.difference(&found).map(|(name, value)| format!("- {name}: {value}"));
    let more = found.difference(&expected).map(|(name, value)| format!("+ {name}: {value}"));
    missing.chain(more).collect::<Vec<_>>().join("\n")
}

async fn check_proposals(admin: &Client, fixture: &Fixture, bound: &Bound) {
    let name = fixture.name;
    let database = &bound.proposal["database"];
    let tables = admin.get("/schema/tables").await.expect(200).body["tables"].clone();
    let tables: Vec<&Value> =
        tables.as_array().unwrap().iter().filter(|table| table["database"] == *database).collect();
    let find = |name: &Value| {
        *tables.iter().find(|table| table["name"] == *name).unwrap_or_else(|| panic!("no table {name}"))
    };
    let table = find(&bound.proposal["table"]);
    assert!(table["proposal"].is_object(), "{name}: {table}");
    // The description of the table has a proposal that follows from a sample of rows, too.
    let path = format!("/schema/tables/{}/{}", text(database), text(&table["name"]));
    let described = admin.get(&path).await.expect(200).body;
    let (expected, found) =
        (without_nulls(bound.proposal.clone()), without_nulls(described["proposal"].clone()));
    assert!(expected == found, "{name}: proposal\n{}", differences(&expected, &found));
    let others: BTreeSet<&str> = tables
        .iter()
        .filter(|other| other["proposal"].is_object() && other["name"] != table["name"])
        .map(|other| other["name"].as_str().unwrap())
        .collect();
    assert_eq!(others, bound.also_proposed.iter().copied().collect(), "{name}: other proposals");
    for (other, words) in fixture.unsuitable {
        let reason = find(&json!(other))["unsuitable"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{name}: {other}: {reason}");
    }
}

/// Binds the table and marks fields. A server that skips partitions before it replaces rows refuses some tables, and names a
/// view in their place. Returns whether the table itself is bound.
async fn bind(store: &Store, admin: &Client, bound: &Bound) -> bool {
    let mut binding = bound.binding();
    if binding["read_as"].is_string() {
        let mut without = binding.clone();
        without.as_object_mut().unwrap().remove("read_as");
        let refused = admin.put("/schema/binding", without).await.problem(422, "invalid_value");
        assert_eq!(refused.first_error()["pointer"], "/read_as", "{}", refused.body);
    }
    let mut answer = admin.put("/schema/binding", binding.clone()).await;
    let mut is_direct = true;
    if answer.status == 422 && store.version < (26, 3) && binding["read_as"] == "final" {
        let refused = answer.problem(422, "invalid_value");
        let reason = refused.first_error()["detail"].as_str().unwrap().to_owned();
        let (_, view) = reason.split_once("CREATE VIEW ").expect(&reason);
        store.run(&format!("CREATE VIEW {view}")).await;
        binding["table"] = format!("{}_final", text(&binding["table"])).into();
        binding.as_object_mut().unwrap().remove("read_as");
        answer = admin.put("/schema/binding", binding.clone()).await;
        is_direct = false;
    }
    let answer = answer.expect(200);
    let (expected, found) = (without_nulls(binding), without_nulls(answer.body["binding"].clone()));
    assert!(expected == found, "binding\n{}", differences(&expected, &found));
    let marks: Vec<Value> = bound.marks.fields().iter().map(|field| field.mark()).collect();
    let admin = admin.with("if-match", "*");
    for rejected in bound.rejected_marks {
        let mark = json!({"map": rejected.map, "name": rejected.name, "filterable": true, "policy": true});
        let refused = admin.put("/schema/fields", json!({"fields": [mark]})).await.expect(422);
        assert!(refused.first_error().to_string().contains(rejected.word), "{}", refused.body);
    }
    admin.put("/schema/fields", json!({ "fields": marks })).await.expect(200);
    is_direct
}

/// Creates a role for each policy and a user with each.
async fn users(service: &Service, admin: &Client, bound: &Bound, questions: &Questions) -> Vec<Client> {
    for (at, policy) in questions.policies.iter().enumerate() {
        let policies = json!({"policies": [{"title": "Policy", "expression": policy.text}]});
        let saved = admin.put(&format!("/roles/r{at}"), policies).await.expect(201);
        assert!(saved.status == 201, "{}", saved.body);
    }
    let create = |at: usize| async move {
        let name = format!("u{at}");
        let user = service.user(admin, &name, &[&format!("r{at}")]).await;
        let attributes = json!({"attributes": {"tenants": bound.marks.tenants}});
        admin.patch(&format!("/users/{name}"), attributes).await.expect(200);
        user
    };
    join_all((0..questions.policies.len()).map(create)).await
}

/// A layout with its spans.
struct Case<'a> {
    fixture: &'a Fixture,
    bound: &'a Bound,
    generated: &'a Generated,
    questions: &'a Questions,
}

/// Returns a query for this time in nanoseconds.
fn query(window: (i64, i64), view: &str, conditions: &[Value]) -> Value {
    let time = |nanos: i64| {
        let seconds = nanos / SECOND;
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // 2026-03-14 is the day 20,526.
        let day = days - 20_526 + 14;
        format!("2026-03-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
    };
    let (from, to) = (time(window.0), time(window.1));
    json!({"view": view, "limit": 100, "from": from, "to": to, "filter": {"conditions": conditions}})
}

impl Case<'_> {
    fn window(&self, (from, to): (i64, i64)) -> Window {
        let has_index = self.bound.proposal["trace_index"].is_string();
        Window { from, to, around: (!has_index).then_some(HOUR) }
    }

    fn ids(&self, traces: BTreeSet<u128>) -> BTreeSet<String> {
        traces.into_iter().map(self.bound.trace_id).collect()
    }

    /// Asks every filter with one policy, and none, in both windows.
    async fn ask(&self, user: &Client, policy: usize) {
        let expression = &self.questions.policies[policy];
        let no_filter = Vec::new();
        for window in [ALL, PART] {
            // One filter is enough for the limits of a window.
            let filters = if window == ALL { 0..6 } else { policy..policy + 1 };
            for filter in self.questions.filters[filters].iter().chain([&no_filter]) {
                let conditions: Vec<Value> = filter.iter().map(|condition| condition.json.clone()).collect();
                let page = user.post("/traces/query", query(window, "ids", &conditions)).await.expect(200);
                let found: Vec<&str> = page.body["trace_ids"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|id| id.as_str().unwrap())
                    .collect();
                assert!(page.body["next_cursor"].is_null());
                let distinct: BTreeSet<String> = found.iter().map(|id| (*id).to_owned()).collect();
                assert_eq!(distinct.len(), found.len(), "a trace occurs twice");
                let spans = &self.generated.spans;
                let expected = self.ids(selected(spans, self.window(window), expression, filter));
                let missing: Vec<&String> = expected.difference(&distinct).collect();
                let more: Vec<&String> = distinct.difference(&expected).collect();
                assert!(
                    missing.is_empty() && more.is_empty(),
                    "{}: `{}`, {}, {window:?}: missing {missing:?}, too many {more:?}",
                    self.fixture.name,
                    expression.text,
                    json!(conditions)
                );
            }
        }
    }

    /// Compares summaries: numbers of spans and errors, root and duration.
    async fn summaries(&self, user: &Client) {
        let binding = self.bound.binding();
        let display = &binding["display"];
        let page = user.post("/traces/query", query(ALL, "summary", &[])).await.expect(200).body;
        let traces = page["traces"].as_array().unwrap();
        assert!(traces.len() > 2);
        for summary in traces {
            let trace = self
                .generated
                .traces()
                .into_iter()
                .find(|trace| summary["trace_id"] == (self.bound.trace_id)(*trace))
                .unwrap();
            let spans = self.generated.trace(trace);
            let context = format!("{}: {summary}", self.fixture.name);
            let rows: usize = spans.iter().map(|span| self.bound.rows_of(span)).sum();
            assert_eq!(summary["span_count"], rows, "{context}");
            let root = spans.iter().find(|span| span.parent.is_none());
            if let Some(root) = root.filter(|_| display["name"].is_string()) {
                assert_eq!(summary["root_name"], root.name, "{context}");
            }
            if display["status"].is_string() {
                let errors: usize = spans.iter().map(|span| self.errors(span, display)).sum();
                assert_eq!(summary["error_count"], errors, "{context}");
            }
            if display["duration"].is_string() || display["end"].is_string() {
                let start = spans.iter().map(|span| span.start).min().unwrap();
                let end = spans.iter().map(|span| span.start + span.duration.max(0)).max().unwrap();
                assert_eq!(summary["duration_nanos"], end - start, "{context}");
            }
            if display["duration"].is_string() && spans.iter().any(|span| span.duration < 0) {
                assert_eq!(summary["duration_invalid"], true, "{context}");
            }
        }
    }

    /// Returns the number of rows of a span whose status is an error.
    fn errors(&self, span: &Span, display: &Value) -> usize {
        let defaults = json!(["Error", "STATUS_CODE_ERROR", "ERROR"]);
        let errors = if display["error_values"].is_array() { &display["error_values"] } else { &defaults };
        let column = display["status"].as_str().unwrap();
        let rows = self.bound.written(span);
        let is_error = |row: &&String| {
            let value = serde_json::from_str::<Value>(row).unwrap()[column].clone();
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            errors.as_array().unwrap().iter().any(|error| *error == text)
        };
        rows.iter().filter(is_error).count()
    }

    /// Fetches a visible and a hidden trace in every notation.
    async fn fetch(&self, user: &Client, recorder: &Recorder) {
        let window = Window { from: i64::MIN, to: i64::MAX, around: None };
        let visible = selected(&self.generated.spans, window, &self.questions.policies[0], &[]);
        let all = self.generated.traces();
        let mut hidden: Vec<u128> = all.difference(&visible).copied().collect();
        // Traces whose rows are all deleted or replaced, or belong to another project.
        let rows: BTreeSet<u128> = self.generated.rows.iter().map(|row| row.span.trace).collect();
        hidden.splice(0..0, rows.difference(&all).copied());
        // The smallest id has leading zeros.
        let shown = *visible.first().unwrap();
        for notation in self.notations(shown) {
            recorder.take();
            self.check_trace(user, shown, &notation).await;
        }
        let statements = recorder.take();
        for notation in self.notations(hidden[0]) {
            let answer = user.get(&format!("/traces/{}", encoded(&notation))).await;
            assert_eq!(answer.status, 404, "{}: {notation}", self.fixture.name);
            answer.problem(404, "trace_not_found");
        }
        if !self.bound.index.is_empty() {
            let plans: Vec<String> = statements.iter().map(|request| recorder.explain(request)).collect();
            let is_served = |plan: &String| self.bound.index.iter().all(|word| plan.contains(word));
            let texts: Vec<&str> = statements.iter().map(|request| statement(request)).collect();
            assert!(
                plans.iter().any(is_served),
                "{}: no look-up uses {:?}\n{}\n{}",
                self.fixture.name,
                self.bound.index,
                texts.first().unwrap_or(&""),
                plans.first().map_or("", String::as_str)
            );
        }
    }

    async fn check_trace(&self, user: &Client, trace: u128, notation: &str) {
        let name = self.fixture.name;
        let answer = user.get(&format!("/traces/{}", encoded(notation))).await;
        assert_eq!(answer.status, 200, "{name}: {notation}: {}", answer.body);
        let spans = answer.body["spans"].as_array().unwrap();
        let expected = self.generated.trace(trace);
        let rows: usize = expected.iter().map(|span| self.bound.rows_of(span)).sum();
        assert_eq!(spans.len(), rows, "{name}: {notation}");
        let binding = &self.bound.proposal;
        let column = |name: &str| binding[name].as_str().unwrap();
        let ids: BTreeSet<String> = expected.iter().map(|span| (self.bound.span_id)(span.id)).collect();
        let mut found = BTreeSet::new();
        for span in spans {
            assert_eq!(span[column("trace_id")], (self.bound.trace_id)(trace), "{name}: {span}");
            found.insert(text(&span[column("span_id")]));
            for columns in self.bound.pairs {
                let [keys, values] = columns.map(|column| span[column].as_array().map(Vec::len));
                assert!(keys.is_some() && keys == values, "{name}: {columns:?} {span}");
            }
        }
        assert_eq!(found, ids, "{name}");
        let parents: BTreeSet<String> =
            expected.iter().filter_map(|span| Some((self.bound.span_id)(span.parent?))).collect();
        let shown: BTreeSet<String> =
            spans.iter().map(|span| text(&span[column("parent_span_id")])).collect();
        assert!(parents.is_subset(&shown), "{name}: parents {parents:?} {shown:?}");
    }

    /// Returns the texts that name a trace.
    fn notations(&self, trace: u128) -> Vec<String> {
        let stored = (self.bound.trace_id)(trace);
        if self.bound.notation == Notation::Exact {
            return vec![stored.clone(), format!(" {stored}\t")];
        }
        let digits = format!("{trace:032x}");
        let hyphens = format!(
            "{}-{}-{}-{}-{}",
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..]
        );
        vec![
            stored.to_uppercase(),
            hyphens.to_uppercase(),
            digits.trim_start_matches('0').to_owned(),
            format!("000{digits}"),
            format!("00-{digits}-b7ad6b7169203331-01"),
            format!(" \t{hyphens} "),
            hyphens,
            digits,
            stored,
        ]
    }
}

/// Returns the text of an id, which may be a number.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Encodes a text for a path.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The block in the document is a model file that binds the table.
async fn check_model_file(admin: &Client, bound: &Bound) {
    let file = format!("{}roles: []\n", crate::trace_tables::document::model_file(bound));
    let request = admin.request(reqwest::Method::POST, "/schema/plan?seconds=0");
    let request = request.header("content-type", "application/yaml").body(file.clone());
    let plan = crate::support::Answer::read("POST /schema/plan".to_owned(), request).await.expect(200);
    let is_role = |change: &Value| ["role", "policy"].contains(&change["kind"].as_str().unwrap());
    assert!(plan.body["changes"].as_array().unwrap().iter().all(is_role), "{file}\n{}", plan.body);
}
