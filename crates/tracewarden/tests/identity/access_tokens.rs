//! Programs that call with access tokens of the provider: what the tokens open, at which interface, and when they no longer do.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Company, READERS, TestDatabase, browser_of, on_both, postgres_database, start_service};
use crate::mcp::clients::{Revision, Sdk};
use crate::mcp::rpc;
use crate::support::Client;
use crate::support::identity::{ACCEPT_TOKENS, Browser, MetadataDocument, PROGRAM};
use crate::support::store::{BLUE, RED, Store};

on_both!(
    tokens_are_for_one_interface,
    scopes_name_tools,
    claims_decide_the_tokens_own_requests,
    a_logout_ends_tokens,
    opaque_tokens_are_introspected,
    nothing_changes_while_tokens_are_not_accepted,
);

const ALL_TOOLS: &str = "svc_filter_schema svc_field_values svc_trace_stats svc_query_traces svc_get_trace svc_get_spans \
                         svc_critical_path svc_compare_traces svc_explain_access";

/// A company whose group `/payments` has a role, with one person in it.
async fn company_of_paula(database: TestDatabase) -> Company {
    let company = Company::start_with(database, ACCEPT_TOKENS, &[]).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"], "department": "blue"})).await;
    company
}

impl Company {
    /// Returns a client with an access token of a person, for the interface at this path.
    async fn program_of(&self, login: &str, path: &str, scopes: &str) -> Client {
        let resource = format!("{}{path}", self.service.base);
        let token = self.provider.access_token(login, &resource, scopes).await;
        self.service.anonymous().with_key(&token)
    }
}

fn challenge(answer: &crate::support::Answer) -> &str {
    answer.headers["www-authenticate"].to_str().unwrap()
}

