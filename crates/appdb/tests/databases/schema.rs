//! Databases of earlier versions, and databases whose schema is not current.

mod audit_log;
mod definitions;
mod rows;
mod tables;

use sha2::{Digest as _, Sha256};
use tracewarden_appdb::{AppDb, Change, DbError, ModelState};

use crate::fixture::{Fixture, at, on_both};

on_both!(
    every_step_is_pinned,
    an_earlier_schema_is_brought_up_to_date,
    only_a_current_schema_is_opened_unchanged,
);

/// A migration with the checksums that the program stores. The pin of a released migration never changes: an edit would
/// lock out every database that has it.
struct Step {
    name: &'static str,
    sql: &'static str,
    /// Statements for PostgreSQL only.
    postgres: &'static str,
    /// Checksums on SQLite and on PostgreSQL.
    sha256: [&'static str; 2],
    /// Statements that fill the new tables and columns, as a program of that version would have by the time of the next
    /// migration.
    rows: &'static [&'static str],
}

/// All migrations. The first four are those of 0.1.0.
const PINNED: [Step; 8] = [
    Step {
        name: "initial",
        sql: include_str!("../../migrations/0001_initial.sql"),
        postgres: "",
        sha256: ["766cf8e0cc9f74727ff12c4333b46d29903b03e60e957fe51ceea622ce33411a"; 2],
        rows: rows::INITIAL,
    },
    Step {
        name: "role_revision",
        sql: include_str!("../../migrations/0002_role_revision.sql"),
        postgres: "",
        sha256: ["2d43cde18f1d25c35d8069d39d9727156258c8abb17593a6c62390602ddbabff"; 2],
        rows: rows::ROLE_REVISION,
    },
    Step {
        name: "narrowed_keys_audit_anchor",
        sql: include_str!("../../migrations/0003_narrowed_keys_audit_anchor.sql"),
        postgres: include_str!("../../migrations/0003_bytewise_order.postgres.sql"),
        sha256: [
            "eed17b1203cea91293f99f9c4067a31d1f8e8ca3f46064e53de2134a50ffd9b1",
            "95d9a116bb1c9376f3f85fa08c8e3c20a5d0abe693937c43ba8a3162aa279714",
        ],
        rows: rows::SCOPED_KEYS,
    },
    Step {
        name: "history",
        sql: include_str!("../../migrations/0004_history.sql"),
        postgres: include_str!("../../migrations/0004_bytewise_order.postgres.sql"),
        sha256: [
            "2698c98888061680b400a9f38023e99138b4e8b8a1d8a06404b2647bc45fcbaa",
            "8d96dfec19c8f1dc4b476894556275df866b010dd07239dc9a65dfc2c76242c1",
        ],
        rows: rows::HISTORY,
    },
    Step {
        name: "role_names",
        sql: include_str!("../../migrations/0005_role_names.sql"),
        postgres: "",
        sha256: ["e6789368ed04c4b25e24ee3c388d6cda4fa669424d454a5606ba67269d35d987"; 2],
        rows: &[],
    },
    Step {
        name: "audit_by_target",
        sql: include_str!("../../migrations/0006_audit_by_target.sql"),
        postgres: "",
        sha256: ["f9e9e907ba2269c8f26718015495baa12fe6a1883e5bf692151c11e2687c9e75"; 2],
        rows: &[],
    },
    Step {
        name: "audit_epoch",
        sql: include_str!("../../migrations/0007_audit_epoch.sql"),
        postgres: "",
        sha256: ["23a0cb8b966525a75cf951083a83a2d4be2135a2f33c5697e73b2dc7952581f6"; 2],
        rows: &[],
    },
    Step {
        name: "identity",
        sql: include_str!("../../migrations/0008_identity.sql"),
        postgres: include_str!("../../migrations/0008_bytewise_order.postgres.sql"),
        sha256: [
            "ab4754895894b7354ef18034cbb024e1d9296a3d8e1a1d5fb98da60931c45720",
            "2fb001f2743a2ffbdc9e9e9caea32af193ec254c87555860ac9c755673e5b5d1",
        ],
        rows: rows::IDENTITY,
    },
];

/// The migration that introduces pruning of the audit log.
const AUDIT_ANCHOR: usize = 3;

/// The migration that introduces the history of the access model.
const HISTORY: usize = 4;

/// A database that has only the first migrations, with data from programs of each of these versions.
struct EarlierDatabase {
    fixture: Fixture,
    steps: usize,
    /// Whether its audit log has been pruned.
    is_pruned: bool,
}

impl EarlierDatabase {
    async fn make(fixture: Fixture, steps: usize, is_pruned: bool) -> Self {
        let mut statements = vec![
            "CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, \
             sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)"
                .to_owned(),
        ];
        for (version, step) in (1..=steps).zip(&PINNED) {
            let Step { name, sql, postgres, sha256, rows } = step;
            let (sql, sha256) = match fixture {
                Fixture::Sqlite { .. } => ((*sql).to_owned(), sha256[0]),
                Fixture::Postgres(_) => (format!("{sql}{postgres}"), sha256[1]),
            };
            assert_eq!(hex::encode(Sha256::digest(&sql)), sha256, "step {version} was edited");
            let applied =
                format!("INSERT INTO schema_migrations VALUES ({version}, '{name}', '{sha256}', 0)");
            statements.extend([sql, applied]);
            statements.extend(rows.iter().map(|&row| row.to_owned()));
            if version == 1 {
                statements.extend(audit_log::written());
            }
        }
        if is_pruned {
            statements.extend(audit_log::pruned());
        }
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        fixture.run(&statements).await;
        Self { fixture, steps, is_pruned }
    }

