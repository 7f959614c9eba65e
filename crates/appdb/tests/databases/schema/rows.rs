//! Rows that programs of each version left behind, and the values that this program reads from them.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use tracewarden_appdb::{
    ApiKey, AppDb, PasswordHash, Policy, Preview, Role, Session, Throttle, TokenDigest, User,
};
use tracewarden_model::AttributeValue;

use crate::fixture::{at, set};

/// Numbers of the migrations that introduced the data read here.
const ROLE_REVISION_MIGRATION: usize = 2;
const SCOPED_KEYS_MIGRATION: usize = 3;
const IDENTITY_MIGRATION: usize = 8;

/// Rows of the first migration: several in each table, with and without optional values. A single plain row would not
/// show that a migration keeps only the newest row or loses empty values.
pub const INITIAL: &[&str] = &[
    "INSERT INTO roles (name, revision, created_at, updated_at) VALUES ('reader', 7, 1, 2)",
    "INSERT INTO role_policies (role, position, title, expression, description) \
     VALUES ('reader', 0, 't', 'true', 'd'), ('reader', 1, 'Zoë''s', 'SpanAttributes[\"a\"] ==\n  \"b\\\\c\"', NULL)",
    "INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
     VALUES (3, '{\"binding\": null, \"fields\": []}', 2, 'u0', 'Zoë')",
    // With spaces, and without the members of later versions.
    "INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
     VALUES (4, '{\"fields\": [{\"map\": \"Labels\", \"name\": \"team\", \"logical\": \"string\", \
     \"column_type\": \"String\", \"filterable\": true, \"policy\": true}], \"binding\": {\"database\": \"otel\", \
     \"table\": \"spans\", \"trace_id\": \"TraceId\", \"span_id\": \"SpanId\", \"timestamp\": \"Timestamp\", \
     \"parent_span_id\": \"ParentSpanId\", \"trace_index\": null, \"display\": {\"name\": null, \
     \"service\": \"ServiceName\", \"duration\": null, \"status\": null, \"kind\": null}}}', 2, 'u1', 'Ada')",
    "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, created_at, \
     last_login_at, attributes) VALUES \
     ('u1', 'Ada', 'ada', '$argon2id$x', 0, 0, 3, 8, '{\"team\": \"a''\", \"lead\": true, \"tenants\": [\"x\", \"ü\"]}'), \
     ('u2', 'Grace', 'grace', '$argon2id$y', 0, 0, 3, NULL, '{}'), \
     ('u3', 'Bob', 'bob', '$argon2id$z', 1, 1, 3, NULL, '{}')",
    "INSERT INTO user_roles (user_id, role) VALUES ('u1', 'reader'), ('u2', 'admin'), ('u2', 'reader')",
    "INSERT INTO sessions (id, token_sha256, user_id, created_at, last_seen_at, client_ip, user_agent, preview) VALUES \
     ('s1', 'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1', 'u1', 4, 5, NULL, NULL, NULL), \
     ('s2', 'a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', 'u2', 14, 15, '2001:db8::1', 'it''s', \
     '{\"roles\":[\"reader\"],\"attributes\":{\"team\":\"ü\"},\"username\":null,\"user_id\":null}'), \
     ('s3', 'a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3', 'u2', 13, 15, '', '', \
     '{\"roles\":[],\"attributes\":{},\"username\":\"Ada\",\"user_id\":\"u1\"}'), \
     ('s4', 'a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4', 'u2', 12, 15, NULL, NULL, \
     '{\"roles\":[\"reader\"],\"attributes\":{\"team\":\"a\"},\"username\":\"Ada\"}')",
    "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at, expires_at, last_used_at) VALUES \
     ('k1', 'b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1', 'twk_1', 'n', 'u1', 6, NULL, NULL), \
     ('k2', 'b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2', 'twk_2', 'n', 'u1', 16, \
     9214646400000000, 17)",
    "INSERT INTO secrets (name, value) VALUES ('cursor', '0102'), ('other', '')",
    "INSERT INTO used_password_hashes (sha256, used_at) VALUES ('cc', 18)",
    "INSERT INTO login_throttles (bucket, failures, window_start, blocked_until) VALUES ('address:192.0.2.1', 3, 19, 20)",
];

