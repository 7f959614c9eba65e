use std::collections::BTreeSet;

use super::*;

fn bound() -> Vec<(Fixture, Generated)> {
    let bound = all().into_iter().filter_map(|fixture| {
        let generated = fixture.bound()?.generate();
        Some((fixture, generated))
    });
    bound.collect()
}

#[test]
fn each_layout_is_listed_once() {
    let all = all();
    let numbers: Vec<u8> = all.iter().map(|fixture| fixture.number).collect();
    assert_eq!(numbers, (1..=28).collect::<Vec<u8>>());
    assert_eq!(all.iter().map(|fixture| fixture.name).collect::<BTreeSet<_>>().len(), 28);
    let rejected: Vec<u8> =
        all.iter().filter(|fixture| fixture.bound().is_none()).map(|fixture| fixture.number).collect();
    assert_eq!(rejected, [10, 17, 20, 28]);
}

#[test]
fn ids_are_unique_and_have_special_values() {
    for (fixture, generated) in bound() {
        let ids: BTreeSet<u64> = generated.spans.iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), generated.spans.len(), "{}", fixture.name);
        assert!((230..=330).contains(&ids.len()), "{}: {}", fixture.name, ids.len());
        assert!(generated.traces().len() >= 38, "{}", fixture.name);
        let hex: Vec<String> = generated.traces().into_iter().map(row::hex32).collect();
        assert!(hex.iter().any(|id| id.starts_with("000")) && hex.iter().any(|id| id.ends_with("00")));
        assert!(hex.iter().any(|id| id.starts_with("0000000000000000")));
    }
}

#[test]
fn spans_have_every_case() {
    for (fixture, generated) in bound() {
        let shape = fixture.bound().unwrap().shape;
        let any = |test: &dyn Fn(&Span) -> bool| generated.spans.iter().any(test);
        let name = fixture.name;
        assert!(
            any(&|span| span.parent.is_none()) && any(&|span| span.error) && any(&|span| span.duration < 0),
            "{name}"
        );
        assert!(any(&|span| span.attribute("tenant.id").is_none()), "{name}");
        assert!(any(&|span| span.attribute("tenant.id") == Some(Value::from(""))), "{name}");
        let ids: BTreeSet<u64> = generated.spans.iter().map(|span| span.id).collect();
        assert!(any(&|span| span.parent.is_some_and(|parent| !ids.contains(&parent))), "{name}");
        let repeated =
            |span: &Span| span.attributes.iter().filter(|(key, _)| *key == "tenant.id").count() > 1;
        assert_eq!(any(&repeated), shape.repeated_keys, "{name}");
        let far = generated.traces().into_iter().any(|trace| {
            let starts: Vec<i64> = generated.trace(trace).iter().map(|span| span.start).collect();
            starts.iter().max().unwrap() - starts.iter().min().unwrap() > 24 * 3_600 * SECOND
        });
        assert!(far, "{name}");
        assert!(generated.spans.iter().all(|span| span.start % shape.time_unit == 0), "{name}");
        assert!(generated.spans.iter().all(|span| span.duration % shape.duration_unit == 0), "{name}");
        assert_eq!(
            generated.rows.iter().any(|row| row.version < 2),
            shape.versions != Versions::One,
            "{name}"
        );
        let deletes = shape.versions == Versions::ReplacedAndDeleted;
        assert_eq!(generated.rows.iter().any(|row| row.deleted), deletes, "{name}");
        assert_eq!(generated.rows.iter().any(|row| row.project != Row::PROJECT), shape.projects, "{name}");
    }
}

/// Rows that do not count would change answers if the service showed them.
#[test]
fn hidden_rows_satisfy_policies_that_the_spans_do_not() {
    let window = Window { from: 0, to: i64::MAX, around: None };
    for (fixture, generated) in bound() {
        let bound = fixture.bound().unwrap();
        let policy = &bound.questions().policies[0];
        let visible = selected(&generated.spans, window, policy, &[]);
        let all_rows: Vec<Span> = generated.rows.iter().map(|row| row.span.clone()).collect();
        let with_hidden = selected(&all_rows, window, policy, &[]);
        let hides = bound.shape.versions != Versions::One || bound.shape.projects;
        // In Gigapipe's layout policies use the service, which rows of the same span share.
        if hides && fixture.name != "gigapipe" {
            assert!(with_hidden.len() >= visible.len() + 3, "{}: {visible:?}", fixture.name);
        }
    }
}

#[test]
fn questions_select_some_traces_and_not_all() {
    let window = Window { from: 0, to: i64::MAX, around: None };
    for (fixture, generated) in bound() {
        let questions = fixture.bound().unwrap().questions();
        assert_eq!((questions.policies.len(), questions.filters.len()), (3, 6));
        let mut sizes = BTreeSet::new();
        for policy in &questions.policies {
            let visible = selected(&generated.spans, window, policy, &[]).len();
            assert!((3..generated.traces().len()).contains(&visible), "{}: {visible}", fixture.name);
            for (at, filter) in questions.filters.iter().enumerate() {
                let found = selected(&generated.spans, window, policy, filter).len();
                sizes.insert(found);
                assert!(found <= visible);
                // No span has an empty service, which stands for the tenant in Gigapipe's layout.
                let may_be_empty = at == 0 || fixture.name == "gigapipe";
                assert!(found > 0 || may_be_empty, "{}: `{}` with filter {at}", fixture.name, policy.text);
            }
        }
        assert!(sizes.len() >= 4, "{}: {sizes:?}", fixture.name);
    }
}

#[test]
fn statements_depend_on_the_version() {
    let file =
        "-- about\nCREATE TABLE a\n(\n    b Int8, -- before 26.2\n    b Int16, -- from 26.2\n);\nSELECT 1;\n";
    assert_eq!(statements(file, (25, 8)), ["CREATE TABLE a\n(\n    b Int8,\n)", "SELECT 1"]);
    assert_eq!(statements(file, (26, 2)), ["CREATE TABLE a\n(\n    b Int16,\n)", "SELECT 1"]);
}

#[test]
fn texts_of_ids() {
    assert_eq!(row::uuid(0x0af7), "00000000-0000-0000-0000-000000000af7");
    assert_eq!(row::base64(&0_u64.to_be_bytes()), "AAAAAAAAAAA=");
    assert_eq!(row::base64(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
    assert_eq!(row::base64(&[0, 255]), "AP8=");
    assert_eq!(row::ticks(-1, 3), -1);
}

#[test]
fn real_writers_have_the_same_spans() {
    let ids = |writer: &real_writers::Writer, trace: &str, span: &str| -> BTreeSet<(String, String)> {
        let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
        writer.parsed().iter().map(|row| (text(row, trace), text(row, span))).collect()
    };
    let collector = ids(&real_writers::COLLECTOR, "TraceId", "SpanId");
    assert_eq!(collector, ids(&real_writers::JAEGER, "trace_id", "id"));
    assert_eq!(collector.len(), 76);
    assert!(real_writers::COLLECTOR.statements().iter().all(|statement| !statement.contains("\nTTL ")));
}