    async fn check(&self) {
        let Self { ref fixture, steps, is_pruned } = *self;
        let before = tables::read(fixture).await;
        tables::require_filled(&before);
        let url = fixture.url();
        let existing = AppDb::open_existing(&url).await;
        if steps == PINNED.len() {
            existing.unwrap().close().await;
        } else {
            let error = existing.err().unwrap();
            assert!(
                matches!(&error, DbError::Migration(text) if text.contains("has not been applied")),
                "{error}"
            );
        }
        let db = AppDb::open(&url, at(9)).await.unwrap();
        definitions::require(fixture).await;
        tables::require_kept(&before, &tables::read(fixture).await);
        rows::require_read(&db, steps).await;
        audit_log::require_read(&db, is_pruned).await;
        check_history(&db, steps).await;
        audit_log::require_writable(&db, is_pruned).await;
        let mut tx = db.begin_write().await.unwrap();
        let revision = tx.put_role("other", &[], at(10)).await.unwrap();
        assert_eq!(revision, rows::last_revision(steps) + 1, "revisions go on");
        tx.commit().await.unwrap();
        db.close().await;
        AppDb::open_existing(&url).await.unwrap();
    }
}

async fn check_history(db: &AppDb, steps: usize) {
    let has_history = steps >= HISTORY;
    let mut tx = db.begin_read().await.unwrap();
    let began = Change {
        number: 1,
        // Time of the migration that created the history.
        at: at(if has_history { 0 } else { 9 }),
        by_id: String::new(),
        by_name: String::new(),
        action: "upgrade".to_owned(),
        target: None,
        model_version: 4,
    };
    let mut changes = tx.changes(None, 9).await.unwrap();
    assert_eq!(changes.pop(), Some(began));
    assert_eq!(changes.len(), if has_history { 2 } else { 0 });
    let now = tx.model_state(None).await.unwrap().unwrap();
    assert_eq!(now.roles.keys().collect::<Vec<_>>(), ["admin", "reader"]);
    assert_eq!((now.model.version, now.tests.as_str()), (4, if has_history { rows::TESTS } else { "" }));
    let last = tx.change_number().await.unwrap();
    assert_eq!(tx.model_state(Some(last)).await.unwrap().as_ref(), Some(&now));
    let first = ModelState { tests: String::new(), ..now };
    let reported = tx.model_state(Some(1)).await.unwrap();
    assert_eq!(reported, Some(first), "the history begins with the stored model");
}

/// Checks the pins against a new database: an added or edited migration fails here.
async fn every_step_is_pinned(fixture: &Fixture) {
    AppDb::open(&fixture.url(), at(0)).await.unwrap().close().await;
    let backend = usize::from(matches!(fixture, Fixture::Postgres(_)));
    let pinned = (1..)
        .zip(&PINNED)
        .map(|(version, step)| (version, step.name.to_owned(), step.sha256[backend].to_owned()));
    let mut other = fixture.connect().await;
    let select = "SELECT version, name, sha256 FROM schema_migrations ORDER BY version";
    let applied: Vec<(i64, String, String)> = sqlx::query_as(select).fetch_all(&mut other).await.unwrap();
    assert_eq!(applied, pinned.collect::<Vec<_>>());
}

async fn an_earlier_schema_is_brought_up_to_date(fixture: &Fixture) {
    for steps in 1..=PINNED.len() {
        let logs: &[bool] = if steps < AUDIT_ANCHOR { &[false] } else { &[false, true] };
        for &is_pruned in logs {
            println!("steps: {steps}, removed from the audit log: {is_pruned}");
            let empty = match fixture {
                Fixture::Sqlite { .. } => Fixture::sqlite(),
                Fixture::Postgres(_) => Fixture::postgres(),
            };
            EarlierDatabase::make(empty, steps, is_pruned).await.check().await;
        }
    }
}

async fn only_a_current_schema_is_opened_unchanged(fixture: &Fixture) {
    let url = fixture.url();
    fixture.run(&["CREATE TABLE notes (line TEXT)"]).await;
    let error = AppDb::open_existing(&url).await.err().unwrap();
    assert!(
        matches!(&error, DbError::Migration(text) if text.contains("no data of this service")),
        "{error}"
    );
    // The failed attempt has created nothing.
    fixture.run(&["CREATE TABLE schema_migrations (line TEXT)", "DROP TABLE schema_migrations"]).await;
    AppDb::open(&url, at(0)).await.unwrap();
    AppDb::open_existing(&url).await.unwrap();
    fixture.run(&["INSERT INTO schema_migrations VALUES (99, 'later', 'x', 0)"]).await;
    for opened in [AppDb::open_existing(&url).await, AppDb::open(&url, at(0)).await] {
        let error = opened.err().unwrap();
        assert!(matches!(&error, DbError::Migration(text) if text.contains("newer program")), "{error}");
    }
}
