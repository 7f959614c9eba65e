//! Databases that an earlier program made, and ones that are not up to date.

use sha2::{Digest as _, Sha256};
use sqlx::Connection as _;
use tracewarden_appdb::{AppDb, Change, DbError, GENESIS_HASH};

use crate::fixture::{Fixture, at, on_both};

on_both!(
    every_step_is_pinned,
    an_earlier_schema_is_brought_up_to_date,
    only_a_current_schema_is_opened_as_it_is,
);

/// A step with the checksums that its program writes. The pin of a released step never changes: an edit would lock out every
/// database that has it.
struct Step {
    name: &'static str,
    sql: &'static str,
    /// What only PostgreSQL needs.
    postgres: &'static str,
    /// On SQLite, on PostgreSQL.
    sha256: [&'static str; 2],
}

/// All steps. The first four are those of 0.1.0.
const PINNED: [Step; 4] = [
    Step {
        name: "initial",
        sql: include_str!("../../migrations/0001_initial.sql"),
        postgres: "",
        sha256: ["766cf8e0cc9f74727ff12c4333b46d29903b03e60e957fe51ceea622ce33411a"; 2],
    },
    Step {
        name: "role_revision",
        sql: include_str!("../../migrations/0002_role_revision.sql"),
        postgres: "",
        sha256: ["2d43cde18f1d25c35d8069d39d9727156258c8abb17593a6c62390602ddbabff"; 2],
    },
    Step {
        name: "narrowed_keys_audit_anchor",
        sql: include_str!("../../migrations/0003_narrowed_keys_audit_anchor.sql"),
        postgres: include_str!("../../migrations/0003_bytewise_order.postgres.sql"),
        sha256: [
            "eed17b1203cea91293f99f9c4067a31d1f8e8ca3f46064e53de2134a50ffd9b1",
            "95d9a116bb1c9376f3f85fa08c8e3c20a5d0abe693937c43ba8a3162aa279714",
        ],
    },
    Step {
        name: "history",
        sql: include_str!("../../migrations/0004_history.sql"),
        postgres: include_str!("../../migrations/0004_bytewise_order.postgres.sql"),
        sha256: [
            "2698c98888061680b400a9f38023e99138b4e8b8a1d8a06404b2647bc45fcbaa",
            "8d96dfec19c8f1dc4b476894556275df866b010dd07239dc9a65dfc2c76242c1",
        ],
    },
];

const DATA: &[&str] = &[
    "INSERT INTO roles (name, revision, created_at, updated_at) VALUES ('reader', 7, 1, 2)",
    "INSERT INTO role_policies (role, position, title, expression, description) VALUES ('reader', 0, 't', 'true', 'd')",
    "INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
     VALUES (4, '{\"binding\": null, \"fields\": []}', 2, 'u1', 'Ada')",
    "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, created_at, \
     attributes) VALUES ('u1', 'Ada', 'ada', 'x', 0, 0, 3, '{\"team\": \"a\"}')",
    "INSERT INTO user_roles (user_id, role) VALUES ('u1', 'reader')",
    "INSERT INTO sessions (id, token_sha256, user_id, created_at, last_seen_at) VALUES ('s1', 'aa', 'u1', 4, 5)",
    "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at) VALUES ('k1', 'bb', 'h', 'n', 'u1', 6)",
    "INSERT INTO secrets (name, value) VALUES ('cursor', '0102')",
];

async fn make(fixture: &Fixture, steps: usize) {
    let mut statements = vec![
        "CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, \
         sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)"
            .to_owned(),
    ];
    let apply = |statements: &mut Vec<String>, version: usize| {
        let Step { name, sql, postgres, sha256 } = &PINNED[version - 1];
        let (sql, sha256) = match fixture {
            Fixture::Sqlite { .. } => ((*sql).to_owned(), sha256[0]),
            Fixture::Postgres(_) => (format!("{sql}{postgres}"), sha256[1]),
        };
        assert_eq!(hex::encode(Sha256::digest(&sql)), sha256, "step {version} was edited");
        statements.push(sql);
        statements.push(format!("INSERT INTO schema_migrations VALUES ({version}, '{name}', '{sha256}', 0)"));
    };
    apply(&mut statements, 1);
    statements.extend(DATA.iter().map(|&statement| statement.to_owned()));
    for version in 2..=steps {
        apply(&mut statements, version);
    }
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    fixture.run(&statements).await;
}

async fn check(fixture: &Fixture, is_newest: bool) {
    let url = fixture.url();
    let existing = AppDb::open_existing(&url).await;
    if is_newest {
        existing.unwrap().close().await;
    } else {
        let error = existing.err().unwrap();
        assert!(
            matches!(&error, DbError::Migration(text) if text.contains("has not been applied")),
            "{error}"
        );
    }
    let db = AppDb::open(&url, at(9)).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    let user = tx.user_by_name("ADA").await.unwrap().unwrap();
    assert_eq!((user.id.as_str(), user.roles.len(), user.attributes.len()), ("u1", 1, 1));
    let role = tx.role("reader").await.unwrap().unwrap();
    assert_eq!((role.revision, role.policies.len()), (7, 1));
    assert_eq!(tx.sessions_of_user("u1").await.unwrap().len(), 1);
    let key = tx.api_key_by_id("k1").await.unwrap().unwrap();
    assert_eq!((key.policy, key.tools), (None, None), "a key from before is not narrowed");
    assert_eq!(tx.secret("cursor").await.unwrap(), Some(vec![1, 2]));
    assert_eq!(tx.audit_anchor().await.unwrap(), (0, GENESIS_HASH.to_owned()));
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().unwrap().records, 0);
    let began = Change {
        number: 1,
        // Of the step that began it.
        at: at(if is_newest { 0 } else { 9 }),
        by_id: String::new(),
        by_name: String::new(),
        action: "upgrade".to_owned(),
        target: None,
        model_version: 4,
    };
    assert_eq!(tx.changes(None, 9).await.unwrap(), [began]);
    let state = tx.model_state(Some(1)).await.unwrap().unwrap();
    assert_eq!(
        state,
        tx.model_state(None).await.unwrap().unwrap(),
        "the history begins with what was stored"
    );
    assert_eq!(state.roles.keys().collect::<Vec<_>>(), ["admin", "reader"]);
    assert_eq!(state.roles["reader"], role.policies);
    assert_eq!((state.model.version, state.tests.as_str()), (4, ""));
    drop(tx);
    let mut tx = db.begin_write().await.unwrap();
    assert_eq!(tx.put_role("other", &[], at(10)).await.unwrap(), 8, "revisions go on");
    tx.commit().await.unwrap();
    db.close().await;
    AppDb::open_existing(&url).await.unwrap();
}

