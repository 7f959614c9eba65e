//! A database on a PostgreSQL server that several replicas of the service share.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _, Row as _};
use tokio::time::{sleep, timeout};
use url::Url;

use crate::error::{DbError, code, message};

/// Total time-out for acquiring a connection, waiting for other writers, and beginning the transaction.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
/// Time-out for a response. Longer than the server's statement time-out, so that the server's own error arrives first.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time-out at start: a distant server, or one that wakes up for the first connection, needs more time to accept it.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECTIONS_MAX: u32 = 8;
const VERSION_MIN: i64 = 130_000;

/// All modes are explicit, so that the defaults of the server, database or role do not matter.
pub(crate) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// Not a stricter level: the statement that waits for the lock would take the snapshot, which would then show the state
/// before the writers that it waited for.
pub(crate) const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE";
/// Serializes the writers of all replicas. The number is `TRACEWRD` in ASCII. The lock belongs to the database, not to
/// a schema in it.
pub(crate) const WRITER_LOCK: &str = "SELECT pg_advisory_xact_lock(6075990604458185284)";

/// Settings of each session. A replica that hangs while it holds the lock, or vanishes without closing the connection,
/// loses the lock with its session. A replica that waits for the lock gives up. A runaway statement is cancelled. The
/// defaults of the server are unknown, so all settings are explicit. A statement outside a transaction names no
/// isolation level; with a stricter default, concurrent changes could make it fail.
const SESSION_SETTINGS: &str = "SET statement_timeout = '15s'; SET lock_timeout = '2s'; \
                       SET idle_in_transaction_session_timeout = '5s'; SET standard_conforming_strings = on; \
                       SET default_transaction_isolation = 'read committed'; \
                       SELECT set_config('synchronous_commit', 'on', false) \
                       WHERE current_setting('synchronous_commit') = 'off'";

/// Whether a connection is outside a transaction. Inside one, `now()` is the time when it began, and a read transaction
/// has another isolation level than the session. The driver does not know about a transaction whose `BEGIN` was
/// abandoned before the response arrived. The next user of that connection would see its old snapshot and could get
/// access that has since been revoked.
const IS_OUTSIDE_TRANSACTION: &str = "SELECT now() = statement_timestamp() \
                          AND current_setting('transaction_isolation') = 'read committed'";

/// Parameters that the driver understands or that have no effect here. Other parameters are rejected instead of
/// ignored: an operator who writes `channel_binding=require` must not be left without it.
const SUPPORTED_PARAMETERS: &str = "sslmode ssl-mode sslrootcert ssl-root-cert ssl-ca sslcert ssl-cert sslkey ssl-key \
     statement-cache-capacity host hostaddr port dbname user password application_name options";
const IGNORED_PARAMETERS: &str = "connect_timeout client_encoding fallback_application_name gssencmode keepalives \
     keepalives_count keepalives_idle keepalives_interval tcp_user_timeout";

/// Inserts a host into a URL that has a user but no host. Such URLs are common if `host` names the directory of a
/// socket, but they are not valid. Only the authority is changed, not a similar text further on, such as a password in
/// the parameters.
fn with_host(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url.find("@/").map(|at| at + 1);
    let authority = end.and_then(|end| url.get(begin..end));
    match (authority, end.and_then(|end| url.split_at_checked(end))) {
        (Some(authority), Some((before, path))) if !authority.contains(['/', '?', '#']) => {
            format!("{before}localhost{path}")
        }
        _ => url.to_owned(),
    }
}

/// Returns the address in the driver's form. Errors never contain the address, because it may hold a password.
pub(crate) fn address(url: &str) -> Result<String, DbError> {
    let refuse = |reason: String| DbError::Configuration(format!("the PostgreSQL address {reason}"));
    let mut parsed = Url::parse(&with_host(url)).map_err(|error| refuse(format!("is not a URL: {error}")))?;
    // Without `//` the URL has no host, and user and password would be parsed as a path.
    if !matches!(parsed.scheme(), "postgres" | "postgresql") || parsed.cannot_be_a_base() {
        return Err(refuse("does not begin with `postgres://` or `postgresql://`".to_owned()));
    }
    let mut accepted: Vec<(String, String)> = Vec::new();
    for (name, value) in parsed.query_pairs() {
        let is_in = |names: &str| names.split(' ').any(|listed| listed == name);
        let known = is_in(SUPPORTED_PARAMETERS) || name.starts_with("options[");
        let harmless = is_in(IGNORED_PARAMETERS)
            || (name == "channel_binding" && value != "require")
            || (name == "target_session_attrs" && matches!(value.as_ref(), "any" | "read-write" | "primary"));
        if known {
            accepted.push((name.into_owned(), value.into_owned()));
        } else if !harmless {
            return Err(refuse(format!("has a parameter that is not supported: `{name}`")));
        }
    }
    if !accepted.iter().any(|(name, _)| name == "application_name") {
        accepted.push(("application_name".to_owned(), "tracewarden".to_owned()));
    }
    parsed.query_pairs_mut().clear().extend_pairs(accepted);
    Ok(parsed.into())
}