async fn tools(client: &Client) -> Vec<String> {
    let listed = rpc::send(client, "tools/list", json!({})).await.expect(200).body;
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn tokens_are_for_one_interface(database: TestDatabase) {
    let company = company_of_paula(database).await;
    let Company { provider, service, .. } = &company;
    let base = &service.base;
    let anonymous = service.anonymous();
    for (path, resource) in [("", format!("{base}/")), ("/mcp", format!("{base}/mcp"))] {
        let metadata =
            anonymous.get(&format!("/.well-known/oauth-protected-resource{path}")).await.expect(200).body;
        assert_eq!(metadata["resource"], resource);
        assert_eq!(metadata["authorization_servers"], json!([provider.issuer]));
        assert_eq!(metadata["scopes_supported"].as_array().unwrap().len(), 9);
        assert!(!metadata.to_string().contains("offline_access"), "{metadata}");
    }
    // Without a token, the answer says where to get one.
    let refused = rpc::send(&anonymous, "tools/list", json!({})).await.problem(401, "unauthenticated");
    let expected = format!(
        "Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\", scope=\"{ALL_TOOLS}\""
    );
    assert_eq!(challenge(&refused), expected);
    let refused = anonymous.get("/me").await.problem(401, "unauthenticated");
    assert!(
        challenge(&refused).contains("/.well-known/oauth-protected-resource\""),
        "{}",
        challenge(&refused)
    );

    let agent = company.program_of("paula", "/mcp", ALL_TOOLS).await;
    let script = company.program_of("paula", "/", ALL_TOOLS).await;
    assert_eq!(tools(&agent).await.len(), 9);
    let me = script.get("/me").await.expect(200).body;
    assert_eq!((&me["username"], &me["auth"]), (&json!("paula"), &json!("access_token")));
    assert_eq!((&me["roles"], &me["attributes"]), (&json!(["payments"]), &json!({"team": "blue"})));
    // The first call created the user, as a first sign-in does.
    let created = &company.records("user.create").await[0];
    assert_eq!((&created["target"], &created["actor"]["username"]), (&json!("paula"), &json!("paula")));
    assert_eq!(
        (&created["actor"]["via"], &created["detail"]["oauth_client"]),
        (&json!("mcp"), &json!(PROGRAM))
    );

    let refused = agent.get("/me").await.problem(401, "unauthenticated");
    assert!(challenge(&refused).starts_with("Bearer error=\"invalid_token\", "), "{}", challenge(&refused));
    rpc::send(&script, "tools/list", json!({})).await.problem(401, "unauthenticated");
    // Neither an ID token, nor anything else that is not an access token.
    for wrong in ["not-a-token", "a.b.c", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.", &"x".repeat(5_000)] {
        service.anonymous().with_key(wrong).get("/me").await.problem(401, "unauthenticated");
    }
    assert!(service.log().contains("an access token was rejected"));
    // What a token says cannot look like a line of the log.
    let header = URL_SAFE_NO_PAD.encode(b"{\"alg\":\"x\\n2026-01-01T00:00:00Z  INFO forged line\"}");
    let payload = URL_SAFE_NO_PAD.encode(format!("{{\"iss\":\"{}\"}}", provider.issuer));
    let forged = service.anonymous().with_key(&format!("{header}.{payload}.x"));
    forged.get("/me").await.problem(401, "unauthenticated");
    assert!(service.log().contains("forged line"));
    assert!(!service.log().lines().any(|line| line.starts_with("2026-01-01T00:00:00Z")));
}

async fn scopes_name_tools(database: TestDatabase) {
    let company = company_of_paula(database).await;
    let one = company.program_of("paula", "/mcp", "svc_filter_schema svc_explain_access").await;
    assert_eq!(tools(&one).await, ["svc_filter_schema", "svc_explain_access"]);
    let refused =
        rpc::send(&one, "tools/call", json!({"name": "svc_get_trace", "arguments": {"trace_id": BLUE}}));
    let refused = refused.await.problem(403, "insufficient_scope");
    let expected = "scope=\"svc_filter_schema svc_get_trace svc_explain_access\"";
    assert!(challenge(&refused).contains("error=\"insufficient_scope\""), "{}", challenge(&refused));
    assert!(challenge(&refused).ends_with(expected), "{}", challenge(&refused));
    let record = &company.records("api_key.use").await[0];
    assert_eq!((&record["outcome"], &record["detail"]["oauth_client"]), (&json!("denied"), &json!(PROGRAM)));
    // Without any tool, nothing at all, and no user.
    company.provider.put_user("nils", json!({"groups": ["/payments"]})).await;
    for login in ["paula", "nils"] {
        let none = company.program_of(login, "/mcp", "openid").await;
        rpc::send(&none, "tools/list", json!({})).await.problem(403, "insufficient_scope");
        let none = company.program_of(login, "/", "openid").await;
        none.get("/me").await.problem(403, "insufficient_scope");
    }
    company.admin.get("/users/nils").await.problem(404, "not_found");

    // The API takes tokens where it takes scoped keys.
    let script = company.program_of("paula", "/", "svc_get_trace").await;
    script.get("/filter/schema").await.problem(403, "insufficient_scope");
    for path in ["/users", "/roles", "/audit", "/me/api-keys", "/me/sessions"] {
        let refused = script.get(path).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.body);
    }
    script.post("/me/api-keys", json!({"name": "k"})).await.problem(403, "forbidden");
}

async fn claims_decide_the_tokens_own_requests(database: TestDatabase) {
    let company = company_of_paula(database).await;
    let Company { provider, admin, .. } = &company;
    let (_, session) = browser_of(&company, "paula").await;
    let first = company.program_of("paula", "/", ALL_TOOLS).await;
    provider.put_user("paula", json!({"groups": ["/oncall"]})).await;
    let second = company.program_of("paula", "/", ALL_TOOLS).await;
    let access = async |client: &Client| {
        let me = client.get("/me").await.expect(200).body;
        (me["roles"].clone(), me["attributes"].clone())
    };
    let before = (json!(["payments"]), json!({"team": "blue"}));
    assert_eq!(access(&first).await, before);
    assert_eq!(access(&second).await, (json!(["oncall"]), json!({})));
    assert_eq!(access(&session).await, before, "the stored user is not changed");

    // What administrators assign counts in addition, and a changed mapping with the next request.
    admin.patch("/users/paula", json!({"roles": ["payments", "admin"]})).await.expect(200);
    assert_eq!(access(&second).await.0, json!(["admin", "oncall"]));
    second.get("/users").await.problem(403, "forbidden");
    company
        .put_mapping(json!({"roles": [{"role": "payments", "when": "\"/oncall\" in claims.groups"}]}))
        .await;
    assert_eq!(access(&second).await.0, json!(["admin", "payments"]));
    assert_eq!(access(&first).await.0, json!(["admin"]));
    admin.patch("/users/paula", json!({"disabled": true})).await.expect(200);
    second.get("/me").await.problem(401, "unauthenticated");

    admin.patch("/users/paula", json!({"disabled": false})).await.expect(200);
    second.get("/me").await.expect(200);
    // A deleted user does not come back by a token that was issued before.
    admin.delete("/users/paula").await.expect(204);
    second.get("/me").await.problem(401, "unauthenticated");
    admin.get("/users/paula").await.problem(404, "not_found");

    // A person without a role gets no user.
    provider.put_user("otto", json!({"groups": []})).await;
    let otto = company.program_of("otto", "/", ALL_TOOLS).await;
    otto.get("/me").await.problem(403, "sign_in_refused");
    admin.get("/users/otto").await.problem(404, "not_found");
}

