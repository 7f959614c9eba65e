//! Several processes on one database, each with its own connections.

use std::time::{Duration, Instant};

use sqlx::Executor as _;
use tracewarden_appdb::{AppDb, DbError};

use crate::fixture::{Fixture, add_user, at, on_both, record, set};

on_both!(
    one_of_many_creates_the_schema,
    a_snapshot_stays_as_it_was,
    a_writer_sees_the_writes_that_it_waited_for,
    writers_make_one_chain,
    the_last_administrator_stays,
    the_first_secret_wins,
    readers_do_not_wait_for_writers_who_gave_up,
    a_busy_user_has_one_place_in_the_writer_queue,
);

async fn replicas(fixture: &Fixture) -> [AppDb; 2] {
    [fixture.open().await, fixture.open().await]
}

async fn one_of_many_creates_the_schema(fixture: &Fixture) {
    let url = fixture.url();
    let starts: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { AppDb::open(&url, at(0)).await.map(|_| ()) })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let db = AppDb::open_existing(&url).await.unwrap();
    assert_eq!(db.begin_read().await.unwrap().roles().await.unwrap().len(), 1, "`admin`, once");
}

async fn a_snapshot_stays_as_it_was(fixture: &Fixture) {
    let [one, two] = replicas(fixture).await;
    add_user(&one, "u1", "Ada", &["admin"]).await.unwrap();
    let mut snapshot = one.begin_read().await.unwrap();
    assert!(!snapshot.user_by_id("u1").await.unwrap().unwrap().disabled);
    let mut tx = two.begin_write().await.unwrap();
    tx.set_user_disabled("u1", true).await.unwrap();
    tx.set_user_roles("u1", &set(&[])).await.unwrap();
    tx.commit().await.unwrap();
    let before = snapshot.user_by_id("u1").await.unwrap().unwrap();
    assert!(!before.disabled && before.roles == set(&["admin"]), "one state, whatever happens meanwhile");
    let now = one.begin_read().await.unwrap().user_by_id("u1").await.unwrap().unwrap();
    assert!(
        now.disabled && now.roles.is_empty(),
        "a commit on any replica is visible on all replicas at once"
    );
}

async fn a_writer_sees_the_writes_that_it_waited_for(fixture: &Fixture) {
    let [one, two] = replicas(fixture).await;
    for round in 0..10 {
        let mut first = one.begin_write().await.unwrap();
        first.append_audit(&record("first", round, None, "success")).await.unwrap();
        let two = two.clone();
        let second = tokio::spawn(async move {
            let mut tx = two.begin_write().await.unwrap();
            let (head, _) = tx.audit_head().await.unwrap();
            (head, tx.audit_records(&tracewarden_appdb::AuditFilter::default(), 100).await.unwrap().len())
        });
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert!(!second.is_finished(), "it must wait");
        first.commit().await.unwrap();
        let (head, seen) = second.await.unwrap();
        assert_eq!((head, seen as u64), (round.unsigned_abs() + 1, round.unsigned_abs() + 1));
    }
}