/// Connects to an address from [`address`]. Rejects a server that is not suitable for the service.
pub(crate) async fn connect(address: &str) -> Result<AnyPool, DbError> {
    check_server(address).await?;
    let pool = AnyPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        // Applies to the first connections. Later ones are limited by the time-out of the transaction that needs them.
        .acquire_timeout(START_TIMEOUT)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(SESSION_SETTINGS).await?;
                // After a failover an address may lead to a standby, whose data is outdated.
                let row = connection.fetch_one("SELECT pg_is_in_recovery()").await?;
                if row.try_get::<bool, _>(0)? {
                    return Err(sqlx::Error::Configuration(STANDBY.into()));
                }
                Ok(())
            })
        })
        // Waits for the rollback of a dropped transaction. If the server has vanished, the connection would otherwise
        // keep its slot in the pool until the TCP connection times out.
        .after_release(|connection, _| {
            Box::pin(async move {
                let outside_transaction =
                    async { connection.fetch_one(IS_OUTSIDE_TRANSACTION).await?.try_get::<bool, _>(0) };
                let timed_out = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
                timeout(TIMEOUT, outside_transaction).await.unwrap_or_else(timed_out)
            })
        })
        .connect_lazy(address)?;
    // Two, since one is still being returned to the pool when the next transaction of the start begins.
    drop(tokio::try_join!(pool.acquire(), pool.acquire())?);
    let all_returned = async {
        while pool.num_idle() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, all_returned).await.map_err(|_| not_responding())?;
    Ok(pool)
}

fn not_responding() -> DbError {
    DbError::Unavailable("the PostgreSQL server does not answer".to_owned())
}

const STANDBY: &str =
    "the PostgreSQL server is a standby, which cannot be written to; give the primary's address";

async fn check_server(address: &str) -> Result<(), DbError> {
    let mut connection = timeout(START_TIMEOUT, AnyConnection::connect(address))
        .await
        .map_err(|_| not_responding())?
        .map_err(|error| connect_error(error, address))?;
    let checks = async {
        let row = connection
            .fetch_one(
                "SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_encoding'), \
                 pg_is_in_recovery()",
            )
            .await?;
        let refuse = |reason: String| Err(DbError::Configuration(reason));
        let version = row.try_get::<i64, _>(0)?;
        if version < VERSION_MIN {
            return refuse(format!(
                "the PostgreSQL server is of version {}; 13 or newer is needed",
                version.div_euclid(10_000)
            ));
        }
        let encoding = row.try_get::<String, _>(1)?;
        if encoding != "UTF8" {
            return refuse(format!(
                "the PostgreSQL database has the encoding {encoding}; create it with `ENCODING 'UTF8' TEMPLATE template0`"
            ));
        }
        if row.try_get::<bool, _>(2)? {
            return refuse(STANDBY.to_owned());
        }
        Ok(())
    };
    timeout(START_TIMEOUT, checks).await.map_err(|_| not_responding())??;
    // The checks are done; an error while closing does not matter.
    let _ = timeout(TIMEOUT, connection.close()).await;
    Ok(())
}

/// Converts an error of the first connection. The operator must correct a wrong password, a missing database or a
/// missing certificate; waiting does not help.
fn connect_error(error: sqlx::Error, address: &str) -> DbError {
    if matches!(error, sqlx::Error::Tls(_)) {
        return DbError::Configuration(message(&error));
    }
    match code(&error).as_deref() {
        Some("42501") => {
            let grant = grant_connect(address);
            let advice = grant.map_or_else(String::new, |grant| format!(" (as the owner, run `{grant}`)"));
            DbError::Configuration(message(&error) + &advice)
        }
        Some(code) if code.starts_with("28") || code == "3D000" => DbError::Configuration(message(&error)),
        _ => DbError::from(error),
    }
}

