//! Reading of traces: the order of records and spans, and the answers to a caller without access.

use std::time::{Duration, Instant};

use crate::support::*;
use futures::StreamExt as _;
use tracewarden_model::{FieldRef, Filter, RawCondition, Scalar, Timestamp};
use tracewarden_service::*;
use tracewarden_testkit::wait::until;

fn service_is(name: &str) -> RawCondition {
    RawCondition {
        field: FieldRef::column("ServiceName"),
        field_member: "name",
        op: "eq".to_owned(),
        value: Some(Scalar::String(name.to_owned())),
        values: None,
    }
}

fn query(conditions: Vec<RawCondition>) -> QueryRequest {
    QueryRequest { filter: Filter::of(conditions), ..QueryRequest::default() }
}

struct ReadFixture {
    fixture: Fixture,
    admin: Principal,
    reader: Principal,
}

async fn reading() -> ReadFixture {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    fixture
        .service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    let reader = fixture.user(&admin, "ada", &["pay"]).await;
    fixture.store.set(|answers| {
        answers.selected = vec![("t1".to_owned(), 10, 2), ("t2".to_owned(), 9, 1)];
        answers.spans = "{\"TraceId\":\"t1\",\"SpanId\":\"a\"}\n{\"TraceId\":\"t1\",\"SpanId\":\"b\"}\n\
                         {\"TraceId\":\"t2\",\"SpanId\":\"c\"}\n"
            .to_owned();
    });
    ReadFixture { fixture, admin, reader }
}

impl ReadFixture {
    async fn last(&self) -> Entry {
        self.fixture.last_audit(&self.admin).await
    }

