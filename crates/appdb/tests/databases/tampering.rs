//! Rows that an attacker changed, bypassing the service.

use tracewarden_appdb::{AUDIT_PRUNE, AppDb, ChainFault, DbError, NewAuditRecord};

use crate::fixture::{Fixture, add_user, at, on_both, record};

on_both!(
    missing_parts_of_the_log_are_not_an_outage,
    an_unreadable_row_is_an_error,
    tampering_breaks_the_chain,
    tampering_breaks_a_pruned_chain
);

async fn an_unreadable_row_is_an_error(fixture: &Fixture) {
    let db = fixture.open().await;
    add_user(&db, "u1", "ada", &[]).await.unwrap();
    for statement in [
        "UPDATE users SET disabled = 2",
        "UPDATE users SET disabled = 0, attributes = '{\"a\": 1}'",
        "UPDATE users SET attributes = 'not json'",
    ] {
        fixture.run(&[statement]).await;
        let found = db.begin_read().await.unwrap().user_by_id("u1").await;
        assert!(matches!(found, Err(DbError::Corrupt(_))), "{statement}: {found:?}");
    }
    fixture.run(&["INSERT INTO access_models VALUES (1, '{\"fields\": []}', 0, '', '')"]).await;
    assert_eq!(db.begin_read().await.unwrap().access_model().await.unwrap().version, 1);
    fixture.run(&["INSERT INTO access_models VALUES (2, '{\"fields\": [], \"more\": 1}', 0, '', '')"]).await;
    let found = db.begin_read().await.unwrap().access_model().await;
    assert!(matches!(found, Err(DbError::Corrupt(_))), "a document of a newer kind");
    fixture.run(&["DELETE FROM audit_head"]).await;
    let found = db.begin_read().await.unwrap().audit_head().await;
    assert!(matches!(found, Err(DbError::Corrupt(_))), "{found:?}");
}

async fn missing_parts_of_the_log_are_not_an_outage(fixture: &Fixture) {
    let db = fixture.open().await;
    append(&db, &[record("login", 1, None, "success")]).await;
    for (statement, expected) in [
        ("DROP TABLE audit", "the table `audit` is missing"),
        ("DELETE FROM audit_head", "the one row of `audit_head` is missing"),
        ("DROP TABLE audit_head", "the table `audit_head` is missing"),
        ("DELETE FROM audit_anchor", "the one row of `audit_anchor` is missing"),
        ("DROP TABLE audit_anchor", "the table `audit_anchor` is missing"),
    ] {
        fixture.run(&[statement]).await;
        let mut tx = db.begin_read().await.unwrap();
        let found = match statement.contains("head") {
            true => tx.audit_head().await.unwrap_err(),
            false => tx.verify_audit(|_, _| ()).await.unwrap_err(),
        };
        assert!(matches!(&found, DbError::Corrupt(reason) if reason == expected), "{statement}: {found:?}");
    }
}

async fn verify(db: &AppDb) -> Result<u64, ChainFault> {
    let mut tx = db.begin_read().await.unwrap();
    tx.verify_audit(|_, _| ()).await.unwrap().map(|verified| verified.records)
}

