//! A database as a file, and a copy of it that a service may change.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _};
use tracewarden_testkit::postgres::{self, Database, Programs};

use crate::support::Service;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    PostgreSql,
}

impl Kind {
    /// Returns the name of the database file: SQLite's own format, or SQL statements.
    pub fn data(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite.db",
            Self::PostgreSql => "postgresql.sql",
        }
    }

    /// Returns the name of the file with the facts about it.
    pub fn facts(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite.json",
            Self::PostgreSql => "postgresql.json",
        }
    }
}

/// A separate database, removed when dropped.
pub struct Copy {
    pub directory: tempfile::TempDir,
    database: Option<Arc<Database>>,
}

impl Copy {
    pub fn empty(kind: Kind) -> Self {
        let database = (kind == Kind::PostgreSql).then(|| Arc::new(postgres::database().unwrap()));
        Self { directory: tempfile::tempdir().unwrap(), database }
    }

    pub async fn of(kind: Kind, data: &Path) -> Self {
        let copy = Self::empty(kind);
        match kind {
            Kind::Sqlite => drop(std::fs::copy(data, copy.directory.path().join("own.db")).unwrap()),
            Kind::PostgreSql => copy.run(&std::fs::read_to_string(data).unwrap()).await,
        }
        copy
    }

    pub fn url(&self) -> String {
        match &self.database {
            None => format!("sqlite:{}", self.directory.path().join("own.db").display()),
            Some(database) => database.url(),
        }
    }

    /// Starts a service on it.
    pub fn serve(&self, environment: &[(&str, &str)]) -> Service {
        if let Some(database) = &self.database {
            return Service::start_on(database, environment);
        }
        let url = self.url();
        Service::start_with(&[environment, &[("TRACEWARDEN_DATABASE_URL", &url)]].concat())
    }

    /// Runs statements as the owner.
    pub async fn run(&self, statements: &str) {
        sqlx::any::install_default_drivers();
        let mut connection = sqlx::AnyConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Writes it to a file, while no service uses it.
    pub async fn save(&self, data: &Path) {
        if self.database.is_none() {
            return self.run(&format!("VACUUM INTO '{}'", data.display())).await;
        }
        let mut dump = Command::new(Programs::find().unwrap().directory().join("pg_dump"));
        dump.args(["--no-owner", "--no-privileges", "--no-comments", "--inserts", "--dbname", &self.url()]);
        let output = dump.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        // Settings and commands that depend on the version of `pg_dump`.
        let theirs = ["--", "SET ", "\\", "SELECT pg_catalog.set_config"];
        let kept = text
            .lines()
            .filter(|line| !line.is_empty() && !theirs.iter().any(|start| line.starts_with(start)));
        std::fs::write(data, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
}
