//! Permissions of scoped API keys, and audit records of calls: tool calls, and calls that are rejected before a use case
//! begins.

use crate::support::*;
use futures::future::poll_immediate;
use serde_json::{Value, json};
use tracewarden_service::*;

const SHIP_POLICY: &str = "ServiceName == \"ship\"";
const TOOLS: [Tool; 2] = [Tool::GetTrace, Tool::TraceStats];

/// An administrator who may read the traces of one role, with an unrestricted key, a key scoped to traces of `ship`, and a
/// key scoped to two tools.
struct KeyFixture {
    fixture: Fixture,
    session: Principal,
    unscoped_key: Principal,
    ship_key: Principal,
    tools_key: Principal,
}

async fn keys() -> KeyFixture {
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
    let session = fixture.user(&admin, "ada", &["admin", "pay"]).await;
    let key = async |policy: Option<&str>, tools: Option<&[Tool]>| {
        let policy = policy.map(str::to_owned);
        let tools = tools.map(|tools| tools.iter().map(|tool| tool.name().to_owned()).collect());
        let new = NewApiKey { name: "ci".to_owned(), expires_at: None, policy, tools };
        let token = fixture.service.account().create_api_key(&session, new).await.unwrap().token;
        fixture.principal(&Credential::ApiKey(token)).await
    };
    let unscoped_key = key(None, None).await;
    let ship_key = key(Some(SHIP_POLICY), None).await;
    let tools_key = key(None, Some(&TOOLS)).await;
    KeyFixture { fixture, session, unscoped_key, ship_key, tools_key }
}

#[tokio::test]
async fn a_scoped_key_calls_only_its_tools_and_cannot_administer() {
    let KeyFixture { fixture, session, unscoped_key, ship_key, tools_key } = keys().await;
    for (caller, is_scoped, tools) in [
        (&session, false, &Tool::ALL[..]),
        (&unscoped_key, false, &Tool::ALL),
        (&ship_key, true, &Tool::ALL),
        (&tools_key, true, &TOOLS),
    ] {
        for tool in Tool::ALL {
            let refused = caller.require_tool(Some(tool));
            assert_eq!(refused.is_ok(), tools.contains(&tool), "{tool:?}: {refused:?}");
            assert!(matches!(refused, Ok(()) | Err(ServiceError::ToolNotPermitted)));
        }
        let refused = caller.require_tool(None);
        assert_eq!(matches!(refused, Err(ServiceError::ToolNotPermitted)), is_scoped, "{refused:?}");
        let refused = caller.require_admin();
        assert_eq!(matches!(refused, Err(ServiceError::ScopedKey)), is_scoped, "{refused:?}");
        assert_eq!((caller.is_admin(), refused.is_ok()), (!is_scoped, !is_scoped));
        let by_session = caller.auth() == AuthKind::Session;
        let refused = caller.require_session();
        assert_eq!(matches!(refused, Err(ServiceError::SessionRequired)), !by_session, "{refused:?}");
        assert_eq!(refused.is_ok(), by_session);
        assert_eq!(caller.username(), "ada");
    }
    for (caller, restricted, tools) in [
        (&unscoped_key, false, None),
        (&ship_key, true, None),
        (&tools_key, false, Some(TOOLS.map(|tool| tool.name().to_owned()).to_vec())),
    ] {
        let access = fixture.service.traces().own_access(caller).await.unwrap();
        assert_eq!((access.key_constraint.is_some(), access.tools), (restricted, tools));
    }
}

#[tokio::test]
async fn the_policy_of_a_key_restricts_its_reads() {
    let KeyFixture { fixture, unscoped_key, ship_key, tools_key, .. } = keys().await;
    fixture.store.set(|answers| answers.selected = vec![("t1".to_owned(), 10, 2)]);
    for (caller, is_scoped) in [(&unscoped_key, false), (&ship_key, true), (&tools_key, false)] {
        fixture.store.set(|answers| answers.statements.clear());
        let request = QueryRequest { view: View::Ids, ..QueryRequest::default() };
        assert_eq!(fixture.service.traces().query(caller, request).await.unwrap().traces, 1);
        let statements = fixture.store.answers.lock().unwrap().statements.join("\n");
        assert!(statements.contains("pay") && statements.contains("ship") == is_scoped, "{statements}");
        let detail = fixture.last_audit(&unscoped_key).await.detail;
        assert_eq!(detail.get("key_policy"), is_scoped.then(|| json!(SHIP_POLICY)).as_ref());
    }
}

#[test]
fn tool_names_are_those_that_keys_are_stored_with() {
    let names = [
        "svc_filter_schema",
        "svc_field_values",
        "svc_trace_stats",
        "svc_query_traces",
        "svc_get_trace",
        "svc_get_spans",
        "svc_critical_path",
        "svc_compare_traces",
        "svc_explain_access",
    ];
    assert_eq!(Tool::ALL.map(Tool::name), names);
    assert_eq!(names.map(Tool::parse), Tool::ALL.map(Some));
    assert_eq!((Tool::parse(""), Tool::parse("svc_none")), (None, None));
}

