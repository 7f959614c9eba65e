//! An empty database of either kind, and test data.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};
use tracewarden_appdb::{AppDb, DbError, NewAuditRecord, PasswordHash, User};
use tracewarden_model::{AttributeValue, Timestamp};
use tracewarden_testkit::postgres;

pub enum Fixture {
    Sqlite { _directory: tempfile::TempDir, path: std::path::PathBuf },
    Postgres(postgres::Database),
}

impl Fixture {
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own data&#%.db");
        Self::Sqlite { _directory: directory, path }
    }

    pub fn postgres() -> Self {
        Self::Postgres(postgres::database().unwrap())
    }

    pub fn url(&self) -> String {
        match self {
            Self::Sqlite { path, .. } => format!("sqlite:{}", path.display()),
            Self::Postgres(database) => database.url(),
        }
    }

    pub async fn open(&self) -> AppDb {
        AppDb::open(&self.url(), at(0)).await.unwrap()
    }

    /// Connects directly to the database, bypassing the service, as a user with access to the database could.
    pub async fn connect(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        let url = match self {
            Self::Sqlite { path, .. } => {
                format!("sqlite://{}", path.display().to_string().replace('%', "%25").replace('#', "%23"))
            }
            Self::Postgres(database) => database.url(),
        };
        AnyConnection::connect(&url).await.unwrap()
    }

    /// Runs statements that bypass the service. Creates the SQLite file if necessary.
    pub async fn run(&self, statements: &[&str]) {
        match self {
            Self::Sqlite { path, .. } => {
                std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
                let mut other = self.connect().await;
                for statement in statements {
                    other.execute(AssertSqlSafe((*statement).to_owned())).await.unwrap();
                }
                other.close().await.unwrap();
            }
            Self::Postgres(database) => {
                let owner = format!("SET ROLE {}", postgres::ROLE);
                database.run(&[&[owner.as_str()], statements].concat()).unwrap();
            }
        }
    }
}

/// Declares each test for both databases: `sqlite::NAME` and `postgres::NAME`.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test] async fn $name() { super::$name(&crate::fixture::Fixture::sqlite()).await; })+
        }
        mod postgres {
            $(#[tokio::test] async fn $name() { super::$name(&crate::fixture::Fixture::postgres()).await; })+
        }
    };
}
pub(crate) use on_both;

pub const fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub fn attributes() -> BTreeMap<String, AttributeValue> {
    BTreeMap::from([
        ("team".to_owned(), AttributeValue::String("pay\"ments'; --".to_owned())),
        ("lead".to_owned(), AttributeValue::Bool(true)),
        ("tenants".to_owned(), AttributeValue::Strings(vec!["a".to_owned(), "ü\n".to_owned()])),
        ("none".to_owned(), AttributeValue::Strings(Vec::new())),
    ])
}

pub fn record<'a>(
    action: &'a str,
    time: i64,
    completes: Option<u64>,
    outcome: &'a str,
) -> NewAuditRecord<'a> {
    NewAuditRecord {
        completes,
        at: at(time),
        actor_id: Some("u1"),
        actor_name: Some("Ada"),
        credential_id: None,
        via: "session",
        action,
        outcome,
        request_id: "r1",
        client_ip: Some("192.0.2.1"),
        user_agent: None,
        target: None,
        detail: "{}",
    }
}

pub async fn add_user(db: &AppDb, id: &str, name: &str, roles: &[&str]) -> Result<(), DbError> {
    let mut tx = db.begin_write().await?;
    tx.insert_user(&User {
        id: id.to_owned(),
        username: name.to_owned(),
        password_hash: PasswordHash("$argon2id$x".to_owned()),
        must_change_password: true,
        disabled: false,
        created_at: at(10),
        last_login_at: None,
        attributes: attributes(),
        roles: set(roles),
        identity: None,
        service: None,
    })
    .await?;
    tx.commit().await
}
