//! A preview of a user grants that user's access at each request, not a copy of earlier access.

use crate::support::*;
use secrecy::ExposeSecret as _;
use tracewarden_service::*;

on_both_databases!(a_preview_follows_its_user, a_preview_follows_its_user_in_running_requests);

struct PreviewFixture {
    fixture: Fixture,
    /// Session that previews `ada`, who has the role `pay` and the attribute `team`.
    session: Credential,
    /// Id of `ada`.
    ada: String,
    /// Another session, which makes the changes to `ada`.
    admin: Principal,
}

async fn previewing(database: DatabaseKind) -> PreviewFixture {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let team_policy = policy("ServiceName == user.attributes.team");
    fixture.service.roles().put_role(&administrator, "pay", vec![team_policy], None).await.unwrap();
    fixture
        .service
        .roles()
        .put_role(&administrator, "ship", vec![policy("ServiceName == \"ship\"")], None)
        .await
        .unwrap();
    let ada = fixture.user(&admin, "ada", &["pay"]).await.user_id().to_owned();
    fixture.store.set(|answers| answers.selected = vec![("t1".to_owned(), 10, 2)]);
    let (session, caller) = fixture.second_session().await;
    let request = PreviewRequest::User("ADA".to_owned());
    let me = fixture.service.account().set_preview(&caller.require_admin().unwrap(), request).await.unwrap();
    assert_eq!(me, fixture.service.account().me(&*fixture.principal(&session).await));
    PreviewFixture { fixture, session, ada, admin }
}

impl PreviewFixture {
    async fn change(&self, change: UserChange) {
        let administrator = self.admin.require_admin().unwrap();
        self.fixture.service.users().update_user(&administrator, "ada", change, None).await.unwrap();
    }

    /// Returns the roles and the team that the preview shows.
    async fn shown(&self) -> (Vec<String>, Option<String>) {
        let me = self.fixture.service.account().me(&*self.fixture.principal(&self.session).await);
        let preview = me.preview.unwrap();
        assert_eq!(preview.username.as_deref(), Some("ada"));
        let attributes = preview.attributes.0;
        let team = attributes.get("team").map(|team| format!("{team:?}"));
        (preview.roles.into_iter().collect(), team)
    }

    /// Runs a query; returns the statement that selected traces, `None` if no trace was looked up, and the detail of the
    /// record.
    async fn query(&self, caller: &Principal) -> (Option<String>, serde_json::Value) {
        let before = self.fixture.store.lookups();
        let query = QueryRequest { view: View::Ids, ..QueryRequest::default() };
        let answer = self.fixture.service.traces().query(caller, query).await.unwrap();
        let statement = self.fixture.store.answers.lock().unwrap().statements.last().cloned();
        let statement = statement.filter(|_| self.fixture.store.lookups() > before);
        assert_eq!(answer.traces, u64::from(statement.is_some()));
        let record = self.fixture.last_audit(&self.admin).await;
        assert_eq!(record.actor.username.as_deref(), Some("admin"));
        let preview = &record.detail["preview"];
        assert_eq!((&preview["username"], &preview["user_id"]), (&"ada".into(), &self.ada.as_str().into()));
        (statement, record.detail)
    }
}

fn change() -> UserChange {
    UserChange::default()
}

async fn a_preview_follows_its_user(database: DatabaseKind) {
    let previewing = previewing(database).await;
    let PreviewFixture { fixture, session, admin, .. } = &previewing;
    let administrator = admin.require_admin().unwrap();
    let payments = Some("String(\"payments\")".to_owned());
    assert_eq!(previewing.shown().await, (vec!["pay".to_owned()], payments));
    let (statement, detail) = previewing.query(&fixture.principal(session).await).await;
    assert!(statement.unwrap().contains("ServiceName"));
    assert_eq!(detail["preview"]["roles"], serde_json::json!(["pay"]));
    assert_eq!(detail["preview"]["attributes"]["team"], "payments");
    assert_eq!(detail["roles"], serde_json::json!({"pay": 2}));

    previewing
        .change(UserChange { attributes: Some(team("blue")), roles: Some(set(&["pay", "ship"])), ..change() })
        .await;
    let roles = vec!["pay".to_owned(), "ship".to_owned()];
    assert_eq!(previewing.shown().await, (roles, Some("String(\"blue\")".to_owned())));
    let (_, detail) = previewing.query(&fixture.principal(session).await).await;
    assert_eq!(detail["preview"]["attributes"]["team"], "blue");
    assert_eq!(detail["roles"], serde_json::json!({"pay": 2, "ship": 3}));

    // A role changes, and is deleted.
    fixture
        .service
        .roles()
        .put_role(&administrator, "ship", vec![policy("ServiceName == \"dock\"")], None)
        .await
        .unwrap();
    let (_, detail) = previewing.query(&fixture.principal(session).await).await;
    assert_eq!(detail["roles"], serde_json::json!({"pay": 2, "ship": 4}));
    fixture.service.roles().delete_role(&administrator, "ship", None).await.unwrap();
    let (_, detail) = previewing.query(&fixture.principal(session).await).await;
    assert_eq!(detail["roles"], serde_json::json!({"pay": 2}));

    // The user is disabled, enabled and deleted, and another user gets the name.
    let nothing = (Vec::new(), None);
    previewing.change(UserChange { disabled: Some(true), ..change() }).await;
    assert_eq!(previewing.shown().await, nothing);
    let (statement, detail) = previewing.query(&fixture.principal(session).await).await;
    assert_eq!((statement, &detail["roles"]), (None, &serde_json::json!({})));
    previewing.change(UserChange { disabled: Some(false), ..change() }).await;
    assert!(previewing.query(&fixture.principal(session).await).await.0.is_some());
    fixture.service.users().delete_user(&administrator, "ada", None).await.unwrap();
    assert_eq!(previewing.shown().await, nothing);
    assert_eq!(previewing.query(&fixture.principal(session).await).await.0, None);
    let again = NewUser {
        username: "ada".to_owned(),
        roles: set(&["pay"]),
        attributes: team("payments"),
        ..NewUser::default()
    };
    let created = fixture.service.users().create_user(&administrator, again).await.unwrap();
    assert!(!created.initial_password.as_ref().unwrap().expose_secret().is_empty());
    assert_eq!(previewing.shown().await, nothing, "another user with the same name");
    assert_eq!(previewing.query(&fixture.principal(session).await).await.0, None);

    let caller = fixture.principal(session).await;
    fixture.service.account().clear_preview(&caller.require_admin().unwrap()).await.unwrap();
    assert_eq!(fixture.principal(session).await.preview(), None);
}

