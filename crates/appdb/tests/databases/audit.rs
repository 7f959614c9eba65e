//! The audit log: appending, reading, the chain.

use tracewarden_appdb::{AppDb, AuditFilter, DbError, Epoch, NewAuditRecord};

use crate::fixture::{Fixture, at, on_both, record};

on_both!(
    audit,
    appends_at_once_make_one_chain,
    many_records_make_one_chain,
    changes_raise_the_epoch_and_appends_do_not,
    records_of_earlier_programs_raise_the_epoch,
);

async fn audit(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    let login = NewAuditRecord { target: Some("A"), ..record("login", 100, None, "success") };
    let login = tx.append_audit(&login).await.unwrap();
    let query = record("traces.query", 200, None, "unknown");
    let query = NewAuditRecord { target: Some("a"), credential_id: Some("c1"), ..query };
    let query = tx.append_audit(&query).await.unwrap();
    let crashed = tx.append_audit(&record("traces.query", 300, None, "unknown")).await.unwrap();
    tx.append_audit(&record("traces.query", 400, Some(query), "success")).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = db.begin_write().await.unwrap();
    let twice = tx.append_audit(&record("traces.query", 500, Some(query), "failed")).await;
    assert!(matches!(twice, Err(DbError::Conflict(_))), "a record is completed once");
    drop(tx);

    let mut tx = db.begin_read().await.unwrap();
    let all = tx.audit_records(&AuditFilter::default(), 10).await.unwrap();
    let seen: Vec<_> = all.iter().map(|entry| (entry.sequence, entry.outcome.as_str())).collect();
    assert_eq!(seen, [(crashed, "unknown"), (query, "success"), (login, "success")]);
    assert_eq!(all[1].completed_at, Some(at(400)));
    let [one, several, none] = [vec!["a"], vec!["b", "a", "A"], vec!["b"]]
        .map(|spellings| spellings.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let cases = [
        (AuditFilter { action: Some("login"), ..AuditFilter::default() }, vec![login]),
        (AuditFilter { outcome: Some("unknown"), ..AuditFilter::default() }, vec![crashed]),
        (AuditFilter { from: Some(at(200)), to: Some(at(300)), ..AuditFilter::default() }, vec![query]),
        (AuditFilter { from: Some(at(200).saturating_add(1)), ..AuditFilter::default() }, vec![crashed]),
        (AuditFilter { actor: Some("Ada"), before: Some(query), ..AuditFilter::default() }, vec![login]),
        (AuditFilter { actor: Some("' OR 1=1"), ..AuditFilter::default() }, vec![]),
        (AuditFilter { credential_id: Some("c1"), ..AuditFilter::default() }, vec![query]),
        (AuditFilter { credential_id: Some("none"), ..AuditFilter::default() }, vec![]),
        (AuditFilter { target: Some(&one), ..AuditFilter::default() }, vec![query]),
        (
            AuditFilter { target: Some(&several), action: Some("login"), ..AuditFilter::default() },
            vec![login],
        ),
        (
            AuditFilter {
                target: Some(&several),
                actor: Some("Ada"),
                credential_id: Some("c1"),
                ..AuditFilter::default()
            },
            vec![query],
        ),
        (AuditFilter { target: Some(&none), ..AuditFilter::default() }, vec![]),
    ];
    for (filter, expected) in cases {
        let found = tx.audit_records(&filter, 10).await.unwrap();
        let found: Vec<u64> = found.iter().map(|entry| entry.sequence).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(tx.audit_records(&AuditFilter::default(), 1).await.unwrap().len(), 1);
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None);
    assert_eq!(tx.audit_head().await.unwrap().0, 4, "a rollback leaves no gap");
}

async fn appends_at_once_make_one_chain(fixture: &Fixture) {
    let db = fixture.open().await;
    let before = db.begin_read().await.unwrap().audit_head().await.unwrap().0;
    let tasks: Vec<_> = (0..40)
        .map(|time| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut tx = db.begin_write().await.unwrap();
                tx.append_audit(&record("burst", time, None, "success")).await.unwrap();
                // Every fourth writer rolls back, which must not break the chain.
                if time % 4 != 0 {
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None);
    assert_eq!(tx.audit_head().await.unwrap().0, before + 30);
}

async fn many_records_make_one_chain(fixture: &Fixture) {
    let db = fixture.open().await;
    for count in [1, 2, 3, 127, 300] {
        let mut tx = db.begin_append().await.unwrap();
        let (head, _) = tx.read().audit_head().await.unwrap();
        let records: Vec<_> = (0..count).map(|time| record("burst", time, None, "unknown")).collect();
        assert_eq!(tx.append_audit(&records).await.unwrap(), head + 1);
        tx.commit().await.unwrap();
        let mut tx = db.begin_read().await.unwrap();
        assert_eq!(tx.audit_head().await.unwrap().0, head + count.unsigned_abs());
        assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None, "{count} records");
        let newest = &tx.audit_records(&AuditFilter::default(), 1).await.unwrap()[0];
        assert_eq!(newest.at, at(count - 1), "in order");
    }
    let mut tx = db.begin_append().await.unwrap();
    let completions =
        [3, 1, 2].map(|of| NewAuditRecord { detail: "{\"n\":1}", ..record("burst", 1, Some(of), "success") });
    tx.append_audit(&completions).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_append().await.unwrap();
    let mut found = tx.audit_completions(&[2, 5, 1]).await.unwrap();
    found.sort_unstable();
    let expected = [1, 2].map(|sequence| (sequence, "success".to_owned(), "{\"n\":1}".to_owned()));
    assert_eq!(found, expected);
    assert!(tx.audit_completions(&[]).await.unwrap().is_empty());
}

async fn epoch(db: &AppDb) -> Epoch {
    db.begin_append().await.unwrap().epoch().await.unwrap()
}

async fn changes_raise_the_epoch_and_appends_do_not(fixture: &Fixture) {
    let db = fixture.open().await;
    let before = epoch(&db).await;
    let (_, of_model) = db.begin_read().await.unwrap().current_model_and_epoch().await.unwrap();
    assert_eq!((of_model, before.uncounted), (before, 0));

    let mut tx = db.begin_append().await.unwrap();
    tx.append_audit(&[record("traces.query", 1, None, "unknown")]).await.unwrap();
    tx.touch_session("s1", at(1)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    tx.append_audit(&record("role.put", 1, None, "success")).await.unwrap();
    drop(tx);
    assert_eq!(epoch(&db).await, before);

    let mut tx = db.begin_write().await.unwrap();
    tx.append_audit(&record("role.put", 1, None, "success")).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("quiet", &[], at(1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(epoch(&db).await, Epoch { changes: before.changes + 2, uncounted: 0 });
}

/// A replica of an earlier version may make changes while replicas are replaced.
async fn records_of_earlier_programs_raise_the_epoch(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut seen = vec![epoch(&db).await];
    for by_earlier_program in [true, true, false, true, false, false] {
        if by_earlier_program {
            fixture.run(&["UPDATE audit_head SET sequence = sequence + 1 WHERE id = 1"]).await;
        } else {
            let mut tx = db.begin_append().await.unwrap();
            tx.append_audit(&[record("traces.query", 1, None, "unknown")]).await.unwrap();
            tx.commit().await.unwrap();
        }
        seen.push(epoch(&db).await);
    }
    let epoch = |changes, uncounted| Epoch { changes: seen[0].changes + changes, uncounted };
    let expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 0)];
    assert_eq!(seen, expected.map(|(changes, uncounted)| epoch(changes, uncounted)));
}