const PATH: &str = "/api/v1/things/7";
const ROUTE: &str = "/api/v1/things/{id}";

fn call(session_only: Option<SessionOnly>, tool: Option<Tool>) -> RejectedCall<'static> {
    RejectedCall { session_only, tool, method: "PUT", route: Some(ROUTE), path: PATH }
}

/// Returns action, outcome, interface, target and detail of the last record.
async fn recorded(fixture: &Fixture, admin: &Principal) -> (String, String, String, Option<String>, Value) {
    let record = fixture.last_audit(admin).await;
    let AuditEntry { action, outcome, actor, target, .. } = AuditEntry::clone(&record);
    (action, outcome, actor.via.unwrap(), target, record.detail)
}

/// A caller who tries a forbidden action must not avoid the audit record by disconnecting before the answer.
#[tokio::test]
async fn a_denial_is_recorded_after_a_disconnect() {
    let KeyFixture { fixture, session, tools_key, .. } = keys().await;
    let before = fixture.audit(&session).await.len();
    for _ in 0..4 {
        let error = ServiceError::SessionRequired;
        let refusal = fixture.service.core().record_rejected_call(&tools_key, &error, call(None, None));
        // Polled once: writing a record takes longer than that, on any machine.
        assert!(poll_immediate(Box::pin(refusal)).await.is_none());
    }
    let records = fixture.wait_for_new_records(&session, before, 4).await;
    assert!(records.iter().all(|record| record.detail["code"] == "session_required"), "{records:?}");
}

/// Denied calls write records, and every read of traces writes two.
#[tokio::test]
async fn a_flood_of_denials_delays_a_writer_by_one_transaction() {
    const FLOOD: usize = 130;
    // Further records of one user do not wait.
    const WAITING: usize = 100;
    let KeyFixture { fixture, session, tools_key, .. } = keys().await;
    let before = fixture.audit(&session).await.len();
    let mut writing = fixture.db.begin_write().await.unwrap();
    let (head, _) = writing.audit_head().await.unwrap();
    let refusals: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (service, caller) = (fixture.service.clone(), tools_key.clone());
            tokio::spawn(async move {
                service
                    .core()
                    .record_rejected_call(&caller, &ServiceError::SessionRequired, call(None, None))
                    .await;
            })
        })
        .collect();
    let yield_repeatedly = async || {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    yield_repeatedly().await;
    assert_eq!(refusals.iter().filter(|refusal| refusal.is_finished()).count(), FLOOD - WAITING);
    let db = fixture.db.clone();
    let reads = tokio::spawn(async move { db.begin_write().await.unwrap() });
    yield_repeatedly().await;
    drop(writing);
    let mut reads = reads.await.unwrap();
    let written = reads.audit_head().await.unwrap().0 - head;
    assert!([0, WAITING as u64].contains(&written), "{written} refusals were recorded before");
    drop(reads);
    for refusal in refusals {
        refusal.await.unwrap();
    }
    assert_eq!(fixture.wait_for_new_records(&session, before, WAITING).await.len(), WAITING);
}

/// A check of a policy counts as a query, of which each user may run a limited number.
#[tokio::test]
async fn policies_of_keys_are_checked_with_limited_concurrency() {
    let fixture = fixture_with(Settings { max_queries_per_user: Some(1), ..Settings::default() }).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let make = async |policy: Option<&str>| {
        let policy = policy.map(str::to_owned);
        let new = NewApiKey { name: "ci".to_owned(), expires_at: None, policy, tools: None };
        fixture.service.account().create_api_key(&admin, new).await.map(drop)
    };
    let running = fixture.service.traces().begin_query(&admin, QueryRequest::default()).await.unwrap();
    let before = fixture.audit(&admin).await.len();
    assert_eq!(code(make(Some(SHIP_POLICY)).await), "too_many_queries");
    assert_eq!(code(fixture.service.traces().own_access(&admin).await.map(drop)), "too_many_queries");
    let refused = fixture.wait_for_new_records(&admin, before, 2).await;
    let refused: Vec<_> =
        refused.iter().map(|record| (record.action.as_str(), record.outcome.as_str())).collect();
    assert_eq!(refused, [("traces.explain", "denied"), ("api_key.create", "denied")]);
    // Without a policy, nothing is checked.
    make(None).await.unwrap();
    drop(running);
    make(Some(SHIP_POLICY)).await.unwrap();
    fixture.service.traces().own_access(&admin).await.unwrap();
}

