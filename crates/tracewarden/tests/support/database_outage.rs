//! Makes the application database temporarily unavailable.

use std::time::{Duration, Instant};

use sqlx::{AnyConnection, Connection as _};
use tracewarden_testkit::postgres::Database;

use super::Service;

/// The service's advisory lock; `crates/appdb/src/postgres.rs` defines its number.
const LOCK: &str = "SELECT pg_advisory_lock(6075990604458185284)";
const UNLOCK: &str = "SELECT pg_advisory_unlock(6075990604458185284)";

/// Maximum time until the service is ready after its database is.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// Another client that holds the write lock of the application database. Reads still work.
pub struct OtherWriter {
    connection: AnyConnection,
    end: &'static str,
}

impl OtherWriter {
    pub async fn begin(service: &Service) -> Self {
        sqlx::any::install_default_drivers();
        let mut connection = AnyConnection::connect(&service.database_url()).await.unwrap();
        let (begin, end) = match service.database {
            None => ("BEGIN EXCLUSIVE", "ROLLBACK"),
            Some(_) => (LOCK, UNLOCK),
        };
        sqlx::query(begin).execute(&mut connection).await.unwrap();
        Self { connection, end }
    }

    pub async fn end(mut self) {
        sqlx::query(self.end).execute(&mut self.connection).await.unwrap();
        self.connection.close().await.unwrap();
    }
}

impl Service {
    /// Makes the database server reject the service, and closes the service's connections.
    pub fn reject_connections(&self) {
        let database = self.database.as_ref().unwrap();
        let others = "FROM pg_stat_activity WHERE datname = current_database() \
                      AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let end = format!("SELECT count(pg_terminate_backend(pid)) {others}");
        let left = format!("SELECT count(*) {others}");
        database.run(&[&connections(database, 0), &end]).unwrap();
        let begun = Instant::now();
        while database.run(&[&left]).unwrap() != "0" {
            assert!(begun.elapsed() < Duration::from_secs(10), "connections to the database do not end");
        }
    }

    /// Makes the database server accept the service again.
    pub fn accept_connections(&self) {
        let database = self.database.as_ref().unwrap();
        database.run(&[&connections(database, -1)]).unwrap();
    }

    /// Waits until the service is ready again, which must be soon.
    pub async fn wait_until_ready(&self) {
        let begun = Instant::now();
        while self.anonymous().get("/readyz").await.status != 200 {
            assert!(begun.elapsed() < BACK_WITHIN, "the service does not recover");
        }
        // The answer itself may have taken longer.
        assert!(begun.elapsed() < BACK_WITHIN, "the service recovered after {:?}", begun.elapsed());
    }
}

/// Returns the statement that limits connections of non-superusers; -1 is unlimited.
fn connections(database: &Database, number: i32) -> String {
    let url = database.url();
    let name = url.rsplit('/').next().unwrap();
    format!("ALTER DATABASE {name} CONNECTION LIMIT {number}")
}