/// Roles with revisions 8 and 9 existed and have been deleted.
pub const ROLE_REVISION: &[&str] = &["UPDATE role_revision SET last = 9 WHERE id = 1"];

pub const SCOPED_KEYS: &[&str] = &[
    "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at, policy, tools) VALUES \
     ('k3', 'b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3', 'twk_3', 'n', 'u1', 26, \
     'ServiceName == \"shop''s\"', '[\"svc_get_trace\"]'), \
     ('k4', 'b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4', 'twk_4', 'n', 'u1', 25, NULL, '[]')",
];

/// The document of tests after the last change.
pub const TESTS: &str = "{\"tests\": []}";

/// A role was created, and deleted together with the addition of tests. The first change is that of the migration
/// itself.
pub const HISTORY: &[&str] = &[
    "INSERT INTO changes (number, at, by_id, by_name, action, target, model_version) VALUES \
     (2, 30, 'u2', 'Grace', 'role.put', 'gone', 4), (3, 31, 'u2', 'Grace', 'model.import', NULL, 4)",
    "INSERT INTO role_changes (role, change, deleted) VALUES ('gone', 2, 0), ('gone', 3, 1)",
    "INSERT INTO role_change_policies (role, change, position, title, expression, description) \
     VALUES ('gone', 2, 0, 'g', 'false', 'gone')",
    "INSERT INTO test_changes (change, document) VALUES (3, '{\"tests\": []}')",
];

/// Bob is known to an identity provider, and signed in there.
pub const IDENTITY: &[&str] = &[
    "INSERT INTO identities (issuer, subject, provider, user_id, claims, confirmed_at, attributes) VALUES \
     ('https://id.example.com', 's''1', 'company', 'u3', '{\"sub\":\"s''1\"}', 40, '{\"team\":\"ü\",\"none\":null}')",
    "INSERT INTO mapped_user_roles (user_id, role) VALUES ('u3', 'reader')",
    "INSERT INTO mapping_changes (change, document) VALUES \
     (1, '{\"company\":{\"roles\":[{\"role\":\"reader\",\"when\":\"claims.a\"}],\"attributes\":{\"team\":\"claims.b\"}}}')",
    "INSERT INTO consumed_tokens (sha256, expires_at) VALUES ('cc', 41)",
    "INSERT INTO provider_logouts (sha256, ended_at, tokens_until) VALUES ('dd', 42, 45)",
    "INSERT INTO break_glass_links (sha256, user_id, expires_at) VALUES ('ee', 'u1', 43)",
    "INSERT INTO sessions (id, token_sha256, user_id, created_at, last_seen_at, provider, provider_session) VALUES \
     ('s5', 'a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5', 'u3', 4, 5, 'company', 'x''y')",
    "INSERT INTO refresh_tokens (session_id, token, due_at) VALUES ('s5', 'encrypted', 44)",
    "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, created_at, last_login_at, \
     attributes, kind, owner_id, owner_role) VALUES ('u4', 'robot', 'robot', '$argon2id$r', 0, 0, 3, NULL, '{}', 'service', 'u1', 'reader')",
    "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at, last_client_ip, last_user_agent) VALUES \
     ('k5', 'b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5', 'twk_5', 'n', 'u4', 46, '192.0.2.7', 'it''s')",
];

/// Returns the last revision that any role has had.
pub fn last_revision(steps: usize) -> u64 {
    if steps >= ROLE_REVISION_MIGRATION { 9 } else { 7 }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::String(text.to_owned())
}