async fn a_logout_ends_tokens(database: TestDatabase) {
    let company = company_of_paula(database).await;
    let Company { provider, .. } = &company;
    provider.put_user("oscar", json!({"groups": ["/payments"]})).await;
    let agent = company.program_of("paula", "/mcp", ALL_TOOLS).await;
    let other = company.program_of("oscar", "/mcp", ALL_TOOLS).await;
    for client in [&agent, &other] {
        assert_eq!(tools(client).await.len(), 9);
    }
    assert!(provider.log_out("paula", None).await);
    rpc::send(&agent, "tools/list", json!({})).await.problem(401, "unauthenticated");
    assert_eq!(tools(&other).await.len(), 9);
    // Its time of issue has seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let token = provider.access_token("paula", &format!("{}/mcp", company.service.base), ALL_TOOLS).await;
    let again = company.service.anonymous().with_key(&token);
    assert_eq!(tools(&again).await.len(), 9);

    // A logout of one session ends tokens that name no session: they can belong to it.
    let claims = jsonwebtoken::dangerous::insecure_decode::<Value>(&token).unwrap().claims;
    assert_eq!(claims["sid"], Value::Null);
    assert!(provider.log_out("paula", Some("a session at the provider")).await);
    rpc::send(&again, "tools/list", json!({})).await.problem(401, "unauthenticated");
    assert_eq!(tools(&other).await.len(), 9);
}

async fn opaque_tokens_are_introspected(database: TestDatabase) {
    let introspection = format!("{ACCEPT_TOKENS}introspection = true\n");
    let mut company = Company::start_with(database, &introspection, &[]).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"], "department": "blue"})).await;
    company.provider.issue_opaque_tokens();
    let agent = company.program_of("paula", "/mcp", "svc_get_trace svc_get_spans").await;
    let script = company.program_of("paula", "/", ALL_TOOLS).await;
    assert_eq!(tools(&agent).await, ["svc_get_trace", "svc_get_spans"]);
    let me = script.get("/me").await.expect(200).body;
    assert_eq!((&me["username"], &me["roles"]), (&json!("paula"), &json!(["payments"])));
    assert_eq!(me["attributes"], json!({"team": "blue"}));
    agent.get("/me").await.problem(401, "unauthenticated");
    rpc::send(&script, "tools/list", json!({})).await.problem(401, "unauthenticated");
    for wrong in ["not-a-token", &"x".repeat(7_000)] {
        let stranger = company.service.anonymous().with_key(wrong);
        stranger.get("/me").await.problem(401, "unauthenticated");
    }
    // The answers are not kept: without the provider, such a token opens nothing. A damaged key is not sent to it.
    company.provider.kill();
    for damaged in ["twk_x", "\"twk_0123456789\""] {
        let stranger = company.service.anonymous().with_key(damaged);
        stranger.get("/me").await.problem(401, "unauthenticated");
    }
    script.get("/me").await.problem(502, "identity_provider");
}

async fn nothing_changes_while_tokens_are_not_accepted(database: TestDatabase) {
    let company = Company::start(database).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let anonymous = company.service.anonymous();
    for path in ["", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        anonymous.get(&path).await.problem(404, "not_found");
    }
    let refused = rpc::send(&anonymous, "tools/list", json!({})).await.problem(401, "unauthenticated");
    assert_eq!(challenge(&refused), "Bearer");
    let agent = company.program_of("paula", "/mcp", ALL_TOOLS).await;
    let refused = rpc::send(&agent, "tools/list", json!({})).await.problem(401, "unauthenticated");
    assert_eq!(challenge(&refused), "Bearer");
}

