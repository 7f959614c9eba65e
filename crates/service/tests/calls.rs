//! Permissions of scoped API keys, and audit records of calls: tool calls, and calls that are rejected before a use case
//! begins.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use futures::future::poll_immediate;
use serde_json::{Value, json};
use support::*;
use tracewarden_service::*;

const OF_SHIPS: &str = "ServiceName == \"ship\"";
const TOOLS: [Tool; 2] = [Tool::GetTrace, Tool::TraceStats];

/// An administrator who may read the traces of one role, with an unrestricted key, a key scoped to traces of `ship`, and a
/// key scoped to two tools.
struct Keys {
    world: World,
    session: Principal,
    whole: Principal,
    of_ships: Principal,
    of_tools: Principal,
}

async fn keys() -> Keys {
    let world = world().await;
    let admin = world.admin().await;
    world.bind(&admin).await;
    let right = admin.require_admin().unwrap();
    world.service.put_role(&right, "pay", vec![policy("ServiceName == \"pay\"")], None).await.unwrap();
    let session = world.user(&admin, "ada", &["admin", "pay"]).await;
    let key = async |policy: Option<&str>, tools: Option<&[Tool]>| {
        let policy = policy.map(str::to_owned);
        let tools = tools.map(|tools| tools.iter().map(|tool| tool.name().to_owned()).collect());
        let new = NewApiKey { name: "ci".to_owned(), expires_at: None, policy, tools };
        let token = world.service.create_api_key(&session, new).await.unwrap().token;
        world.principal(&Credential::ApiKey(token)).await
    };
    let whole = key(None, None).await;
    let of_ships = key(Some(OF_SHIPS), None).await;
    let of_tools = key(None, Some(&TOOLS)).await;
    Keys { world, session, whole, of_ships, of_tools }
}

#[tokio::test]
async fn a_scoped_key_calls_only_its_tools_and_cannot_administer() {
    let Keys { world, session, whole, of_ships, of_tools } = keys().await;
    for (caller, narrowed, tools) in [
        (&session, false, &Tool::ALL[..]),
        (&whole, false, &Tool::ALL),
        (&of_ships, true, &Tool::ALL),
        (&of_tools, true, &TOOLS),
    ] {
        for tool in Tool::ALL {
            let refused = caller.require_tool(Some(tool));
            assert_eq!(refused.is_ok(), tools.contains(&tool), "{tool:?}: {refused:?}");
            assert!(matches!(refused, Ok(()) | Err(ServiceError::OutsideTools)));
        }
        let refused = caller.require_tool(None);
        assert_eq!(matches!(refused, Err(ServiceError::OutsideTools)), narrowed, "{refused:?}");
        let refused = caller.require_admin();
        assert_eq!(matches!(refused, Err(ServiceError::NarrowedKey)), narrowed, "{refused:?}");
        assert_eq!((caller.is_admin(), refused.is_ok()), (!narrowed, !narrowed));
        let by_session = caller.auth() == AuthKind::Session;
        let refused = caller.require_own_session();
        assert_eq!(matches!(refused, Err(ServiceError::SessionRequired)), !by_session, "{refused:?}");
        assert_eq!(refused.is_ok(), by_session);
        assert_eq!(caller.username(), "ada");
    }
    for (caller, restricted, tools) in [
        (&whole, false, None),
        (&of_ships, true, None),
        (&of_tools, false, Some(TOOLS.map(|tool| tool.name().to_owned()).to_vec())),
    ] {
        let access = world.service.own_access(caller).await.unwrap();
        assert_eq!((access.key_constraint.is_some(), access.tools), (restricted, tools));
    }
}

#[tokio::test]
async fn the_policy_of_a_key_restricts_its_reads() {
    let Keys { world, whole, of_ships, of_tools, .. } = keys().await;
    world.store.set(|answers| answers.selected = vec![("t1".to_owned(), 10, 2)]);
    for (caller, narrowed) in [(&whole, false), (&of_ships, true), (&of_tools, false)] {
        world.store.set(|answers| answers.asked.clear());
        let request = QueryRequest { view: View::Ids, ..QueryRequest::default() };
        assert_eq!(world.service.query(caller, request).await.unwrap().traces, 1);
        let asked = world.store.answers.lock().unwrap().asked.join("\n");
        assert!(asked.contains("pay") && asked.contains("ship") == narrowed, "{asked}");
        let detail = world.last_audit(&whole).await.detail;
        assert_eq!(detail.get("key_policy"), narrowed.then(|| json!(OF_SHIPS)).as_ref());
    }
}

