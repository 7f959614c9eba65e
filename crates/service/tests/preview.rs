//! A preview of a user grants that user's access at each request, not a copy of earlier access.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use secrecy::ExposeSecret as _;
use support::*;
use tracewarden_service::*;

on_both!(a_preview_follows_its_user, a_preview_follows_its_user_in_running_requests);

struct Previewing {
    world: World,
    /// Session that previews `ada`, who has the role `pay` and the attribute `team`.
    session: Credential,
    /// Id of `ada`.
    ada: String,
    /// Another session, which makes the changes to `ada`.
    admin: Principal,
}

async fn previewing(own: Own) -> Previewing {
    let world = world_on(own, Settings::default()).await;
    let admin = world.admin().await;
    world.bind(&admin).await;
    let right = admin.require_admin().unwrap();
    let of_team = policy("ServiceName == user.attributes.team");
    world.service.put_role(&right, "pay", vec![of_team], None).await.unwrap();
    world.service.put_role(&right, "ship", vec![policy("ServiceName == \"ship\"")], None).await.unwrap();
    let ada = world.user(&admin, "ada", &["pay"]).await.user_id().to_owned();
    world.store.set(|answers| answers.selected = vec![("t1".to_owned(), 10, 2)]);
    let (session, caller) = world.second_session().await;
    let request = PreviewRequest::User("ADA".to_owned());
    let me = world.service.set_preview(&caller.require_admin().unwrap(), request).await.unwrap();
    assert_eq!(me, world.service.me(&*world.principal(&session).await));
    Previewing { world, session, ada, admin }
}

impl Previewing {
    async fn change(&self, change: UserChange) {
        let right = self.admin.require_admin().unwrap();
        self.world.service.update_user(&right, "ada", change, None).await.unwrap();
    }

    /// Returns the roles and the team that the preview shows.
    async fn shown(&self) -> (Vec<String>, Option<String>) {
        let me = self.world.service.me(&*self.world.principal(&self.session).await);
        let preview = me.preview.unwrap();
        assert_eq!(preview.username.as_deref(), Some("ada"));
        let team = preview.attributes.get("team").map(|team| format!("{team:?}"));
        (preview.roles.into_iter().collect(), team)
    }

    /// Runs a query; returns the statement that selected traces, `None` if no trace was looked up, and the detail of the
    /// record.
    async fn query(&self, caller: &Principal) -> (Option<String>, serde_json::Value) {
        let before = self.world.store.lookups();
        let query = QueryRequest { view: View::Ids, ..QueryRequest::default() };
        let answer = self.world.service.query(caller, query).await.unwrap();
        let asked = self.world.store.answers.lock().unwrap().asked.last().cloned();
        let asked = asked.filter(|_| self.world.store.lookups() > before);
        assert_eq!(answer.traces, u64::from(asked.is_some()));
        let record = self.world.last_audit(&self.admin).await;
        assert_eq!(record.actor_name.as_deref(), Some("admin"));
        let preview = &record.detail["preview"];
        assert_eq!((&preview["username"], &preview["user_id"]), (&"ada".into(), &self.ada.as_str().into()));
        (asked, record.detail)
    }
}

fn change() -> UserChange {
    UserChange::default()
}

async fn a_preview_follows_its_user(own: Own) {
    let previewing = previewing(own).await;
    let Previewing { world, session, admin, .. } = &previewing;
    let right = admin.require_admin().unwrap();
    let payments = Some("String(\"payments\")".to_owned());
    assert_eq!(previewing.shown().await, (vec!["pay".to_owned()], payments));
    let (asked, basis) = previewing.query(&world.principal(session).await).await;
    assert!(asked.unwrap().contains("ServiceName"));
    assert_eq!(basis["preview"]["roles"], serde_json::json!(["pay"]));
    assert_eq!(basis["preview"]["attributes"]["team"], "payments");
    assert_eq!(basis["roles"], serde_json::json!({"pay": 2}));

    previewing
        .change(UserChange { attributes: Some(team("blue")), roles: Some(set(&["pay", "ship"])), ..change() })
        .await;
    let roles = vec!["pay".to_owned(), "ship".to_owned()];
    assert_eq!(previewing.shown().await, (roles, Some("String(\"blue\")".to_owned())));
    let (_, basis) = previewing.query(&world.principal(session).await).await;
    assert_eq!(basis["preview"]["attributes"]["team"], "blue");
    assert_eq!(basis["roles"], serde_json::json!({"pay": 2, "ship": 3}));

    // A role changes, and is deleted.
    world.service.put_role(&right, "ship", vec![policy("ServiceName == \"dock\"")], None).await.unwrap();
    let (_, basis) = previewing.query(&world.principal(session).await).await;
    assert_eq!(basis["roles"], serde_json::json!({"pay": 2, "ship": 4}));
    world.service.delete_role(&right, "ship", None).await.unwrap();
    let (_, basis) = previewing.query(&world.principal(session).await).await;
    assert_eq!(basis["roles"], serde_json::json!({"pay": 2}));

    // The user is disabled, enabled and deleted, and another user gets the name.
    let nothing = (Vec::new(), None);
    previewing.change(UserChange { disabled: Some(true), ..change() }).await;
    assert_eq!(previewing.shown().await, nothing);
    let (asked, basis) = previewing.query(&world.principal(session).await).await;
    assert_eq!((asked, &basis["roles"]), (None, &serde_json::json!({})));
    previewing.change(UserChange { disabled: Some(false), ..change() }).await;
    assert!(previewing.query(&world.principal(session).await).await.0.is_some());
    world.service.delete_user(&right, "ada", None).await.unwrap();
    assert_eq!(previewing.shown().await, nothing);
    assert_eq!(previewing.query(&world.principal(session).await).await.0, None);
    let again = NewUser {
        username: "ada".to_owned(),
        roles: set(&["pay"]),
        attributes: team("payments"),
        ..NewUser::default()
    };
    let created = world.service.create_user(&right, again).await.unwrap();
    assert!(!created.initial_password.expose_secret().is_empty());
    assert_eq!(previewing.shown().await, nothing, "another user with the same name");
    assert_eq!(previewing.query(&world.principal(session).await).await.0, None);

    let caller = world.principal(session).await;
    world.service.clear_preview(&caller.require_admin().unwrap()).await.unwrap();
    assert_eq!(world.principal(session).await.preview(), None);
}