/// Returns the statement that grants `CONNECT`. Other missing privileges are read from the server's catalogues, which
/// are not accessible without `CONNECT`.
fn grant_connect(address: &str) -> Option<String> {
    let options = PgConnectOptions::from_str(address).ok()?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let role = options.get_username();
    let database = options.get_database().unwrap_or(role);
    Some(format!("GRANT CONNECT ON DATABASE {} TO {}", quoted(database), quoted(role)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let given = |url: &str| address(url).map_err(|error| error.to_string());
        assert_eq!(
            given("postgres://u:p%40@h:1/d").unwrap(),
            "postgres://u:p%40@h:1/d?application_name=tracewarden"
        );
        let accepted = "postgresql://u@h/d?sslmode=verify-full&sslrootcert=%2Fca.pem&application_name=mine";
        assert_eq!(given(accepted).unwrap(), accepted);
        assert_eq!(
            given("postgres://u@/d?host=/run/postgresql&connect_timeout=3&channel_binding=prefer").unwrap(),
            "postgres://u@localhost/d?host=%2Frun%2Fpostgresql&application_name=tracewarden"
        );
        let in_password = "postgres://u@h/d?password=a@/b&application_name=mine";
        let accepted = "postgres://u@h/d?password=a%40%2Fb&application_name=mine";
        assert_eq!(given(in_password).unwrap(), accepted);
        for url in [
            "postgres://u:secret@h/d?channel_binding=require",
            "postgres://u:secret@h/d?target_session_attrs=standby",
            "postgres://u:secret@h/d?sslcrl=x",
            "postgres://u:secret@h:notaport/d",
            "postgres://u:secret@a:1,b:2/d",
            "postgres:u:secret@h/d",
            "mysql://u:secret@h/d",
        ] {
            let error = given(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    /// Proxies connections to the server, each after a pause.
    async fn slow_proxy(server: String, pause: Duration) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let server = server.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    let mut upstream = tokio::net::TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn slow_connections_are_awaited_at_startup() {
        let database = tracewarden_testkit::postgres::database().unwrap();
        let url = database.url();
        let server = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let proxy = slow_proxy(server.to_owned(), TIMEOUT + Duration::from_secs(1)).await;
        let url = url.replace(server, &proxy.to_string());
        let db = crate::AppDb::open(&url, tracewarden_model::Timestamp::from_micros(0)).await.unwrap();
        db.ping().await.unwrap();
    }

    #[tokio::test]
    async fn errors_contain_the_message_of_the_server() {
        let database = tracewarden_testkit::postgres::database().unwrap();
        sqlx::any::install_default_drivers();
        let error = connect(&address(&format!("{}_absent", database.url())).unwrap()).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, DbError::Configuration(_)), "{text}");
        assert!(text.ends_with("_absent\" does not exist"), "{text}");
    }

    #[tokio::test]
    async fn sessions_do_not_rely_on_server_defaults() {
        let database = tracewarden_testkit::postgres::database().unwrap();
        let parts = database.url();
        let name = parts.rsplit('/').next().unwrap().to_owned();
        let current_setting = async |setting: &str| {
            sqlx::any::install_default_drivers();
            let pool = connect(&address(&database.url()).unwrap()).await.unwrap();
            let row = sqlx::query("SELECT current_setting($1)").bind(setting).fetch_one(&pool).await.unwrap();
            row.try_get::<String, _>(0).unwrap()
        };
        for (given, expected) in [("off", "on"), ("remote_apply", "remote_apply"), ("local", "local")] {
            database.run(&[&format!("ALTER DATABASE {name} SET synchronous_commit = {given}")]).unwrap();
            assert_eq!(current_setting("synchronous_commit").await, expected);
        }
        for (setting, given, expected) in [
            ("statement_timeout", "0", "15s"),
            ("lock_timeout", "0", "2s"),
            ("idle_in_transaction_session_timeout", "0", "5s"),
            ("client_encoding", "LATIN1", "UTF8"),
            ("default_transaction_isolation", "serializable", "read committed"),
            ("application_name", "x", "tracewarden"),
        ] {
            database.run(&[&format!("ALTER DATABASE {name} SET {setting} = '{given}'")]).unwrap();
            assert_eq!(current_setting(setting).await, expected);
        }
        database.run(&[&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")]).unwrap();
        crate::AppDb::open(&database.url(), tracewarden_model::Timestamp::from_micros(0)).await.unwrap();
    }
}