/// A principal that a test keeps while the user is changed represents a request in progress.
async fn a_preview_follows_its_user_in_running_requests(database: DatabaseKind) {
    let previewing = previewing(database).await;
    let PreviewFixture { fixture, session, .. } = &previewing;
    let caller = fixture.principal(session).await;
    previewing.change(UserChange { roles: Some(set(&["ship"])), ..change() }).await;
    let (statement, detail) = previewing.query(&caller).await;
    assert!(statement.is_some());
    assert_eq!(detail["roles"], serde_json::json!({"ship": 3}));
    assert_eq!(detail["preview"]["roles"], serde_json::json!(["ship"]));

    // A request that was prepared before the change: its first record is written under the current access.
    let gate = Gate::closed();
    fixture.store.set(|answers| answers.gate = Some(gate.clone()));
    let lookups = fixture.store.lookups();
    let (service, held) = (fixture.service.clone(), caller.clone());
    let columns = Some(vec!["ServiceName".to_owned()]);
    let query = QueryRequest { view: View::Ids, columns, ..QueryRequest::default() };
    let query = tokio::spawn(async move { service.traces().query(&held, query).await });
    tokio::time::timeout(std::time::Duration::from_secs(60), gate.reached()).await.unwrap();
    previewing.change(UserChange { disabled: Some(true), ..change() }).await;
    fixture.store.set(|answers| answers.gate = None);
    for _ in 0..100 {
        gate.let_one_through();
    }
    assert_eq!(query.await.unwrap().unwrap().traces, 0);
    assert_eq!(fixture.store.lookups(), lookups, "no trace was looked up");
    let record = fixture.last_audit(&previewing.admin).await;
    assert_eq!((&record.action[..], &record.detail["roles"]), ("traces.query", &serde_json::json!({})));
}

/// The cursor of a preview stays valid when the user's roles change; for another preview it is invalid.
#[tokio::test]
async fn a_cursor_is_bound_to_the_previewed_user() {
    let previewing = previewing(DatabaseKind::Sqlite).await;
    let PreviewFixture { fixture, session, admin, .. } = &previewing;
    fixture.store.set(|answers| {
        answers.selected = vec![("t1".to_owned(), 10, 2), ("t2".to_owned(), 9, 2)];
    });
    let page = |cursor| QueryRequest { view: View::Ids, limit: Some(1), cursor, ..QueryRequest::default() };
    let caller = fixture.principal(session).await;
    let cursor = fixture.service.traces().query(&caller, page(None)).await.unwrap().next_cursor;
    assert!(cursor.is_some());
    previewing.change(UserChange { roles: Some(set(&["pay", "ship"])), ..change() }).await;
    let caller = fixture.principal(session).await;
    fixture.service.traces().query(&caller, page(cursor.clone())).await.unwrap();
    fixture.user(admin, "bob", &["pay"]).await;
    let request = PreviewRequest::User("bob".to_owned());
    fixture.service.account().set_preview(&caller.require_admin().unwrap(), request).await.unwrap();
    let caller = fixture.principal(session).await;
    assert_eq!(code(fixture.service.traces().query(&caller, page(cursor)).await), "invalid_cursor");
}

/// Only administrators can begin a preview; a session row of another user that contains one has no effect.
#[tokio::test]
async fn a_stored_preview_needs_an_administrator() {
    let PreviewFixture { fixture, admin, .. } = previewing(DatabaseKind::Sqlite).await;
    fixture.user(&admin, "bob", &[]).await;
    let session = fixture.sign_in("bob", USER_PASSWORD).await.unwrap();
    let id = fixture.principal(&session).await.credential_id().to_owned();
    let preview = Preview { roles: set(&["pay"]), attributes: team("payments"), ..Preview::default() };
    let mut tx = fixture.db.begin_write().await.unwrap();
    tx.set_session_preview(&id, Some(&preview)).await.unwrap();
    tx.commit().await.unwrap();
    let bob = fixture.principal(&session).await;
    assert_eq!((bob.preview(), fixture.service.account().me(&bob).preview), (None, None));
    let before = fixture.store.lookups();
    let query = QueryRequest { view: View::Ids, ..QueryRequest::default() };
    assert_eq!(fixture.service.traces().query(&bob, query).await.unwrap().traces, 0);
    assert_eq!(fixture.store.lookups(), before, "no trace was looked up");
    let detail = fixture.last_audit(&admin).await.detail;
    assert_eq!((&detail["roles"], detail.get("preview")), (&serde_json::json!({}), None));
}