    async fn spans(&self, request: QueryRequest) -> SpanStream {
        match self.fixture.service.traces().query(&self.reader, request).await.unwrap().body {
            AnswerBody::Spans(spans) => spans,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_page_is_recorded_before_and_after() {
    let reading = reading().await;
    let mut spans = reading.spans(query(vec![service_is("pay")])).await;
    let begun = reading.last().await;
    assert_eq!((begun.action.as_str(), begun.outcome.as_str()), ("traces.query", "unknown"));
    assert_eq!(begun.detail["filter"][0]["value"], "pay");
    assert_eq!((&begun.detail["version"], &begun.detail["roles"]["pay"]), (&4.into(), &2.into()));
    let mut seen = 0;
    while let Some(chunk) = spans.next().await {
        seen += chunk.unwrap().spans;
    }
    // The record is durable when the stream ends.
    let ended = reading.last().await;
    assert_eq!((seen, ended.id.as_str(), ended.outcome.as_str()), (3, begun.id.as_str(), "success"));
    assert_eq!((&ended.detail["traces"], &ended.detail["spans"]), (&2.into(), &3.into()));
    assert!(ended.completed_at.is_some());
}

#[tokio::test]
async fn failed_answers_and_client_disconnects_are_distinguished() {
    let reading = reading().await;
    reading.fixture.store.set(|answers| answers.cut = true);
    let mut spans = reading.spans(query(vec![])).await;
    let mut failed = false;
    while let Some(chunk) = spans.next().await {
        failed |= chunk.is_err();
    }
    assert!(failed && spans.next().await.is_none());
    let record = reading.last().await;
    assert_eq!((record.outcome.as_str(), &record.detail["code"]), ("failed", &"clickhouse_error".into()));

    reading.fixture.store.set(|answers| answers.cut = false);
    let spans = reading.spans(query(vec![])).await;
    drop(spans);
    until(async || reading.last().await, |record| record.outcome == "aborted").await;
}

#[tokio::test]
async fn too_few_spans_fail_the_page() {
    let reading = reading().await;
    reading.fixture.store.set(|answers| answers.selected[1].2 = 5);
    let chunks: Vec<_> = reading.spans(query(vec![])).await.collect().await;
    assert_eq!(code(chunks.into_iter().collect::<Result<Vec<_>, _>>()), "clickhouse_error");
    assert_eq!(reading.last().await.outcome, "failed");
}

#[tokio::test]
async fn no_spans_are_returned_without_a_record() {
    let reading = reading().await;
    // The application database rejects audit records, and accepts all other writes.
    sqlx_execute(
        &reading.fixture.url,
        "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    )
    .await;
    let before = reading.fixture.store.lookups();
    let answer = reading.fixture.service.traces().query(&reading.reader, query(vec![])).await;
    assert_eq!(code(answer), "unavailable");
    assert_eq!(code(reading.fixture.service.traces().trace(&reading.reader, "t1").await), "unavailable");
    assert_eq!(reading.fixture.store.lookups(), before, "no trace was read");
}

async fn sqlx_execute(url: &str, statement: &'static str) {
    use sqlx::{Connection as _, Executor as _};
    let mut connection = sqlx::AnyConnection::connect(url).await.unwrap();
    connection.execute(statement).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn the_end_of_an_answer_waits_for_its_record() {
    let reading = reading().await;
    let mut spans = reading.spans(query(vec![])).await;
    sqlx_execute(
        &reading.fixture.url,
        "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    )
    .await;
    let mut last = None;
    while let Some(chunk) = spans.next().await {
        last = Some(chunk);
    }
    assert_eq!(code(last.unwrap()), "unavailable", "an answer whose record fails does not end well");
    assert_eq!(reading.last().await.outcome, "unknown");
}

/// A database that fails for a moment delays the end of an answer, and does not abort it.
#[tokio::test]
async fn the_end_of_an_answer_is_recorded_when_the_database_recovers() {
    let reading = reading().await;
    let mut spans = reading.spans(query(vec![])).await;
    let full = "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    sqlx_execute(&reading.fixture.url, full).await;
    let begun = Instant::now();
    let (url, space) = (reading.fixture.url.clone(), Duration::from_secs(1));
    let recovery = tokio::spawn(async move {
        tokio::time::sleep(space).await;
        sqlx_execute(&url, "DROP TRIGGER full").await;
    });
    while let Some(chunk) = spans.next().await {
        chunk.unwrap();
    }
    assert!(begun.elapsed() >= space);
    recovery.await.unwrap();
    assert_eq!(reading.last().await.outcome, "success");
}

#[tokio::test]
async fn a_user_without_access_gets_an_empty_page() {
    let reading = reading().await;
    let fixture = &reading.fixture;
    let no_access = fixture.user(&reading.admin, "bob", &[]).await;
    let before = fixture.store.lookups();
    let answer = fixture.service.traces().query(&no_access, query(vec![service_is("pay")])).await.unwrap();
    assert_eq!((answer.traces, answer.next_cursor, answer.schema.version), (0, None, 4));
    let AnswerBody::Spans(mut spans) = answer.body else { panic!() };
    assert!(spans.next().await.is_none());
    assert_eq!(reading.last().await.outcome, "success");
    fixture.store.set(|answers| answers.found = (5, 1));
    assert_eq!(code(fixture.service.traces().trace(&no_access, "t1").await), "trace_not_found");
    assert_eq!(fixture.store.lookups(), before, "ClickHouse was not queried for traces");
    let refused = QueryRequest { columns: Some(vec!["Nope".to_owned()]), ..query(vec![]) };
    for caller in [&no_access, &reading.reader] {
        let seen = pointers(fixture.service.traces().query(caller, refused.clone()).await);
        assert_eq!(seen, [("/columns/0".to_owned(), "unknown_field")]);
    }
}

#[tokio::test]
async fn absent_forbidden_and_impossible_traces_get_one_answer() {
    let reading = reading().await;
    let mut answers = Vec::new();
    for (id, found) in [("t9", (0, 0)), ("t8", (7, 0)), ("", (7, 1)), (&"0".repeat(32), (7, 1))] {
        reading.fixture.store.set(|answers| answers.found = found);
        let error = reading.fixture.service.traces().trace(&reading.reader, id).await.unwrap_err();
        let record = reading.last().await;
        answers.push((
            format!("{error:?} {} {:?}", error.detail(), error.log_cause()),
            record.outcome.clone(),
            record.detail,
        ));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(answers[0].1, "not_found");

    reading.fixture.store.set(|answers| {
        answers.found = (1, 1);
        answers.spans = "{\"TraceId\":\"t1\"}\n".to_owned();
    });
    let mut answer = reading.fixture.service.traces().trace(&reading.reader, "t1").await.unwrap();
    assert_eq!(answer.spans.next().await.unwrap().unwrap().spans, 1);
    assert!(answer.spans.next().await.is_none());
    let record = reading.last().await;
    assert_eq!((record.outcome.as_str(), record.target.as_deref()), ("success", Some("t1")));
}

#[tokio::test]
async fn calls_with_many_spans_are_limited_in_total_and_per_user() {
    const MANY: usize = 1024 * 1024;
    let reading = reading().await;
    let fixture = &reading.fixture;
    let readers = [&fixture.user(&reading.admin, "bob", &["pay"]).await, &reading.reader];
    let other = fixture.user(&reading.admin, "eve", &["pay"]).await;
    let ask = async |reader: &Principal, bytes: usize| {
        fixture.store.set(|answers| (answers.found, answers.given) = ((2, 1), bytes));
        let mut trace = fixture.service.traces().open_trace(reader, "t1", Some(Vec::new())).await.unwrap();
        let spans = trace.spans(&["a".to_owned()]).await;
        spans.map(|spans| (trace, spans.unwrap()))
    };
    let mut held = Vec::new();
    for reader in readers {
        for _ in 0..4 {
            held.push(ask(reader, MANY).await.unwrap());
        }
        let refused = ask(reader, MANY).await.err().unwrap();
        assert_eq!(refused.code(), "too_many_queries");
        let record = reading.last().await;
        assert_eq!((record.outcome.as_str(), &record.detail["code"]), ("failed", &"too_many_queries".into()));
        // A few spans need no permit.
        assert_eq!(ask(reader, 10).await.unwrap().1.len(), 1);
    }
    assert!(tokio::time::timeout(Duration::from_millis(500), ask(&other, MANY)).await.is_err());
    drop(held.pop());
    let (trace, spans) = ask(&other, MANY).await.unwrap();
    assert!(spans[0].json.len() > MANY);
    // The permit is held until the record is completed.
    trace.close().await.unwrap();
    assert_eq!(reading.last().await.outcome, "success");
    assert!(ask(&other, MANY).await.is_ok());
}

/// The trace has more spans than are listed without a permit; whether they arrive does not matter here.
#[tokio::test]
async fn concurrent_calls_on_large_traces_are_limited() {
    let reading = reading().await;
    let fixture = &reading.fixture;
    let ask = async |spans: u64| {
        fixture.store.set(|answers| answers.found = (spans, 1));
        let mut trace =
            fixture.service.traces().open_trace(&reading.reader, "t1", Some(Vec::new())).await.unwrap();
        let brief = trace.brief().await;
        (trace, code(brief))
    };
    let mut held = Vec::new();
    for _ in 0..4 {
        let (trace, failed) = ask(5_001).await;
        assert_eq!(failed, "clickhouse_error");
        held.push(trace);
    }
    assert_eq!(ask(5_001).await.1, "too_many_queries");
    assert_eq!(ask(5_000).await.1, "clickhouse_error", "which needs no permit");
    held.pop();
    assert_eq!(ask(5_001).await.1, "clickhouse_error");
}

#[tokio::test]
async fn cursors_are_bound_to_their_query() {
    let reading = reading().await;
    let service = &reading.fixture.service;
    let ids = |cursor: Option<String>, limit| QueryRequest {
        limit: Some(limit),
        cursor,
        view: View::Ids,
        ..query(vec![service_is("pay")])
    };
    let first = service.traces().query(&reading.reader, ids(None, 1)).await.unwrap();
    assert!(matches!(&first.body, AnswerBody::Ids(ids) if ids.as_slice() == ["t1"]));
    let cursor = first.next_cursor.unwrap();
    reading.fixture.clock.advance(1_000);
    let second = service.traces().query(&reading.reader, ids(Some(cursor.clone()), 50)).await.unwrap();
    assert_eq!(second.next_cursor, None);
    let record = reading.last().await;
    assert_eq!(record.detail["to"], "2026-11-21T07:33:26Z", "the first page fixed the window");
    assert_eq!(record.outcome, "success");

    let with = |change: &dyn Fn(&mut QueryRequest)| {
        let mut request = ids(Some(cursor.clone()), 1);
        change(&mut request);
        request
    };
    let to = Timestamp::parse("2026-11-21T07:33:26Z").unwrap();
    let from = to.saturating_sub(24 * 3_600 * SECOND);
    let same = with(&|request| (request.from, request.to) = (Some(from), Some(to)));
    service.traces().query(&reading.reader, same).await.unwrap();
    for (request, expected) in [
        (with(&|request| request.filter.conditions.clear()), "cursor_filter_mismatch"),
        (with(&|request| request.filter.conditions = vec![service_is("other")]), "cursor_filter_mismatch"),
        (with(&|request| request.to = Some(from)), "invalid_cursor"),
        (with(&|request| request.from = Some(to)), "invalid_cursor"),
        (with(&|request| request.cursor = Some(String::new())), "invalid_cursor"),
        (with(&|request| request.cursor = Some("x".repeat(200))), "invalid_cursor"),
    ] {
        assert_eq!(code(service.traces().query(&reading.reader, request).await), expected);
    }
    let other = reading.fixture.user(&reading.admin, "bob", &["pay"]).await;
    assert_eq!(code(service.traces().query(&other, ids(Some(cursor.clone()), 1)).await), "invalid_cursor");
    let replica =
        replica(&reading.fixture.db, &reading.fixture.clock, &reading.fixture.store, Settings::default());
    replica.await.traces().query(&reading.reader, ids(Some(cursor.clone()), 1)).await.unwrap();
    let administrator = reading.admin.require_admin().unwrap();
    let mut binding = otel_binding();
    binding.span_id = "ParentSpanId".to_owned();
    binding.parent_span_id = "SpanId".to_owned();
    service.source().put_binding(&administrator, binding, Some(IfMatch::Versions(vec![2]))).await.unwrap();
    assert_eq!(code(service.traces().query(&reading.reader, ids(Some(cursor), 1)).await), "invalid_cursor");
}

#[tokio::test]
async fn a_larger_limit_than_the_maximum_is_capped() {
    let reading = reading().await;
    let place = |place: usize| (format!("t{place:03}"), -(place as i64), 1);
    reading.fixture.store.set(|answers| answers.selected = (0..300).map(place).collect());
    for (limit, expected) in [(199, 199), (200, 200), (201, 200), (i64::MAX, 200)] {
        let request = QueryRequest { limit: Some(limit), view: View::Ids, ..query(vec![]) };
        let answer = reading.fixture.service.traces().query(&reading.reader, request).await.unwrap();
        assert_eq!(reading.last().await.detail["limit"], expected);
        let AnswerBody::Ids(ids) = answer.body else { panic!() };
        assert_eq!((ids.len(), answer.next_cursor.is_some()), (expected, true));
    }
}

#[tokio::test]
async fn a_truncated_page_continues_where_it_ended() {
    let reading = reading().await;
    let all = ["t1", "t2", "t3", "t4", "t5"];
    let place = |place: usize| (all[place].to_owned(), 10 - place as i64, 1);
    reading.fixture.store.set(|answers| answers.selected = (0..all.len()).map(place).collect());
    let page = async |cursor: Option<String>, limit| {
        let request = QueryRequest { limit: Some(limit), cursor, view: View::Ids, ..query(vec![]) };
        let begun = reading.fixture.service.traces().begin_query(&reading.reader, request).await.unwrap();
        let (answer, page_cursors) = begun.run(None).await.unwrap();
        let AnswerBody::Ids(ids) = answer.body else { panic!() };
        (ids, answer.next_cursor, page_cursors)
    };
    for (limit, whole) in [(4, 4), (5, 5), (50, 5)] {
        let (ids, next, page_cursors) = page(None, limit).await;
        assert_eq!((ids.as_slice(), next.is_some()), (&all.map(str::to_owned)[..whole], whole < all.len()));
        assert_eq!(page_cursors.cursor_after(0).unwrap(), None);
        for beyond in [whole, whole + 1, usize::MAX] {
            assert_eq!(page_cursors.cursor_after(beyond).unwrap(), next);
        }
        let to = reading.last().await.detail["to"].clone();
        reading.fixture.clock.advance(1_000);
        for taken in 1..whole {
            // Requested twice, like a client that tries several lengths.
            for _ in 0..2 {
                let cursor = page_cursors.cursor_after(taken).unwrap();
                assert!(cursor.is_some());
                let (rest, last, page_cursors) = page(cursor, 50).await;
                assert_eq!((rest.as_slice(), last), (&all.map(str::to_owned)[taken..], None));
                assert_eq!(reading.last().await.detail["to"], to, "the first page fixed the window");
                // The next page can be cut too.
                if let Some(cursor) = page_cursors.cursor_after(1).unwrap() {
                    assert_eq!(page(Some(cursor), 50).await.0, rest[1..]);
                } else {
                    assert_eq!(rest.len(), 1);
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_have_pointers_and_hide_policy_fields() {
    let reading = reading().await;
    let service = &reading.fixture.service;
    let tenant = RawCondition { field: FieldRef::key("SpanAttributes", "tenant.id"), ..service_is("x") };
    let request = query(vec![service_is("pay"), tenant.clone()]);
    let error = service.traces().query(&reading.reader, request.clone()).await.unwrap_err();
    assert_eq!(error.code(), "unknown_field");
    assert_eq!(error.errors()[0].pointer, "/filter/conditions/1/name");
    assert_eq!(reading.last().await.detail["code"], "unknown_field");
    assert_eq!(code(service.traces().query(&reading.admin, request).await), "not_filterable");
    let many = query(vec![service_is("pay"); 21]);
    assert_eq!(code(service.traces().query(&reading.reader, many).await), "too_many_conditions");
    let between = RawCondition {
        op: "in".to_owned(),
        value: None,
        values: Some(vec![Scalar::String("a".to_owned()), Scalar::Bool(true)]),
        ..service_is("")
    };
    let seen = pointers(service.traces().query(&reading.reader, query(vec![between])).await);
    assert_eq!(seen, [("/filter/conditions/0/values/1".to_owned(), "value_type")]);
}

#[tokio::test]
async fn a_stored_policy_that_no_longer_compiles_grants_no_access() {
    let reading = reading().await;
    sqlx_execute(&reading.fixture.url, "UPDATE role_policies SET expression = 'Gone == \"x\"'").await;
    let before = reading.fixture.store.lookups();
    let error = reading.fixture.service.traces().query(&reading.reader, query(vec![])).await.unwrap_err();
    assert_eq!(error.code(), "policy_broken");
    assert!(error.log_cause().unwrap().contains("role `pay`") && !error.detail().contains("pay"));
    assert_eq!(code(reading.fixture.service.traces().trace(&reading.reader, "t1").await), "policy_broken");
    assert_eq!(reading.fixture.store.lookups(), before);
}