async fn append(db: &AppDb, records: &[NewAuditRecord<'_>]) {
    let mut tx = db.begin_write().await.unwrap();
    for record in records {
        tx.append_audit(record).await.unwrap();
    }
    tx.commit().await.unwrap();
}

/// Runs the cases: statements, and the record at which verification must report the break. Restores the log after each.
async fn check(fixture: &Fixture, db: &AppDb, records: u64, cases: &[(&[&str], u64)]) {
    fixture
        .run(&[
            "CREATE TABLE kept_audit AS SELECT * FROM audit",
            "CREATE TABLE kept_head AS SELECT * FROM audit_head",
            "CREATE TABLE kept_anchor AS SELECT * FROM audit_anchor",
        ])
        .await;
    for (statements, sequence) in cases {
        assert_eq!(verify(db).await, Ok(records));
        fixture.run(statements).await;
        let fault = verify(db).await;
        assert_eq!(
            fault.as_ref().map_err(|fault| fault.sequence),
            Err(*sequence),
            "{statements:?}: {fault:?}"
        );
        fixture
            .run(&[
                "DELETE FROM audit",
                "DELETE FROM audit_head",
                "DELETE FROM audit_anchor",
                "INSERT INTO audit SELECT * FROM kept_audit",
                "INSERT INTO audit_head SELECT * FROM kept_head",
                "INSERT INTO audit_anchor SELECT * FROM kept_anchor",
            ])
            .await;
    }
    assert_eq!(verify(db).await, Ok(records));
}

async fn tampering_breaks_the_chain(fixture: &Fixture) {
    let db = fixture.open().await;
    append(&db, &["one", "two", "three"].map(|action| record(action, 1, None, "success"))).await;
    let cases: &[(&[&str], u64)] = &[
        (&["UPDATE audit SET outcome = 'failed' WHERE sequence = 2"], 2),
        (&["UPDATE audit SET credential_id = '' WHERE sequence = 1"], 1),
        (&["UPDATE audit SET completes = 1 WHERE sequence = 3"], 3),
        (&["DELETE FROM audit WHERE sequence = 2"], 3),
        (&["DELETE FROM audit WHERE sequence = 1"], 2),
        (&["DELETE FROM audit WHERE sequence = 3"], 3),
        (&["DELETE FROM audit WHERE sequence > 1"], 2),
        (&["DELETE FROM audit"], 1),
        (&["UPDATE audit SET hash = previous_hash WHERE sequence = 1"], 1),
        (&["UPDATE audit SET at = at + 1 WHERE sequence = 3"], 3),
        (&["UPDATE audit SET sequence = 4 WHERE sequence = 3"], 4),
        // The beginning is cut off, with a matching anchor.
        (
            &[
                "UPDATE audit_anchor SET sequence = 1, hash = (SELECT hash FROM audit WHERE sequence = 1)",
                "DELETE FROM audit WHERE sequence = 1",
            ],
            1,
        ),
        // All records are deleted.
        (
            &[
                "UPDATE audit_anchor SET sequence = 3, hash = (SELECT hash FROM audit WHERE sequence = 3)",
                "DELETE FROM audit",
            ],
            3,
        ),
        // A forged record is inserted before the first one.
        (
            &[
                "INSERT INTO audit SELECT 0, NULL, at, actor_id, actor_name, credential_id, via, 'forged', outcome, \
            request_id, client_ip, user_agent, target, detail, previous_hash, hash FROM audit WHERE sequence = 1",
            ],
            0,
        ),
        // An anchor that matches nothing.
        (&["UPDATE audit_anchor SET hash = 'x'"], 1),
        // A head that is not that of the last record.
        (&["UPDATE audit_head SET hash = 'x'"], 3),
        (&["UPDATE audit_head SET sequence = 2"], 3),
        // All records are deleted, with a head and an anchor that match: half of their values are those of an empty
        // log.
        (
            &[
                "DELETE FROM audit",
                "UPDATE audit_head SET hash = (SELECT hash FROM audit_anchor)",
                "UPDATE audit_anchor SET sequence = 3",
            ],
            3,
        ),
        (
            &[
                "DELETE FROM audit",
                "UPDATE audit_head SET sequence = 0",
                "UPDATE audit_anchor SET hash = (SELECT hash FROM audit_head)",
            ],
            0,
        ),
    ];
    check(fixture, &db, 3, cases).await;
}

async fn tampering_breaks_a_pruned_chain(fixture: &Fixture) {
    let db = fixture.open().await;
    append(&db, &[1, 2, 3, 4, 5].map(|time| record("done", time, None, "success"))).await;
    let mut tx = db.begin_write().await.unwrap();
    let pruned = tx.prune_audit(at(3), 100).await.unwrap().unwrap();
    let detail = format!(
        "{{\"through\": {}, \"hash\": \"{}\", \"removed\": 2, \"more\": 1}}",
        pruned.through, pruned.hash
    );
    tx.append_audit(&NewAuditRecord { detail: &detail, ..record(AUDIT_PRUNE, 9, None, "success") })
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let cases: &[(&[&str], u64)] = &[
        (&["UPDATE audit_anchor SET hash = 'x'"], 3),
        (
            &["UPDATE audit_anchor SET sequence = 0, \
            hash = '0000000000000000000000000000000000000000000000000000000000000000'"],
            3,
        ),
        (
            &[
                "UPDATE audit_anchor SET sequence = 3, hash = (SELECT hash FROM audit WHERE sequence = 3)",
                "DELETE FROM audit WHERE sequence = 3",
            ],
            3,
        ),
        (&["DELETE FROM audit WHERE sequence = 3"], 4),
        (&["DELETE FROM audit WHERE sequence = 6"], 6),
        (&["UPDATE audit SET detail = '{}' WHERE sequence = 6"], 6),
        // A forged record is inserted where others were removed.
        (
            &[
                "INSERT INTO audit SELECT 2, NULL, at, actor_id, actor_name, credential_id, via, 'forged', outcome, \
            request_id, client_ip, user_agent, target, detail, previous_hash, hash FROM audit WHERE sequence = 3",
            ],
            2,
        ),
    ];
    check(fixture, &db, 4, cases).await;

    // A record of a removal without its details does not confirm the anchor.
    append(&db, &[record(AUDIT_PRUNE, 10, None, "success")]).await;
    assert_eq!(verify(&db).await.map_err(|fault| fault.sequence), Err(7));
}
