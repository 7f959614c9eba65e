//! A server that stops, hangs, or is not suitable for the service; and values that it cannot store.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tracewarden_appdb::{AppDb, DbError};
use tracewarden_model::AccessModel;
use tracewarden_testkit::postgres::{self, Server, Stop};

use crate::fixture::{add_user, at, record};

async fn role_exists(db: &AppDb, name: &str) -> Result<bool, DbError> {
    Ok(db.begin_read().await?.role(name).await?.is_some())
}

async fn put_role(db: &AppDb, name: &str) -> Result<(), DbError> {
    let mut tx = db.begin_write().await?;
    tx.put_role(name, &[], at(1)).await?;
    tx.commit().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovered_server_is_used_at_once() {
    for (how, is_change) in
        [(Stop::Fast, true), (Stop::Fast, false), (Stop::Immediate, true), (Stop::Immediate, false)]
    {
        let mut server = Server::start().unwrap();
        let database = server.database().unwrap();
        let db = AppDb::open(&database.url(), at(0)).await.unwrap();
        put_role(&db, "kept").await.unwrap();
        // Uses all connections of the pool, so that the first calls afterwards get dead connections.
        let mut open = Vec::new();
        for _ in 0..8 {
            open.push(db.begin_read().await.unwrap());
        }
        drop(open);
        let mut reading = db.begin_read().await.unwrap();
        reading.roles().await.unwrap();
        let (mut change, mut append) = (None, None);
        if is_change {
            let writing = change.insert(db.begin_write().await.unwrap());
            writing.put_role("lost", &[], at(1)).await.unwrap();
        } else {
            let writing = append.insert(db.begin_append().await.unwrap());
            writing.append_audit(&[record("lost", 1, None, "success")]).await.unwrap();
        }
        tokio::task::block_in_place(|| server.stop(how));

        let error = reading.roles().await.unwrap_err();
        assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
        if let Some(writing) = change {
            // The statement before the commit fails.
            let error = writing.commit().await.unwrap_err();
            assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
        }
        if let Some(writing) = append {
            let error = writing.commit().await.unwrap_err();
            assert!(matches!(error, DbError::OutcomeUnknown(_)), "{error:?}");
        }
        drop(reading);
        let (read, write, ping) = tokio::join!(role_exists(&db, "kept"), put_role(&db, "never"), db.ping());
        for error in [read.unwrap_err(), write.unwrap_err(), ping.unwrap_err()] {
            assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
        }

        tokio::task::block_in_place(|| server.resume()).unwrap();
        let calls: Vec<_> = (0..20)
            .map(|number| {
                let db = db.clone();
                tokio::spawn(async move {
                    if number % 4 == 0 {
                        put_role(&db, "after").await
                    } else {
                        role_exists(&db, "kept").await.map(drop)
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert!(role_exists(&db, "kept").await.unwrap());
        assert!(!role_exists(&db, "lost").await.unwrap() && !role_exists(&db, "never").await.unwrap());
    }
}

#[tokio::test]
async fn a_replica_that_hangs_loses_the_lock_and_its_change() {
    let database = postgres::database().unwrap();
    let hanging = AppDb::open(&database.url(), at(0)).await.unwrap();
    let other = AppDb::open(&database.url(), at(0)).await.unwrap();
    let mut tx = hanging.begin_write().await.unwrap();
    tx.put_role("hanging", &[], at(1)).await.unwrap();
    let error = put_role(&other, "other").await.unwrap_err();
    assert!(matches!(error, DbError::Unavailable(_)), "the wait is bounded: {error:?}");
    let mut attempts = 0;
    while let Err(error) = put_role(&other, "other").await {
        assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
        attempts += 1;
        assert!(attempts < 10, "the lock is never given back");
    }
    assert!(tx.commit().await.is_err(), "too late");
    assert!(!role_exists(&other, "hanging").await.unwrap());
    assert!(role_exists(&hanging, "other").await.unwrap(), "its other connections go on");
}

#[tokio::test]
async fn values_that_cannot_be_stored_are_not_an_outage() {
    let database = postgres::database().unwrap();
    let db = AppDb::open(&database.url(), at(0)).await.unwrap();
    let error = add_user(&db, "u1", "a\0b", &[]).await.unwrap_err();
    assert!(matches!(error, DbError::Value(_)), "{error:?}");
    let error = db.begin_read().await.unwrap().user_by_name("\0").await.unwrap_err();
    assert!(matches!(error, DbError::Value(_)), "{error:?}");
    db.ping().await.unwrap();
}

/// Polls a call at most `polls` times and then drops it: right after the last poll, or (`when_woken`) once the next
/// response has arrived. Timers have a resolution of milliseconds and cannot interrupt a call between such short steps.
async fn drop_after_polls<T>(call: impl Future<Output = T>, polls: usize, when_woken: bool) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 && !when_woken => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_behind() {
    let database = postgres::database().unwrap();
    let db = AppDb::open(&database.url(), at(0)).await.unwrap();
    for when_woken in [false, true] {
        let (mut finished, mut given_up) = (0, 0);
        // Continues until several calls have completed: not all calls take the same number of steps.
        for polls in 0.. {
            let name = format!("w{polls}{when_woken}");
            match drop_after_polls(put_role(&db, &name), polls, when_woken).await {
                Some(done) => {
                    done.unwrap();
                    finished += 1;
                }
                None => given_up += 1,
            }
            if let Some(read) = drop_after_polls(role_exists(&db, "admin"), polls / 2, when_woken).await {
                read.unwrap();
            }
            if finished == 10 {
                break;
            }
        }
        // At least before it begins, and while it waits for the server. Responses that arrive together take one step.
        assert!(given_up >= 2, "{given_up} were given up");
    }
    put_role(&db, "after").await.unwrap();
    assert!(role_exists(&db, "after").await.unwrap());
    let mut all = Vec::new();
    for _ in 0..7 {
        all.push(db.begin_read().await.unwrap());
    }
    let idle = database
        .run(&["SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'"])
        .unwrap();
    assert_eq!(idle.trim(), "7", "only the open connections");
}

#[tokio::test]
async fn unsuitable_servers_are_refused() {
    let database = postgres::database().unwrap();
    let url = database.url();
    database
        .run(&["CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"])
        .unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let opened = [
        (AppDb::open(&format!("{server}/latin"), at(0)).await, "the encoding LATIN1"),
        (AppDb::open(&format!("{server}/absent"), at(0)).await, "\"absent\" does not exist"),
        (AppDb::open(&url.replacen("canary", "wrong", 1), at(0)).await, "password authentication failed"),
        (AppDb::open(&format!("{url}?channel_binding=require"), at(0)).await, "`channel_binding`"),
        (AppDb::open(&format!("{url}?sslmode=require"), at(0)).await, "server does not support TLS"),
    ];
    database.run(&["DROP DATABASE latin WITH (FORCE)"]).unwrap();
    for (opened, reason) in opened {
        let error = opened.err().unwrap();
        assert!(matches!(error, DbError::Configuration(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(reason) && !text.contains("canary"), "{text}");
    }
}

/// Delay of responses from [`delaying_proxy`].
const RESPONSE_DELAY: Duration = Duration::from_millis(20);

/// Proxies connections to a server and delays its responses.
async fn delaying_proxy(server: String) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut client_reader, mut client_writer) = client.into_split();
            let (mut server_reader, mut server_writer) =
                TcpStream::connect(&server).await.unwrap().into_split();
            tokio::spawn(async move { tokio::io::copy(&mut client_reader, &mut server_writer).await });
            tokio::spawn(async move {
                let mut part = vec![0; 64 << 10];
                while let Ok(length @ 1..) = server_reader.read(&mut part).await {
                    tokio::time::sleep(RESPONSE_DELAY).await;
                    if client_writer.write_all(&part[..length]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

/// A snapshot whose caller has gone must not be reused by later callers, who could get access that has since been
/// revoked.
#[tokio::test]
async fn an_abandoned_begin_exposes_no_stale_data() {
    let database = postgres::database().unwrap();
    let url = database.url();
    let replica = AppDb::open(&url, at(0)).await.unwrap();
    let server = url.split('@').nth(1).unwrap().split('/').next().unwrap();
    let url = url.replace(server, &delaying_proxy(server.to_owned()).await.to_string());
    let db = AppDb::open(&url, at(0)).await.unwrap();
    // Two at once, since there are two connections.
    let read_versions = async || {
        let reads = (0..2).map(|_| async { db.access_model().await.unwrap().version });
        futures::future::join_all(reads).await
    };
    for version in 0..3 {
        // The first response confirms the connection, the second one that the snapshot has begun.
        assert!(timeout(RESPONSE_DELAY * 3 / 2, db.begin_read()).await.is_err());
        // The response has arrived, and the connection is back in the pool.
        tokio::time::sleep(RESPONSE_DELAY * 5).await;
        assert_eq!(read_versions().await, [version; 2]);
        let mut tx = replica.begin_write().await.unwrap();
        let model = AccessModel { version: version + 1, ..AccessModel::default() };
        tx.insert_access_model(&model, at(1), ("u1", "Ada")).await.unwrap();
        tx.commit().await.unwrap();
        // The connections just used are back in the pool, too; otherwise the pool would open new ones.
        tokio::time::sleep(RESPONSE_DELAY * 5).await;
        assert_eq!(read_versions().await, [version + 1; 2], "the replaced version");
        assert_eq!(db.begin_read().await.unwrap().access_model().await.unwrap(), model);
    }
}