fn ada() -> User {
    let tenants = AttributeValue::Strings(vec!["x".to_owned(), "ü".to_owned()]);
    User {
        id: "u1".to_owned(),
        username: "Ada".to_owned(),
        password_hash: PasswordHash("$argon2id$x".to_owned()),
        must_change_password: false,
        disabled: false,
        created_at: at(3),
        last_login_at: Some(at(8)),
        attributes: BTreeMap::from([
            ("team".to_owned(), text("a'")),
            ("lead".to_owned(), AttributeValue::Bool(true)),
            ("tenants".to_owned(), tenants),
        ]),
        roles: set(&["reader"]),
        identity: None,
        service: None,
    }
}

fn reader() -> Role {
    let first =
        Policy { title: "t".to_owned(), expression: "true".to_owned(), description: Some("d".to_owned()) };
    let second = Policy {
        title: "Zoë's".to_owned(),
        expression: "SpanAttributes[\"a\"] ==\n  \"b\\\\c\"".to_owned(),
        description: None,
    };
    Role {
        name: "reader".to_owned(),
        policies: vec![first, second],
        revision: 7,
        created_at: at(1),
        updated_at: at(2),
    }
}

fn session(id: &str, user_id: &str, created_at: i64, last_seen_at: i64) -> Session {
    Session {
        id: id.to_owned(),
        user_id: user_id.to_owned(),
        created_at: at(created_at),
        last_seen_at: at(last_seen_at),
        client_ip: None,
        user_agent: None,
        preview: None,
        provider: None,
        provider_session: None,
    }
}

/// Returns the sessions of the administrator, newest first.
fn preview_sessions() -> [Session; 3] {
    let role_preview = Preview {
        roles: set(&["reader"]),
        attributes: BTreeMap::from([("team".to_owned(), text("ü"))]),
        ..Preview::default()
    };
    let user_preview =
        Preview { username: Some("Ada".to_owned()), user_id: Some("u1".to_owned()), ..Preview::default() };
    // A copy of a user's access, from before previews had the user's id, grants no access.
    let name_preview = Preview { user_id: None, ..user_preview.clone() };
    [
        Session {
            client_ip: Some("2001:db8::1".to_owned()),
            user_agent: Some("it's".to_owned()),
            preview: Some(role_preview),
            ..session("s2", "u2", 14, 15)
        },
        Session {
            client_ip: Some(String::new()),
            user_agent: Some(String::new()),
            preview: Some(user_preview),
            ..session("s3", "u2", 13, 15)
        },
        Session { preview: Some(name_preview), ..session("s4", "u2", 12, 15) },
    ]
}

fn key(number: u8, created_at: i64) -> ApiKey {
    ApiKey {
        id: format!("k{number}"),
        hint: format!("twk_{number}"),
        name: "n".to_owned(),
        user_id: "u1".to_owned(),
        created_at: at(created_at),
        expires_at: None,
        last_used_at: None,
        last_client_ip: None,
        last_user_agent: None,
        policy: None,
        tools: None,
    }
}

/// Returns the keys, newest first. A key from before scoped API keys is not scoped.
fn keys(steps: usize) -> Vec<ApiKey> {
    let mut keys = Vec::new();
    if steps >= SCOPED_KEYS_MIGRATION {
        let tools = Some(vec!["svc_get_trace".to_owned()]);
        keys.push(ApiKey { policy: Some("ServiceName == \"shop's\"".to_owned()), tools, ..key(3, 26) });
        keys.push(ApiKey { tools: Some(Vec::new()), ..key(4, 25) });
    }
    let (expires_at, last_used_at) = (Some(at(9_214_646_400_000_000)), Some(at(17)));
    keys.push(ApiKey { expires_at, last_used_at, ..key(2, 16) });
    keys.push(key(1, 6));
    keys
}