async fn writers_make_one_chain(fixture: &Fixture) {
    let replicas = replicas(fixture).await;
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let db = replicas[number % 2].clone();
            tokio::spawn(async move {
                let mut tx = db.begin_write().await.unwrap();
                tx.append_audit(&record("burst", 1, None, "success")).await.unwrap();
                tx.put_role("shared", &[], at(1)).await.unwrap();
                // Every fourth writer rolls back.
                if number % 4 != 0 {
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut tx = replicas[0].begin_read().await.unwrap();
    let verified = tx.verify_audit(|_, _| ()).await.unwrap().unwrap();
    assert_eq!(verified.records, 45);
    assert_eq!(tx.role("shared").await.unwrap().unwrap().revision, 46, "no revision comes twice");
}

/// Reads and then changes, as the service does.
async fn disable_unless_last(db: &AppDb, id: &str) -> Result<bool, DbError> {
    let mut tx = db.begin_write().await?;
    let last = tx.enabled_users(Some("admin")).await? == 1;
    // Gives the other transaction every chance to run in between.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    if last {
        return Ok(false);
    }
    tx.set_user_disabled(id, true).await?;
    tx.commit().await?;
    Ok(true)
}

async fn the_last_administrator_stays(fixture: &Fixture) {
    let [one, two] = replicas(fixture).await;
    add_user(&one, "u1", "Ada", &["admin"]).await.unwrap();
    add_user(&one, "u2", "Bob", &["admin"]).await.unwrap();
    let done = tokio::join!(disable_unless_last(&one, "u1"), disable_unless_last(&two, "u2"));
    let done = [done.0.unwrap(), done.1.unwrap()];
    assert!(done == [true, false] || done == [false, true], "{done:?}");
    assert_eq!(one.begin_read().await.unwrap().enabled_users(Some("admin")).await.unwrap(), 1);
}

async fn the_first_secret_wins(fixture: &Fixture) {
    let [one, two] = replicas(fixture).await;
    let store = |db: AppDb, candidate: u8| async move {
        let mut tx = db.begin_write().await.unwrap();
        let stored = tx.secret_or_insert("cursor", &[candidate]).await.unwrap();
        tx.commit().await.unwrap();
        stored
    };
    let (first, second) = tokio::join!(tokio::spawn(store(one, 1)), tokio::spawn(store(two, 2)));
    assert_eq!(first.unwrap(), second.unwrap());
}

/// Writers that have timed out must not occupy the connections that readers need.
async fn readers_do_not_wait_for_writers_who_gave_up(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut other = fixture.connect().await;
    let (lock, unlock) = match fixture {
        Fixture::Sqlite { .. } => ("BEGIN EXCLUSIVE", "ROLLBACK"),
        // The lock of the service, with the number from `src/postgres.rs`.
        Fixture::Postgres(_) => {
            ("SELECT pg_advisory_lock(6075990604458185284)", "SELECT pg_advisory_unlock_all()")
        }
    };
    // Opens all connections first, because opening one takes time, too.
    drop(futures::future::join_all((0..8).map(|_| db.begin_read())).await);
    let read = async || {
        let begun = Instant::now();
        let reading = futures::future::join_all((0..7).map(|_| db.begin_read())).await;
        assert!(reading.iter().all(Result::is_ok));
        begun.elapsed()
    };
    // Time on this machine without writers.
    let baseline = read().await;
    other.execute(lock).await.unwrap();
    // Writers arrive one after another and time out one after another, each while the next one is waiting.
    let writers = (0..12).map(|number| {
        let db = db.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(100 * number)).await;
            db.begin_write().await.map(drop)
        }
    });
    for refused in futures::future::join_all(writers).await {
        assert!(matches!(refused, Err(DbError::Unavailable(_))), "{refused:?}");
    }
    let took = read().await;
    assert!(took < baseline + Duration::from_secs(1), "{took:?}, and {baseline:?} without writers");
    // They must not delay the next writer either.
    other.execute(unlock).await.unwrap();
    add_user(&db, "u1", "ada", &[]).await.unwrap();
}

async fn a_busy_user_has_one_place_in_the_writer_queue(fixture: &Fixture) {
    let db = fixture.open().await;
    let (order, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let writing = db.begin_write().await.unwrap();
    let write = |name: &'static str| {
        let (db, order) = (db.clone(), order.clone());
        tokio::spawn(async move {
            let mut tx = db.begin_queued_write(name, Duration::from_secs(20)).await.unwrap();
            tx.append_audit(&record(name, 0, None, "success")).await.unwrap();
            tx.commit().await.unwrap();
            order.send(name).unwrap();
        })
    };
    let mut writers: Vec<_> = (0..40).map(|_| write("ada")).collect();
    // After all tasks have run, each has advanced as far as it can.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    writers.push(write("bob"));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(writing);
    for writer in writers {
        writer.await.unwrap();
    }
    let order: Vec<&str> = std::iter::from_fn(|| arrivals.try_recv().ok()).collect();
    let before = order.iter().position(|name| *name == "bob").unwrap();
    assert!(before <= 1, "{before} of ada's wrote before bob");
    // A writer that cannot begin in time gets an error, also if it waits only for writes with the same name.
    let writing = db.begin_queued_write("ada", Duration::from_secs(20)).await.unwrap();
    let refused = db.begin_queued_write("ada", Duration::from_millis(100)).await.map(drop);
    assert!(matches!(refused, Err(DbError::Unavailable(_))), "{refused:?}");
    drop(writing);
    db.begin_queued_write("ada", Duration::from_secs(20)).await.unwrap().commit().await.unwrap();
}