#[test]
fn tool_names_are_unique() {
    for tool in Tool::ALL {
        assert_eq!(Tool::parse(tool.name()), Some(tool));
        assert!(tool.name().starts_with("svc_"));
    }
    assert_eq!((Tool::parse(""), Tool::parse("svc_none")), (None, None));
}

const PATH: &str = "/api/v1/things/7";
const ROUTE: &str = "/api/v1/things/{id}";

fn call(session_only: Option<SessionOnly>, tool: Option<Tool>) -> RefusedCall<'static> {
    RefusedCall { session_only, tool, method: "PUT", route: Some(ROUTE), path: PATH }
}

/// Returns action, outcome, interface, target and detail of the last record.
async fn recorded(world: &World, admin: &Principal) -> (String, String, String, Option<String>, Value) {
    let record = world.last_audit(admin).await;
    let AuditEntry { action, outcome, via, target, .. } = AuditEntry::clone(&record);
    (action, outcome, via.unwrap(), target, record.detail)
}

/// A caller who tries a forbidden action must not avoid the audit record by disconnecting before the answer.
#[tokio::test]
async fn a_denial_is_recorded_after_a_disconnect() {
    let Keys { world, session, of_tools, .. } = keys().await;
    let before = world.audit(&session).await.len();
    for _ in 0..4 {
        let error = ServiceError::SessionRequired;
        let refusal = world.service.note_refused_call(&of_tools, &error, call(None, None));
        // Polled once: writing a record takes longer than that, on any machine.
        assert!(poll_immediate(Box::pin(refusal)).await.is_none());
    }
    let records = world.news(&session, before, 4).await;
    assert!(records.iter().all(|record| record.detail["code"] == "session_required"), "{records:?}");
}

/// Denied calls write records, and every read of traces writes two.
#[tokio::test]
async fn a_flood_of_denials_delays_a_writer_by_one_record() {
    const FLOOD: usize = 130;
    // Further records of one user do not wait.
    const WAITING: usize = 100;
    let Keys { world, session, of_tools, .. } = keys().await;
    let before = world.audit(&session).await.len();
    let mut writing = world.db.begin_write().await.unwrap();
    let (head, _) = writing.audit_head().await.unwrap();
    let refusals: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (service, caller) = (world.service.clone(), of_tools.clone());
            tokio::spawn(async move {
                service.note_refused_call(&caller, &ServiceError::SessionRequired, call(None, None)).await;
            })
        })
        .collect();
    let turns = async || {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    turns().await;
    assert_eq!(refusals.iter().filter(|refusal| refusal.is_finished()).count(), FLOOD - WAITING);
    let db = world.db.clone();
    let reads = tokio::spawn(async move { db.begin_write().await.unwrap() });
    turns().await;
    drop(writing);
    let mut reads = reads.await.unwrap();
    let written = reads.audit_head().await.unwrap().0 - head;
    assert!(written <= 1, "{written} refusals wrote before");
    drop(reads);
    for refusal in refusals {
        refusal.await.unwrap();
    }
    // Of the others, those are missing for which a slow disk leaves no time.
    let recorded = world.news(&session, before, 30).await.len();
    assert!(recorded <= WAITING, "{recorded}");
}

/// A check of a policy counts as a query, of which each user may run a limited number.
#[tokio::test]
async fn policies_of_keys_are_checked_with_limited_concurrency() {
    let world = world_with(Settings { max_queries_per_user: Some(1), ..Settings::default() }).await;
    let admin = world.admin().await;
    world.bind(&admin).await;
    let make = async |policy: Option<&str>| {
        let policy = policy.map(str::to_owned);
        let new = NewApiKey { name: "ci".to_owned(), expires_at: None, policy, tools: None };
        world.service.create_api_key(&admin, new).await.map(drop)
    };
    let running = world.service.begin_query(&admin, QueryRequest::default()).await.unwrap();
    let before = world.audit(&admin).await.len();
    assert_eq!(code(make(Some(OF_SHIPS)).await), "too_many_queries");
    assert_eq!(code(world.service.own_access(&admin).await.map(drop)), "too_many_queries");
    let refused = world.news(&admin, before, 2).await;
    let refused: Vec<_> =
        refused.iter().map(|record| (record.action.as_str(), record.outcome.as_str())).collect();
    assert_eq!(refused, [("traces.explain", "denied"), ("api_key.create", "denied")]);
    // Without a policy, nothing is checked.
    make(None).await.unwrap();
    drop(running);
    make(Some(OF_SHIPS)).await.unwrap();
    world.service.own_access(&admin).await.unwrap();
}

