//! Definitions of all tables, as the database reports them. `golden/` contains the current ones, one file per database.
//! `UPDATE_DOCS=1 cargo test -p tracewarden-appdb --test databases definitions` rewrites the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sqlx::Connection as _;
use tracewarden_appdb::AppDb;

use crate::fixture::{Fixture, at, on_both};

on_both!(match_the_golden_file, lost_definitions_are_detected);

/// The statements that SQLite stores and reads at each start: they are its schema. Objects that SQLite creates by
/// itself for a constraint have no statement.
const SQLITE: &str = "SELECT tbl_name, CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END, 0, sql \
                      FROM sqlite_master WHERE sql IS NOT NULL";

/// The definitions in the catalogues, without the indexes of constraints and without the constraints that newer servers
/// create for `NOT NULL`, which the column shows. Lines of other objects than tables begin with the letters of their
/// kind.
const POSTGRES: &str = "
    WITH tables AS (
        SELECT pg_class.oid AS id, CAST(relname AS TEXT) AS name, relkind, relpersistence
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = current_schema() AND relkind NOT IN ('i', 'I')
    ), lines AS (
        SELECT name, CAST(0 AS BIGINT) AS kind, CAST(0 AS BIGINT) AS place,
            concat(CASE WHEN relkind = 'r' AND relpersistence = 'p' THEN 'TABLE'
                WHEN relkind = 'v' THEN 'VIEW'
                ELSE concat(relkind, relpersistence) END, ' ', name, CASE WHEN relkind = 'v' THEN
                concat(' AS ', regexp_replace(pg_get_viewdef(id), '\\s+', ' ', 'g')) END) AS line
        FROM tables
        UNION ALL
        SELECT name, 1, attnum, concat('    ', quote_ident(attname), ' ', format_type(atttypid, atttypmod),
            CASE WHEN attcollation <> typcollation THEN concat(' COLLATE ', quote_ident(collname)) END,
            CASE WHEN attnotnull THEN ' NOT NULL' END,
            ' DEFAULT ' || pg_get_expr(adbin, adrelid),
            CASE WHEN attidentity <> '' THEN ' IDENTITY' END,
            CASE WHEN attgenerated <> '' THEN ' GENERATED' END)
        FROM tables JOIN pg_attribute ON attrelid = id JOIN pg_type ON pg_type.oid = atttypid
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
        LEFT JOIN pg_attrdef ON adrelid = id AND adnum = attnum
        WHERE attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT name, 2, 0, concat('    CONSTRAINT ', quote_ident(conname), ' ', pg_get_constraintdef(pg_constraint.oid))
        FROM tables JOIN pg_constraint ON conrelid = id WHERE contype <> 'n'
        UNION ALL
        SELECT name, 3, 0, concat('    ', pg_get_indexdef(indexrelid), CASE WHEN NOT indisvalid THEN ' INVALID' END)
        FROM tables JOIN pg_index ON indrelid = id
        WHERE NOT EXISTS (
            SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x')
        )
        UNION ALL
        SELECT name, 4, 0, concat('    ', pg_get_triggerdef(pg_trigger.oid))
        FROM tables JOIN pg_trigger ON tgrelid = id WHERE NOT tgisinternal
    )
    SELECT name, kind, place, replace(line, quote_ident(current_schema()) || '.', '') FROM lines";

async fn read(fixture: &Fixture) -> String {
    let query = match fixture {
        Fixture::Sqlite { .. } => SQLITE,
        Fixture::Postgres(_) => POSTGRES,
    };
    let mut connection = fixture.connect().await;
    // Sorted here, because the server's order of text depends on its locale.
    let mut lines: Vec<(String, i64, i64, String)> =
        sqlx::query_as(query).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    lines.sort_unstable();
    let (mut text, mut last) = (String::new(), "");
    for (table, _, _, line) in &lines {
        if !text.is_empty() && table != last {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        last = table;
    }
    text
}

fn file(fixture: &Fixture) -> PathBuf {
    let name = match fixture {
        Fixture::Sqlite { .. } => "sqlite.txt",
        Fixture::Postgres(_) => "postgresql.txt",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Checks that the schema equals the file: nothing is missing, added or different.
pub async fn require(fixture: &Fixture) {
    let (path, current) = (file(fixture), read(fixture).await);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let same = committed.lines().zip(current.lines()).take_while(|(committed, current)| committed == current);
    let from = same.count().saturating_sub(6);
    let part = |text: &str| text.lines().skip(from).take(24).collect::<Vec<_>>().join("\n");
    assert!(
        committed == current,
        "{}, from line {}: run `UPDATE_DOCS=1 cargo test -p tracewarden-appdb --test databases definitions`\n\
         ── the file ──\n{}\n── now ──\n{}\n",
        path.display(),
        from + 1,
        part(&committed),
        part(&current),
    );
}

async fn match_the_golden_file(fixture: &Fixture) {
    AppDb::open(&fixture.url(), at(0)).await.unwrap().close().await;
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file(fixture), read(fixture).await).unwrap();
        return;
    }
    require(fixture).await;
}

const TABLE: &str = "CREATE TABLE two (id BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x' UNIQUE, \
                     size BIGINT CHECK (size > 0), one BIGINT REFERENCES one (id) ON DELETE CASCADE)";
const INDEX: &str = "CREATE INDEX two_by_one ON two (one, name)";

/// Changes that a migration could make by mistake.
const LOSSES: [(&str, &str); 10] = [
    (" PRIMARY KEY", ""),
    ("TEXT NOT NULL", "TEXT"),
    ("name TEXT", "name VARCHAR(9)"),
    (" DEFAULT 'x'", ""),
    (" UNIQUE", ""),
    (" CHECK (size > 0)", ""),
    (", size BIGINT CHECK (size > 0)", ""),
    (" ON DELETE CASCADE", ""),
    (" REFERENCES one (id) ON DELETE CASCADE", ""),
    (INDEX, ""),
];

/// Checks that the definitions are complete: a table that lacks a part differs from the complete table and from all
/// other variants.
async fn lost_definitions_are_detected(fixture: &Fixture) {
    let trigger = match fixture {
        Fixture::Sqlite { .. } => {
            "CREATE TRIGGER two_stays BEFORE DELETE ON two BEGIN SELECT RAISE(ABORT, 'no'); END"
        }
        Fixture::Postgres(_) => {
            "CREATE TRIGGER two_stays BEFORE UPDATE ON two FOR EACH ROW \
             EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        }
    };
    fixture.run(&["CREATE TABLE one (id BIGINT NOT NULL PRIMARY KEY)"]).await;
    let mut seen = BTreeSet::new();
    for (had, has) in [("", ""), (trigger, "")].into_iter().chain(LOSSES) {
        let statements = [TABLE, INDEX, trigger].map(|statement| statement.replacen(had, has, 1));
        let mut all = vec!["DROP TABLE IF EXISTS two"];
        all.extend(statements.iter().map(String::as_str).filter(|statement| !statement.is_empty()));
        fixture.run(&all).await;
        assert!(seen.insert(read(fixture).await), "`{had}` has become `{has}`, which does not show");
    }
}