/// As the program writes them into a new database: a step that is added, and any that is edited, fails here.
async fn every_step_is_pinned(fixture: &Fixture) {
    AppDb::open(&fixture.url(), at(0)).await.unwrap().close().await;
    let backend = usize::from(matches!(fixture, Fixture::Postgres(_)));
    let pinned = (1..)
        .zip(&PINNED)
        .map(|(version, step)| (version, step.name.to_owned(), step.sha256[backend].to_owned()));
    sqlx::any::install_default_drivers();
    let url = match fixture {
        Fixture::Sqlite { path, .. } => {
            format!("sqlite://{}", path.display().to_string().replace('%', "%25").replace('#', "%23"))
        }
        Fixture::Postgres(database) => database.url(),
    };
    let mut other = sqlx::AnyConnection::connect(&url).await.unwrap();
    let select = "SELECT version, name, sha256 FROM schema_migrations ORDER BY version";
    let applied: Vec<(i64, String, String)> = sqlx::query_as(select).fetch_all(&mut other).await.unwrap();
    assert_eq!(applied, pinned.collect::<Vec<_>>());
}

async fn an_earlier_schema_is_brought_up_to_date(fixture: &Fixture) {
    for steps in 1..=PINNED.len() {
        let earlier = match fixture {
            Fixture::Sqlite { .. } => Fixture::sqlite(),
            Fixture::Postgres(_) => Fixture::postgres(),
        };
        make(&earlier, steps).await;
        check(&earlier, steps == PINNED.len()).await;
    }
}

async fn only_a_current_schema_is_opened_as_it_is(fixture: &Fixture) {
    let url = fixture.url();
    fixture.run(&["CREATE TABLE notes (line TEXT)"]).await;
    let error = AppDb::open_existing(&url).await.err().unwrap();
    assert!(
        matches!(&error, DbError::Migration(text) if text.contains("no data of this service")),
        "{error}"
    );
    // It has created nothing.
    fixture.run(&["CREATE TABLE schema_migrations (line TEXT)", "DROP TABLE schema_migrations"]).await;
    AppDb::open(&url, at(0)).await.unwrap();
    AppDb::open_existing(&url).await.unwrap();
    fixture.run(&["INSERT INTO schema_migrations VALUES (99, 'later', 'x', 0)"]).await;
    for opened in [AppDb::open_existing(&url).await, AppDb::open(&url, at(0)).await] {
        let error = opened.err().unwrap();
        assert!(matches!(&error, DbError::Migration(text) if text.contains("newer program")), "{error}");
    }
}
