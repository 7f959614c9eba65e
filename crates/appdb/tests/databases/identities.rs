//! People authenticated by identity providers, with mapped roles and attributes.

use std::collections::BTreeMap;

use tracewarden_appdb::{
    AppDb, ClaimedRefreshToken, DbError, NewChange, NewIdentity, Policy, Session, StoredClaims, TokenDigest,
    User, UserIdentity,
};
use tracewarden_model::{AttributeValue, ClaimsMapping, ClaimsMappings, RoleRule, Timestamp};

use crate::fixture::{Fixture, add_user, at, attributes, on_both, set};

on_both!(
    mapped_and_assigned_access,
    claims_in_batches,
    mappings_have_a_history,
    sessions_at_a_provider,
    consumed_tokens,
    refresh_tokens_are_claimed_once,
);

const ISSUER: &str = "https://id.example.com";

fn identity<'a>(
    user_id: &'a str,
    subject: &'a str,
    claims: &'a str,
    confirmed_at: Timestamp,
) -> NewIdentity<'a> {
    NewIdentity { user_id, provider: "company", issuer: ISSUER, subject, claims, confirmed_at }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::String(text.to_owned())
}

async fn add_roles(db: &AppDb, names: &[&str]) {
    let policies = vec![Policy { title: "t".to_owned(), expression: "true".to_owned(), description: None }];
    let mut tx = db.begin_write().await.unwrap();
    for name in names {
        tx.put_role(name, &policies, at(5)).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn user(db: &AppDb, id: &str) -> User {
    db.begin_read().await.unwrap().user_by_id(id).await.unwrap().unwrap()
}

async fn mapped_and_assigned_access(fixture: &Fixture) {
    let db = fixture.open().await;
    add_roles(&db, &["mapped", "both", "assigned"]).await;
    add_user(&db, "u1", "Ada", &["assigned", "both"]).await.unwrap();
    add_user(&db, "u2", "bob", &[]).await.unwrap();
    let assigned = user(&db, "u1").await;
    assert_eq!(
        (assigned.assigned_roles(), assigned.assigned_attributes()),
        (&assigned.roles, &assigned.attributes)
    );

    let mut tx = db.begin_write().await.unwrap();
    tx.identities_mut().put(&identity("u1", "s1", "{}", at(20))).await.unwrap();
    let mapped = BTreeMap::from([
        ("team".to_owned(), Some(text("mapped"))),
        ("absent".to_owned(), None),
        ("new".to_owned(), Some(AttributeValue::Bool(true))),
    ]);
    tx.identities_mut().put_mapped(&[("u1", set(&["mapped", "both"]), mapped)]).await.unwrap();
    // A user belongs to one person, and a person to one user.
    let twice = tx.identities_mut().put(&identity("u1", "s2", "{}", at(20))).await;
    assert!(matches!(twice, Err(DbError::Conflict(_))), "{twice:?}");
    drop(tx);
    assert_eq!(user(&db, "u1").await, assigned, "nothing of a dropped transaction stays");

    let mut tx = db.begin_write().await.unwrap();
    let mut before = attributes();
    before.insert("absent".to_owned(), text("assigned"));
    tx.set_user_attributes("u1", &before).await.unwrap();
    tx.identities_mut().put(&identity("u1", "s1", "{}", at(20))).await.unwrap();
    let mapped = BTreeMap::from([("team".to_owned(), Some(text("mapped"))), ("absent".to_owned(), None)]);
    tx.identities_mut().put_mapped(&[("u1", set(&["mapped", "both"]), mapped)]).await.unwrap();
    tx.commit().await.unwrap();

    let ada = user(&db, "u1").await;
    assert_eq!(ada.roles, set(&["assigned", "both", "mapped"]));
    let mut expected = before.clone();
    expected.insert("team".to_owned(), text("mapped"));
    expected.remove("absent");
    assert_eq!(ada.attributes, expected, "a mapped attribute hides an assigned one, even without a value");
    assert_eq!((ada.assigned_roles(), ada.assigned_attributes()), (&set(&["assigned", "both"]), &before));
    let UserIdentity { provider, issuer, subject, confirmed_at, mapped_attributes, .. } =
        *ada.identity.clone().unwrap();
    assert_eq!((provider.as_str(), issuer.as_str(), subject.as_str()), ("company", ISSUER, "s1"));
    assert_eq!((confirmed_at, mapped_attributes), (at(20), set(&["absent", "team"])));

    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.identities().user(ISSUER, "s1").await.unwrap(), Some(ada.clone()));
    assert_eq!(tx.identities().user("https://other.example.com", "s1").await.unwrap(), None);
    assert_eq!(tx.identities().user(ISSUER, "S1").await.unwrap(), None, "case matters");
    for (role, names) in [("mapped", vec!["Ada"]), ("both", vec!["Ada"]), ("assigned", vec!["Ada"])] {
        assert_eq!(tx.members_of_roles(&[role]).await.unwrap()[role], names, "{role}");
        assert_eq!(tx.enabled_users(Some(role)).await.unwrap(), 1, "{role}");
        let batch = tx.users_batch(Some(role), "", 9, u32::MAX).await.unwrap();
        assert_eq!(batch, std::slice::from_ref(&ada), "{role}");
        let known = tx.known_attributes(role, 9).await.unwrap().unwrap();
        assert_eq!(known.holders, 1, "{role}");
    }
    assert_eq!(tx.users(None, "", 9).await.unwrap(), [ada, user(&db, "u2").await]);
    drop(tx);

    // Administrators of a provider do not count as ones who remain.
    let mut tx = db.begin_write().await.unwrap();
    tx.identities_mut().put(&identity("u2", "s2", "{}", at(20))).await.unwrap();
    tx.identities_mut().put_mapped(&[("u2", set(&["admin"]), BTreeMap::new())]).await.unwrap();
    assert_eq!(
        (tx.enabled_users(Some("admin")).await.unwrap(), tx.password_administrators().await.unwrap()),
        (1, 0)
    );
    tx.set_user_roles("u2", &set(&["admin"])).await.unwrap();
    assert_eq!(
        (tx.enabled_users(Some("admin")).await.unwrap(), tx.password_administrators().await.unwrap()),
        (1, 0)
    );
    tx.commit().await.unwrap();
    add_user(&db, "u3", "carol", &["admin"]).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    assert_eq!(
        (tx.enabled_users(Some("admin")).await.unwrap(), tx.password_administrators().await.unwrap()),
        (2, 1)
    );
    tx.delete_user("u3").await.unwrap();
    // With a role go its assignments of both kinds.
    tx.delete_role("both").await.unwrap();
    tx.identities_mut()
        .put_mapped(&[("u1", set(&[]), BTreeMap::new()), ("u2", set(&["mapped"]), BTreeMap::new())])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(user(&db, "u1").await.roles, set(&["assigned"]));
    assert_eq!(user(&db, "u1").await.attributes, before);
    assert_eq!(user(&db, "u2").await.roles, set(&["admin", "mapped"]));

    let mut tx = db.begin_write().await.unwrap();
    tx.delete_user("u1").await.unwrap();
    add_nothing_twice(&mut tx).await;
    tx.commit().await.unwrap();
    assert_eq!(db.begin_read().await.unwrap().identities().user(ISSUER, "s1").await.unwrap(), None);
}

/// The same person can be known again under another user.
async fn add_nothing_twice(tx: &mut tracewarden_appdb::WriteTx) {
    assert_eq!(tx.identities().user(ISSUER, "s1").await.unwrap(), None);
}

async fn claims_in_batches(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    tx.commit().await.unwrap();
    for id in ["B", "a", "c"] {
        add_user(&db, id, &format!("user {id}"), &[]).await.unwrap();
        tx = db.begin_write().await.unwrap();
        tx.identities_mut().put(&identity(id, id, &format!("{{\"sub\":\"{id}\"}}"), at(1))).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = db.begin_write().await.unwrap();
    let other = NewIdentity { provider: "other", ..identity("c", "c", "{}", at(2)) };
    tx.identities_mut().put(&other).await.unwrap();
    tx.commit().await.unwrap();

    let stored = |id: &str| StoredClaims {
        user_id: id.to_owned(),
        username: format!("user {id}"),
        claims: format!("{{\"sub\":\"{id}\"}}"),
        roles: set(&[]),
        attributes: BTreeMap::new(),
    };
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.identities().claims("company", "", 1).await.unwrap(), [stored("B")]);
    assert_eq!(tx.identities().claims("company", "B", 9).await.unwrap(), [stored("a")]);
    assert_eq!(tx.identities().claims("company", "a", 9).await.unwrap(), []);
    assert_eq!(tx.identities().claims("other", "", 9).await.unwrap()[0].claims, "{}");
    assert_eq!(user(&db, "c").await.identity.unwrap().confirmed_at, at(2));
}

async fn mappings_have_a_history(fixture: &Fixture) {
    let db = fixture.open().await;
    let mapping = |when: &str| {
        let rule = RoleRule { role: "r".to_owned(), when: when.to_owned() };
        let attributes = BTreeMap::from([("team".to_owned(), "claims.team".to_owned())]);
        ClaimsMappings::from([("company".to_owned(), ClaimsMapping { roles: vec![rule], attributes })])
    };
    let change =
        NewChange { at: at(9), by: ("u1", "Ada"), action: "mapping.put", target: None, model_version: 0 };
    for when in [None, Some("true"), None, Some("claims.a")] {
        let mut tx = db.begin_write().await.unwrap();
        let number = tx.record_change(&change, &[], None).await.unwrap();
        if let Some(when) = when {
            tx.identities_mut().record_mappings(number, &mapping(when)).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let mut tx = db.begin_read().await.unwrap();
    for (number, expected) in
        [(1, ClaimsMappings::new()), (2, ClaimsMappings::new()), (3, mapping("true")), (4, mapping("true"))]
    {
        assert_eq!(tx.model_state(Some(number)).await.unwrap().unwrap().mappings, expected, "{number}");
    }
    assert_eq!(tx.model_state(None).await.unwrap().unwrap().mappings, mapping("claims.a"));
    assert_eq!(tx.identities().mapping_changes(1, 4).await.unwrap(), [3]);
    assert_eq!(tx.identities().mapping_changes(4, 9).await.unwrap(), [5]);
    let [before, after] = tx.states_around_change(5).await.unwrap().unwrap();
    assert_eq!((before.mappings, after.mappings), (mapping("true"), mapping("claims.a")));
    let [before, after] = tx.states_around_change(4).await.unwrap().unwrap();
    assert_eq!((before.mappings, after.mappings), Default::default(), "the change wrote none");
    drop(tx);
    // Neither a mapping nor its absence counts as a change that an earlier program made.
    assert!(!db.record_missed_changes(at(10)).await.unwrap());
}

async fn sessions_at_a_provider(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    tx.commit().await.unwrap();
    for (id, seen) in [("u1", 10), ("u2", 20), ("u3", 10)] {
        add_user(&db, id, id, &[]).await.unwrap();
        if id != "u3" {
            tx = db.begin_write().await.unwrap();
            tx.identities_mut().put(&identity(id, id, "{}", at(seen))).await.unwrap();
            tx.commit().await.unwrap();
        }
    }
    let mut tx = db.begin_write().await.unwrap();
    for (index, (id, user_id, provider, session)) in [
        ("s1", "u1", Some("company"), Some("x")),
        ("s2", "u1", Some("company"), Some("y")),
        ("s3", "u1", Some("other"), Some("x")),
        ("s4", "u1", None, None),
        ("s5", "u2", Some("company"), Some("x")),
        ("s6", "u3", None, None),
    ]
    .into_iter()
    .enumerate()
    {
        let session = tracewarden_appdb::Session {
            id: id.to_owned(),
            user_id: user_id.to_owned(),
            created_at: at(30),
            last_seen_at: at(30),
            client_ip: None,
            user_agent: None,
            preview: None,
            provider: provider.map(str::to_owned),
            provider_session: session.map(str::to_owned),
        };
        tx.insert_session(&session, TokenDigest([index as u8; 32])).await.unwrap();
        assert_eq!(tx.session_by_id(id).await.unwrap(), Some(session));
    }
    let ended = |user_id: &str, id: &str| vec![(user_id.to_owned(), id.to_owned())];
    assert_eq!(
        tx.identities_mut().delete_sessions("company", "x", Some("u1")).await.unwrap(),
        ended("u1", "s1")
    );
    assert_eq!(tx.identities_mut().delete_sessions("company", "x", Some("u1")).await.unwrap(), []);
    assert_eq!(tx.identities_mut().delete_sessions("other", "x", None).await.unwrap(), ended("u1", "s3"));
    tx.identities_mut().set_confirmed("u2", at(19)).await.unwrap();
    assert_eq!(
        tx.identities_mut().delete_lapsed_sessions(at(19)).await.unwrap(),
        1,
        "that of u1 that began at a provider"
    );
    assert_eq!(tx.identities_mut().delete_lapsed_sessions(at(20)).await.unwrap(), 1);
    for (user_id, left) in [("u1", vec!["s4"]), ("u2", vec![]), ("u3", vec!["s6"])] {
        let sessions = tx.sessions_of_user(user_id).await.unwrap();
        assert_eq!(sessions.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), left, "{user_id}");
    }
    tx.commit().await.unwrap();
}

async fn consumed_tokens(fixture: &Fixture) {
    let db = fixture.open().await;
    let uses = async |byte: u8, now: i64, until: i64| {
        let mut tx = db.begin_write().await.unwrap();
        let is_first =
            tx.identities_mut().consume_token(TokenDigest([byte; 32]), at(now), at(until)).await.unwrap();
        tx.commit().await.unwrap();
        is_first
    };
    assert!(uses(1, 10, 20).await);
    assert!(!uses(1, 20, 30).await, "until the end of its time");
    assert!(uses(2, 20, 30).await);
    assert!(uses(1, 21, 30).await, "it expired by itself");
    assert!(!uses(2, 21, 30).await);
}

async fn refresh_tokens_are_claimed_once(fixture: &Fixture) {
    let db = fixture.open().await;
    add_user(&db, "u1", "Ada", &[]).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    for (index, id) in ["s1", "s2", "s3"].into_iter().enumerate() {
        let session = Session {
            id: id.to_owned(),
            user_id: "u1".to_owned(),
            created_at: at(1),
            last_seen_at: at(1),
            client_ip: None,
            user_agent: None,
            preview: None,
            provider: Some("company".to_owned()),
            provider_session: None,
        };
        tx.insert_session(&session, TokenDigest([index as u8; 32])).await.unwrap();
        tx.identities_mut().insert_refresh_token(id, id, at(30 - 10 * index as i64)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let is_due =
        async |now| db.begin_read().await.unwrap().identities().has_due_refresh(at(now)).await.unwrap();
    assert!(!is_due(9).await && is_due(10).await);

    let mut tx = db.begin_write().await.unwrap();
    let mut tokens = tx.identities_mut();
    let ids = |claimed: &[ClaimedRefreshToken]| -> Vec<String> {
        claimed.iter().map(|claimed| claimed.session_id.clone()).collect()
    };
    // The longest due first.
    let first = tokens.claim_refresh_tokens(at(25), at(100), 1).await.unwrap();
    assert_eq!(ids(&first), ["s3"]);
    let second = tokens.claim_refresh_tokens(at(25), at(100), 5).await.unwrap();
    assert_eq!(ids(&second), ["s2"]);
    assert_eq!(tokens.claim_refresh_tokens(at(25), at(100), 5).await.unwrap(), []);
    // The holder of the claim stores the next token; the end of a claim is the end of its rights.
    assert!(tokens.release_refresh_token(&first[0], Some("next"), at(50)).await.unwrap());
    assert!(!tokens.release_refresh_token(&first[0], Some("twice"), at(50)).await.unwrap());
    let later = tokens.claim_refresh_tokens(at(100), at(200), 5).await.unwrap();
    assert_eq!(later.len(), 3);
    let next = later.iter().find(|claimed| claimed.session_id == "s3").unwrap();
    assert_eq!((next.token.as_str(), next.claimed_until), ("next", at(200)));
    assert!(!tokens.release_refresh_token(&second[0], Some("late"), at(50)).await.unwrap());
    assert!(!tokens.delete_refresh_token(&second[0]).await.unwrap());
    assert!(tokens.release_refresh_token(next, None, at(300)).await.unwrap());
    let unchanged = tokens.claim_refresh_tokens(at(300), at(400), 5).await.unwrap();
    assert!(unchanged.iter().any(|claimed| claimed.token == "next"));
    for claimed in &unchanged {
        assert!(tokens.delete_refresh_token(claimed).await.unwrap());
    }
    // A token ends with its session.
    tokens.insert_refresh_token("s1", "t", at(1)).await.unwrap();
    tx.delete_session("u1", "s1").await.unwrap();
    assert!(!tx.identities().has_due_refresh(at(1_000)).await.unwrap());
}