/// Checks that everything is read as written.
pub async fn require_read(db: &AppDb, steps: usize) {
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.user_by_name("ADA").await.unwrap(), Some(ada()));
    let users = tx.users(None, "", 9).await.unwrap();
    let users: Vec<_> = users
        .iter()
        .map(|user| (user.username.as_str(), user.must_change_password, user.disabled, user.roles.len()))
        .collect();
    let has_identity = steps >= IDENTITY_MIGRATION;
    let mapped_roles = usize::from(has_identity);
    let mut expected =
        vec![("Ada", false, false, 1), ("Bob", true, true, mapped_roles), ("Grace", false, false, 2)];
    expected.extend(has_identity.then_some(("robot", false, false, 0)));
    assert_eq!(users, expected);
    let bob = tx.identities().user("https://id.example.com", "s'1").await.unwrap();
    assert_eq!(bob.is_some(), has_identity);
    if let Some(bob) = bob {
        let identity = bob.identity.as_ref().unwrap();
        assert_eq!((identity.provider.as_str(), identity.confirmed_at), ("company", at(40)));
        assert_eq!((&bob.roles, &identity.mapped_attributes), (&set(&["reader"]), &set(&["none", "team"])));
        assert_eq!(bob.attributes, BTreeMap::from([("team".to_owned(), text("ü"))]));
        let (provider, provider_session) = (Some("company".to_owned()), Some("x'y".to_owned()));
        let expected = Session { provider, provider_session, ..session("s5", "u3", 4, 5) };
        assert_eq!(tx.sessions_of_user("u3").await.unwrap(), [expected]);
        assert_eq!(tx.identities().mappings(None).await.unwrap()["company"].attributes["team"], "claims.b");
        let robot = tx.user_by_id("u4").await.unwrap().unwrap().service.unwrap();
        assert_eq!((robot.owner.as_deref(), robot.owner_role.as_deref()), (Some("Ada"), Some("reader")));
        assert_eq!((robot.owner_is_assigned, robot.owner_confirmed_at), (true, None));
        let (last_client_ip, last_user_agent) = (Some("192.0.2.7".to_owned()), Some("it's".to_owned()));
        let expected = ApiKey { user_id: "u4".to_owned(), last_client_ip, last_user_agent, ..key(5, 46) };
        assert_eq!(tx.api_keys_by_hint("twk_5", 9).await.unwrap(), [(expected, "robot".to_owned())]);
    }
    assert_eq!(tx.role("reader").await.unwrap(), Some(reader()));
    assert_eq!(tx.sessions_of_user("u1").await.unwrap(), [session("s1", "u1", 4, 5)]);
    assert_eq!(tx.sessions_of_user("u2").await.unwrap(), preview_sessions());
    assert_eq!(tx.api_keys_of_user("u1").await.unwrap(), keys(steps));
    assert_eq!(tx.secret("cursor").await.unwrap(), Some(vec![1, 2]));
    let throttle = Throttle { failures: 3, window_start: at(19), blocked_until: at(20) };
    assert_eq!(tx.throttle("address:192.0.2.1").await.unwrap(), Some(throttle));
    let model = tx.access_model().await.unwrap();
    assert_eq!((model.version, model.fields[0].field.name.as_str()), (4, "team"));
    assert_eq!(model.binding.unwrap().display.service.as_deref(), Some("ServiceName"));
    let earlier = tx.access_models(3, 3).try_next().await.unwrap();
    assert!(earlier.unwrap().binding.is_none());
    drop(tx);
    let mut tx = db.begin_write().await.unwrap();
    assert!(tx.password_hash_used("cc").await.unwrap());
    drop(tx);
    // Looked up with their owners' tokens.
    let (found, user) = db.session_by_token(TokenDigest([0xa1; 32])).await.unwrap().unwrap();
    assert_eq!((found, user), (session("s1", "u1", 4, 5), ada()));
    for key in keys(steps) {
        let number: u8 = key.id[1..].parse().unwrap();
        let found = db.api_key_by_token(TokenDigest([0xb0 + number; 32])).await.unwrap();
        assert_eq!(found, Some((key, ada())));
    }
}
