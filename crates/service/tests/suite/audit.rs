//! The audit log: every change writes one record, pages contain each record once, and filters are exact.

use crate::support::*;
use secrecy::ExposeSecret as _;
use tracewarden_service::*;

#[tokio::test]
async fn every_change_leaves_one_record() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    let role = || vec![policy("ServiceName == \"pay\"")];
    service.roles().put_role(&administrator, "pay", role(), None).await.unwrap();
    fixture.user(&admin, "ada", &["pay"]).await;
    let change = UserChange { attributes: Some(team("x")), ..UserChange::default() };
    service.users().update_user(&administrator, "ada", change, None).await.unwrap();
    fixture.api_key(&admin).await;
    let key = service.account().my_api_keys(&admin).await.unwrap()[0].id.clone();
    service.account().revoke_my_api_key(&admin, &key).await.unwrap();
    let request = PreviewRequest::User("ada".to_owned());
    service.account().set_preview(&administrator, request).await.unwrap();
    service.users().end_user_sessions(&administrator, "ada", None).await.unwrap();
    service.users().revoke_user_api_keys(&administrator, "ada", None).await.unwrap();
    service.users().rotate_password(&administrator, "ada").await.unwrap();
    service.source().table(&administrator, "otel", "otel_traces").await.unwrap();
    service.users().delete_user(&administrator, "ada", None).await.unwrap();
    service.roles().delete_role(&administrator, "pay", None).await.unwrap();
    service.account().sign_out(&admin).await.unwrap();

    let records = fixture.audit(&admin).await;
    let actions: Vec<&str> = records.iter().rev().map(|entry| entry.action.as_str()).collect();
    let expected = [
        "admin.create",
        "login",
        "password.change",
        "schema.put_binding",
        "schema.put_fields",
        "role.put",
        "user.create",
        "login",
        "password.change",
        "user.update",
        "api_key.create",
        "api_key.revoke",
        "preview.begin",
        "user.end_sessions",
        "user.revoke_api_keys",
        "user.rotate_password",
        "schema.discover",
        "user.delete",
        "role.delete",
        "logout",
    ];
    assert_eq!(actions, expected);
    assert!(records.iter().all(|entry| entry.outcome == "success"));
    let text = format!("{records:?}");
    for secret in [ADMIN_PASSWORD, USER_PASSWORD, "argon2", "twk_"] {
        assert!(!text.contains(secret), "{secret}");
    }
    let by_admin = &records[0];
    assert_eq!(
        (by_admin.actor.username.as_deref(), by_admin.actor.via.as_deref()),
        (Some("admin"), Some("session"))
    );
    assert_eq!((by_admin.request_id.as_str(), by_admin.client_ip.as_deref()), ("req-1", Some("192.0.2.1")));
    assert_eq!(by_admin.actor.credential_id.as_deref(), Some(admin.credential_id()));
}

#[tokio::test]
async fn pages_and_filters() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    fixture.user(&admin, "ada", &[]).await;
    for _ in 0..3 {
        fixture.clock.advance(10);
        let _ = fixture.sign_in("ada", "wrong").await;
    }
    let all = fixture.audit(&admin).await;
    let audit_log = fixture.service.audit_log();
    let page = |query| audit_log.page(&administrator, query);
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let found = page(AuditQuery { cursor, limit: Some(2), ..AuditQuery::default() }).await.unwrap();
        seen.extend(found.records.into_iter().map(|entry| entry.id));
        cursor = found.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, all.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>());
    let whole = page(AuditQuery { limit: Some(all.len() as i64), ..AuditQuery::default() }).await.unwrap();
    assert_eq!((whole.records.len(), whole.next_cursor), (all.len(), None), "a full page may be the last");

    let count = |query| async { page(query).await.unwrap().records.len() };
    let text = |text: &str| Some(text.to_owned());
    let every = AuditQuery::default;
    assert_eq!(count(AuditQuery { outcome: Some(Outcome::Denied), ..every() }).await, 3);
    assert_eq!(count(AuditQuery { actor: text("ada"), action: text("login"), ..every() }).await, 4);
    let by_ada = count(AuditQuery { actor: text("ada"), ..every() }).await;
    assert_eq!(by_ada, 5, "four sign-ins, and the change of the password");
    let id = fixture.service.users().user(&administrator, "ada").await.unwrap().id;
    for actor in ["Ada", "ADA", &id] {
        assert_eq!(count(AuditQuery { actor: text(actor), ..every() }).await, by_ada, "{actor}");
    }
    assert_eq!(count(AuditQuery { actor: text("ad"), ..every() }).await, 0);
    assert_eq!(count(AuditQuery { from: Some(all[1].at), ..every() }).await, 2);
    assert_eq!(count(AuditQuery { to: Some(all[1].at), ..every() }).await, all.len() - 2);
    for foreign in ["x", "", "-1", "9223372036854775808", "18446744073709551616"] {
        assert_eq!(
            code(page(AuditQuery { cursor: text(foreign), ..every() }).await),
            "invalid_cursor",
            "{foreign}"
        );
    }
    assert_eq!(code(page(AuditQuery { limit: Some(0), ..every() }).await), "invalid_request");

    assert_eq!(count(AuditQuery { target: text("ada"), ..every() }).await, 1, "created");
    assert_eq!(count(AuditQuery { target: text("ada"), action: text("login"), ..every() }).await, 0);
    assert_eq!(count(AuditQuery { key: text(admin.credential_id()), ..every() }).await, 2);
    for unknown in ["", "ad", "ses_none", "\0", &"x".repeat(300)] {
        assert_eq!(count(AuditQuery { target: text(unknown), ..every() }).await, 0, "{unknown}");
        assert_eq!(count(AuditQuery { key: text(unknown), ..every() }).await, 0, "{unknown}");
    }

    // The deleted user, and the user who has the name now.
    fixture.service.users().delete_user(&administrator, "ada", None).await.unwrap();
    assert_eq!(count(AuditQuery { actor: text("ada"), ..every() }).await, by_ada);
    fixture.user(&admin, "Ada", &[]).await;
    for (actor, found) in [("ada", by_ada + 2), ("Ada", 2), ("ADA", 2), (&id, by_ada)] {
        assert_eq!(count(AuditQuery { actor: text(actor), ..every() }).await, found, "{actor}");
    }
}