/// On two replicas.
#[tokio::test]
async fn a_logout_ends_tokens_on_all_replicas() {
    let database = postgres_database();
    let company = company_of_paula(Some(database.clone())).await;
    let Company { provider, service, .. } = &company;
    let replica =
        start_service(provider, Some(&database), ACCEPT_TOKENS, &[("TRACEWARDEN_PUBLIC_URL", &service.base)]);
    let token = provider.access_token("paula", &format!("{}/mcp", service.base), ALL_TOOLS).await;
    let [agent, there] = [service, &replica].map(|service| service.anonymous().with_key(&token));
    for client in [&agent, &there] {
        assert_eq!(tools(client).await.len(), 9);
    }
    assert!(provider.log_out("paula", None).await);
    for client in [&agent, &there] {
        rpc::send(client, "tools/list", json!({})).await.problem(401, "unauthenticated");
    }
}

/// On the traces of a real engine.
#[tokio::test]
async fn a_program_reads_the_traces_of_the_mapped_role() {
    let store = Store::start();
    let company = Company::with_traces(&store, ACCEPT_TOKENS).await;
    for (login, readable) in READERS {
        let script = company.program_of(login, "/", ALL_TOOLS).await;
        let agent = company.program_of(login, "/mcp", ALL_TOOLS).await;
        for trace in [BLUE, RED] {
            let is_readable = readable.contains(&trace);
            script.get(&format!("/traces/{trace}")).await.expect(if is_readable { 200 } else { 404 });
            let found = rpc::call(&agent, "svc_get_trace", json!({"trace_id": trace})).await;
            assert_eq!(found.failed, !is_readable, "{login} {trace}: {}", found.text);
        }
        let all = script.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
        assert_eq!(all["trace_ids"].as_array().unwrap().len(), readable.len());
    }
    // The audit names the person, the client and the tool.
    let records = company.records("traces.get").await;
    let by_agent: Vec<&Value> = records.iter().filter(|record| record["actor"]["via"] == "mcp").collect();
    let of_bo = |record: &&&Value| record["actor"]["username"] == "bo" && record["target"] == BLUE;
    let record = by_agent.iter().find(of_bo).unwrap_or_else(|| panic!("{by_agent:?}"));
    assert_eq!(record["detail"]["oauth_client"], PROGRAM);
    assert_eq!(record["detail"]["mcp"]["tool"], "svc_get_trace");
}

/// The official SDKs, given nothing but the address.
#[tokio::test(flavor = "multi_thread")]
async fn agents_sign_in_their_person_by_the_browser() {
    let store = Store::start();
    let company = Company::with_traces(&store, ACCEPT_TOKENS).await;
    let Company { provider, service, .. } = &company;
    let document = MetadataDocument::serve(provider);
    let url = format!("{}/mcp", service.base);
    let calls = json!([
        {"name": "svc_get_trace", "arguments": {"trace_id": BLUE}},
        {"name": "svc_get_trace", "arguments": {"trace_id": RED}},
    ]);
    for sdk in Sdk::ALL {
        for metadata_url in [None, Some(document.url.as_str())] {
            let browse = async |address: String| {
                let url = reqwest::Url::parse(&address).unwrap();
                let to = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
                let mut browser = Browser::default();
                let callback = browser.follow(&address, &to, "bea").await;
                assert_eq!(browser.open(&callback).await.text, "signed in");
            };
            let answer = sdk.sign_in_and_ask(Revision::Newest, &url, metadata_url, &calls, browse).await;
            let answer = answer.unwrap_or_else(|error| panic!("{sdk:?} {metadata_url:?}: {error}"));
            assert_eq!(answer["results"][0]["isError"], false, "{sdk:?} {metadata_url:?}: {answer}");
            assert_eq!(answer["results"][1]["isError"], true, "{sdk:?} {metadata_url:?}: {answer}");
            let record = &company.records("traces.get").await[0];
            assert_eq!(record["actor"]["username"], "bea");
            let client = record["detail"]["oauth_client"].as_str().unwrap();
            assert_eq!(Some(client) == metadata_url, metadata_url.is_some(), "{client}");
            assert_eq!(record["detail"]["mcp"]["tool"], "svc_get_trace");
            assert_eq!(record["detail"]["mcp"]["client"], format!("{} 1.0", sdk.client_name()));
        }
    }
}