#[tokio::test]
async fn a_denied_call_is_recorded_with_its_action() {
    use ServiceError::{Forbidden, PasswordChangeRequired, ToolNotPermitted};
    let KeyFixture { fixture, session, tools_key, .. } = keys().await;
    let by_mcp = RequestInfo { via: Transport::Mcp, ..info() };
    let by_mcp = fixture
        .service
        .core()
        .identify(&fixture.sign_in("ada", USER_PASSWORD).await.unwrap(), by_mcp)
        .await
        .unwrap();
    let required = || ServiceError::SessionRequired;
    let sign_out = Some(SessionOnly::SignOut);
    for (caller, via, error, of, action) in [
        (&*tools_key, "api_key", required(), call(sign_out, None), "logout"),
        (
            &*tools_key,
            "api_key",
            required(),
            call(Some(SessionOnly::ChangePassword), None),
            "password.change",
        ),
        (&*tools_key, "api_key", required(), call(Some(SessionOnly::CreateApiKey), None), "api_key.create"),
        (&*tools_key, "api_key", required(), call(Some(SessionOnly::BeginPreview), None), "preview.begin"),
        (&*tools_key, "api_key", required(), call(Some(SessionOnly::EndPreview), None), "preview.end"),
        (&*tools_key, "api_key", required(), call(None, None), "administration"),
        (&*tools_key, "api_key", ToolNotPermitted, call(None, Some(Tool::QueryTraces)), "api_key.use"),
        (&*tools_key, "api_key", ToolNotPermitted, call(sign_out, None), "api_key.use"),
        (&*session, "session", Forbidden, call(None, None), "administration"),
        (&*session, "session", Forbidden, call(sign_out, None), "administration"),
        (&*session, "session", PasswordChangeRequired, call(None, Some(Tool::QueryTraces)), "traces.query"),
        (&*session, "session", PasswordChangeRequired, call(None, Some(Tool::GetSpans)), "traces.get"),
        (&*session, "session", PasswordChangeRequired, call(None, Some(Tool::FieldValues)), "traces.values"),
        (&*session, "session", PasswordChangeRequired, call(None, Some(Tool::TraceStats)), "traces.stats"),
        (
            &*session,
            "session",
            PasswordChangeRequired,
            call(None, Some(Tool::ExplainAccess)),
            "traces.explain",
        ),
        (
            &*session,
            "session",
            PasswordChangeRequired,
            call(None, Some(Tool::FilterSchema)),
            "administration",
        ),
        (&by_mcp, "mcp", PasswordChangeRequired, call(None, None), "tools.call"),
        (&by_mcp, "mcp", ToolNotPermitted, call(None, None), "api_key.use"),
    ] {
        fixture.service.core().record_rejected_call(caller, &error, of).await;
        let detail = json!({ "code": error.code(), "method": "PUT", "route": ROUTE });
        let expected =
            (action.to_owned(), "denied".to_owned(), via.to_owned(), Some(PATH.to_owned()), detail);
        assert_eq!(recorded(&fixture, &session).await, expected, "{error:?} {of:?}");
    }
    // Calls that the caller may make, in a request that cannot be parsed.
    for (caller, via, of, action) in [
        (&*session, "session", call(Some(SessionOnly::CreateApiKey), None), "api_key.create"),
        (&*session, "session", call(None, Some(Tool::GetTrace)), "traces.get"),
        (&*session, "session", call(None, None), "administration"),
        (&by_mcp, "mcp", call(None, None), "tools.call"),
        (&by_mcp, "mcp", call(sign_out, None), "tools.call"),
    ] {
        fixture.service.core().record_unparsable_call(caller, "invalid_request", of).await;
        let detail = json!({ "code": "invalid_request", "method": "PUT", "route": ROUTE });
        let expected =
            (action.to_owned(), "failed".to_owned(), via.to_owned(), Some(PATH.to_owned()), detail);
        assert_eq!(recorded(&fixture, &session).await, expected, "{of:?}");
    }
}

#[tokio::test]
async fn a_tool_call_is_recorded_with_its_arguments() {
    let KeyFixture { fixture, session, .. } = keys().await;
    let arguments = json!({ "trace_id": "t\u{202e}1", "more": [1, { "a": null }] });
    let caller = session.with_tool_call(ToolCall {
        tool: "svc_get\u{200b}_trace".to_owned(),
        arguments: arguments.clone(),
        client: Some("an agent\u{1b}[31m".to_owned()),
    });
    let sent = json!({ "arguments": arguments, "tool": "svc_get_trace", "client": "an agent[31m" });
    let expected = |action: &str, outcome: &str, code: Option<&str>| {
        let mut detail = json!({ "mcp": sent });
        if let Some(code) = code {
            detail["code"] = json!(code);
        }
        (action.to_owned(), outcome.to_owned(), "session".to_owned(), None, detail)
    };
    for (tool, action) in [(Tool::FilterSchema, "filter.schema"), (Tool::ExplainAccess, "traces.explain")] {
        fixture.service.core().record_tool_call(&caller, tool).await.unwrap();
        assert_eq!(recorded(&fixture, &session).await, expected(action, "success", None));
    }
    for (tool, outcome, action) in [
        (Some(Tool::GetTrace), Outcome::Denied, "api_key.use"),
        (Some(Tool::GetTrace), Outcome::Failed, "traces.get"),
        (Some(Tool::FilterSchema), Outcome::Failed, "filter.schema"),
        (None, Outcome::Failed, "tools.call"),
    ] {
        fixture.service.core().record_rejected_tool_call(&caller, tool, "a_code", outcome).await;
        let outcome = if outcome == Outcome::Denied { "denied" } else { "failed" };
        assert_eq!(recorded(&fixture, &session).await, expected(action, outcome, Some("a_code")), "{tool:?}");
    }
}