#[tokio::test]
async fn a_change_whose_record_fails_is_not_made() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let ada = fixture.user(&admin, "ada", &[]).await;
    fixture.bind(&admin).await;
    let files = fixture.service.model_files();
    let ExportedModel { version, state } = files.export_model(&administrator).await.unwrap();
    use sqlx::{Connection as _, Executor as _};
    let mut connection = sqlx::AnyConnection::connect(&fixture.url).await.unwrap();
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    connection.execute(refuse).await.unwrap();

    let change = UserChange { roles: Some(set(&["admin"])), ..UserChange::default() };
    assert_eq!(
        code(fixture.service.users().update_user(&administrator, "ada", change, None).await),
        "unavailable"
    );
    assert_eq!(code(fixture.service.users().delete_user(&administrator, "ada", None).await), "unavailable");
    assert_eq!(code(fixture.service.roles().delete_role(&administrator, "ghost", None).await), "not_found");
    let new = NewUser { username: "eve".to_owned(), ..NewUser::default() };
    assert_eq!(code(fixture.service.users().create_user(&administrator, new).await), "unavailable");
    assert_eq!(code(fixture.sign_in("ada", USER_PASSWORD).await), "unavailable");
    let new = NewApiKey { name: "k".to_owned(), expires_at: None, policy: None, tools: None };
    assert_eq!(code(fixture.service.account().create_api_key(&ada, new).await), "unavailable");
    let mut file = ModelFile::from(state.clone());
    assert!(file.fields.pop().is_some());
    file.roles.push(("new".to_owned(), vec![policy("true")]));
    let if_match = Some(IfMatch::Versions(vec![version]));
    let imported = files.import_model(&administrator, file, if_match, |_, _| Ok(TestRun::default())).await;
    assert_eq!(code(imported), "unavailable");

    connection.execute("DROP TRIGGER full").await.unwrap();
    connection.close().await.unwrap();
    assert!(fixture.service.users().user(&administrator, "ada").await.unwrap().roles.is_empty());
    assert_eq!(code(fixture.service.users().user(&administrator, "eve").await), "not_found");
    assert!(fixture.service.account().my_api_keys(&ada).await.unwrap().is_empty());
    assert_eq!(fixture.service.account().my_sessions(&ada).await.unwrap().len(), 1);
    let stored = files.export_model(&administrator).await.unwrap();
    assert_eq!((stored.version, stored.state), (version, state), "neither fields nor roles");
}

#[tokio::test]
async fn previewed_reads_are_recorded_as_such() {
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
    fixture.store.set(|answers| answers.selected = vec![("t1".to_owned(), 1, 1)]);
    let session = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    let caller = fixture.principal(&session).await;
    let ids = || QueryRequest { view: View::Ids, ..QueryRequest::default() };
    let own = fixture.service.traces().query(&caller, ids()).await.unwrap();
    assert_eq!(own.traces, 0, "the role `admin` grants access to no trace");
    let request = PreviewRequest::RolesAndAttributes { roles: set(&["pay"]), attributes: Some(team("blue")) };
    fixture.service.account().set_preview(&caller.require_admin().unwrap(), request).await.unwrap();
    let caller = fixture.principal(&session).await;
    assert_eq!(fixture.service.traces().query(&caller, ids()).await.unwrap().traces, 1);
    let record = fixture.last_audit(&admin).await;
    assert_eq!(record.detail["preview"]["roles"][0], "pay");
    assert_eq!(record.detail["preview"]["attributes"]["team"], "blue", "like roles, they decide access");
    assert_eq!(record.actor.username.as_deref(), Some("admin"));
    fixture.service.account().clear_preview(&caller.require_admin().unwrap()).await.unwrap();
    let caller = fixture.principal(&session).await;
    assert_eq!(fixture.service.traces().query(&caller, ids()).await.unwrap().traces, 0);
    let Credential::Session(token) = &session else { panic!() };
    assert!(!format!("{session:?}").contains(token.expose_secret()));
}

/// The actions in the code equal those in the documentation.
#[test]
fn every_action_is_documented() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_action = |word: &str| {
        let (area, what) = word.split_once('.').unwrap_or(("", ""));
        let plain = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        plain(area) && plain(what)
    };
    // Actions without an area, and the action of the application database.
    let mut written: Vec<String> =
        ["login", "logout", "administration", tracewarden_appdb::AUDIT_PRUNE].map(str::to_owned).to_vec();
    let mut files = vec![root.join("src")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let words = text.split('"').filter(|word| is_action(word) && !word.ends_with(".rs"));
        written.extend(words.map(str::to_owned));
    }
    let documentation = std::fs::read_to_string(root.join("../../docs/api.md")).unwrap();
    let (_, list) = documentation.split_once("| action | what |").unwrap();
    let rows = list.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    let mut documented: Vec<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    written.sort_unstable();
    written.dedup();
    documented.sort_unstable();
    assert_eq!(written, documented);
}