/// A principal that a test keeps while the user is changed represents a request in progress.
async fn a_preview_follows_its_user_in_running_requests(own: Own) {
    let previewing = previewing(own).await;
    let Previewing { world, session, .. } = &previewing;
    let caller = world.principal(session).await;
    previewing.change(UserChange { roles: Some(set(&["ship"])), ..change() }).await;
    let (asked, basis) = previewing.query(&caller).await;
    assert!(asked.is_some());
    assert_eq!(basis["roles"], serde_json::json!({"ship": 3}));
    assert_eq!(basis["preview"]["roles"], serde_json::json!(["ship"]));

    // A request that was prepared before the change: its first record is written under the current access.
    let gate = Gate::closed();
    world.store.set(|answers| answers.gate = Some(gate.clone()));
    let lookups = world.store.lookups();
    let (service, held) = (world.service.clone(), caller.clone());
    let columns = Some(vec!["ServiceName".to_owned()]);
    let query = QueryRequest { view: View::Ids, columns, ..QueryRequest::default() };
    let query = tokio::spawn(async move { service.query(&held, query).await });
    tokio::time::timeout(std::time::Duration::from_secs(60), gate.reached()).await.unwrap();
    previewing.change(UserChange { disabled: Some(true), ..change() }).await;
    world.store.set(|answers| answers.gate = None);
    for _ in 0..100 {
        gate.let_one_through();
    }
    assert_eq!(query.await.unwrap().unwrap().traces, 0);
    assert_eq!(world.store.lookups(), lookups, "no trace was looked up");
    let record = world.last_audit(&previewing.admin).await;
    assert_eq!((&record.action[..], &record.detail["roles"]), ("traces.query", &serde_json::json!({})));
}

/// The cursor of a preview stays valid when the user's roles change; for another preview it is invalid.
#[tokio::test]
async fn a_cursor_is_bound_to_the_previewed_user() {
    let previewing = previewing(Own::Sqlite).await;
    let Previewing { world, session, admin, .. } = &previewing;
    world.store.set(|answers| {
        answers.selected = vec![("t1".to_owned(), 10, 2), ("t2".to_owned(), 9, 2)];
    });
    let page = |cursor| QueryRequest { view: View::Ids, limit: Some(1), cursor, ..QueryRequest::default() };
    let caller = world.principal(session).await;
    let cursor = world.service.query(&caller, page(None)).await.unwrap().next_cursor;
    assert!(cursor.is_some());
    previewing.change(UserChange { roles: Some(set(&["pay", "ship"])), ..change() }).await;
    let caller = world.principal(session).await;
    world.service.query(&caller, page(cursor.clone())).await.unwrap();
    world.user(admin, "bob", &["pay"]).await;
    let request = PreviewRequest::User("bob".to_owned());
    world.service.set_preview(&caller.require_admin().unwrap(), request).await.unwrap();
    let caller = world.principal(session).await;
    assert_eq!(code(world.service.query(&caller, page(cursor)).await), "invalid_cursor");
}

/// Only administrators can begin a preview; a session row of another user that contains one has no effect.
#[tokio::test]
async fn a_stored_preview_needs_an_administrator() {
    let Previewing { world, admin, .. } = previewing(Own::Sqlite).await;
    world.user(&admin, "bob", &[]).await;
    let session = world.login("bob", USER_PASSWORD).await.unwrap();
    let id = world.principal(&session).await.credential_id().to_owned();
    let preview = Preview { roles: set(&["pay"]), attributes: team("payments"), ..Preview::default() };
    let mut tx = world.db.begin_write().await.unwrap();
    tx.set_session_preview(&id, Some(&preview)).await.unwrap();
    tx.commit().await.unwrap();
    let bob = world.principal(&session).await;
    assert_eq!((bob.preview(), world.service.me(&bob).preview), (None, None));
    let before = world.store.lookups();
    let query = QueryRequest { view: View::Ids, ..QueryRequest::default() };
    assert_eq!(world.service.query(&bob, query).await.unwrap().traces, 0);
    assert_eq!(world.store.lookups(), before, "no trace was looked up");
    let basis = world.last_audit(&admin).await.detail;
    assert_eq!((&basis["roles"], basis.get("preview")), (&serde_json::json!({}), None));
}