#[tokio::test]
async fn a_denied_call_is_recorded_with_its_action() {
    use ServiceError::{Forbidden, OutsideTools, PasswordChangeRequired};
    let Keys { world, session, of_tools, .. } = keys().await;
    let by_mcp = RequestInfo { via: Transport::Mcp, ..info() };
    let by_mcp =
        world.service.identify(&world.login("ada", USER_PASSWORD).await.unwrap(), by_mcp).await.unwrap();
    let required = || ServiceError::SessionRequired;
    let logout = Some(SessionOnly::Logout);
    for (caller, via, error, of, action) in [
        (&*of_tools, "api_key", required(), call(logout, None), "logout"),
        (&*of_tools, "api_key", required(), call(Some(SessionOnly::ChangePassword), None), "password.change"),
        (&*of_tools, "api_key", required(), call(Some(SessionOnly::CreateApiKey), None), "api_key.create"),
        (&*of_tools, "api_key", required(), call(Some(SessionOnly::BeginPreview), None), "preview.begin"),
        (&*of_tools, "api_key", required(), call(Some(SessionOnly::EndPreview), None), "preview.end"),
        (&*of_tools, "api_key", required(), call(None, None), "administration"),
        (&*of_tools, "api_key", OutsideTools, call(None, Some(Tool::QueryTraces)), "api_key.use"),
        (&*of_tools, "api_key", OutsideTools, call(logout, None), "api_key.use"),
        (&*session, "session", Forbidden, call(None, None), "administration"),
        (&*session, "session", Forbidden, call(logout, None), "administration"),
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
        (&by_mcp, "mcp", OutsideTools, call(None, None), "api_key.use"),
    ] {
        world.service.note_refused_call(caller, &error, of).await;
        let detail = json!({ "code": error.code(), "method": "PUT", "route": ROUTE });
        let expected =
            (action.to_owned(), "denied".to_owned(), via.to_owned(), Some(PATH.to_owned()), detail);
        assert_eq!(recorded(&world, &session).await, expected, "{error:?} {of:?}");
    }
    // Calls that the caller may make, in a request that cannot be parsed.
    for (caller, via, of, action) in [
        (&*session, "session", call(Some(SessionOnly::CreateApiKey), None), "api_key.create"),
        (&*session, "session", call(None, Some(Tool::GetTrace)), "traces.get"),
        (&*session, "session", call(None, None), "administration"),
        (&by_mcp, "mcp", call(None, None), "tools.call"),
        (&by_mcp, "mcp", call(logout, None), "tools.call"),
    ] {
        world.service.note_unreadable_call(caller, "invalid_request", of).await;
        let detail = json!({ "code": "invalid_request", "method": "PUT", "route": ROUTE });
        let expected =
            (action.to_owned(), "failed".to_owned(), via.to_owned(), Some(PATH.to_owned()), detail);
        assert_eq!(recorded(&world, &session).await, expected, "{of:?}");
    }
}

#[tokio::test]
async fn a_tool_call_is_recorded_with_its_arguments() {
    let Keys { world, session, .. } = keys().await;
    let arguments = json!({ "trace_id": "t\u{202e}1", "more": [1, { "a": null }] });
    let caller = session.calling(ToolCall {
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
        world.service.note_tool_call(&caller, tool).await.unwrap();
        assert_eq!(recorded(&world, &session).await, expected(action, "success", None));
    }
    for (tool, outcome, action) in [
        (Some(Tool::GetTrace), Outcome::Denied, "api_key.use"),
        (Some(Tool::GetTrace), Outcome::Failed, "traces.get"),
        (Some(Tool::FilterSchema), Outcome::Failed, "filter.schema"),
        (None, Outcome::Failed, "tools.call"),
    ] {
        world.service.note_refused_tool_call(&caller, tool, "a_code", outcome).await;
        let outcome = if outcome == Outcome::Denied { "denied" } else { "failed" };
        assert_eq!(recorded(&world, &session).await, expected(action, outcome, Some("a_code")), "{tool:?}");
    }
}
