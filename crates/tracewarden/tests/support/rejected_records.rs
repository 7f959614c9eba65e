//! Makes the application database reject audit records, as with a full disk.

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

use super::Service;

/// Which records are rejected.
#[derive(Debug, Clone, Copy)]
pub enum RejectedRecords {
    /// All records: no operation can begin.
    All,
    /// Completions of records: no operation can end.
    Completions,
}

impl RejectedRecords {
    fn condition(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Completions => "WHEN (NEW.completes IS NOT NULL)",
        }
    }
}

impl Service {
    /// Rejects records from now on.
    pub async fn reject_records(&self, refused: RejectedRecords) {
        let condition = refused.condition();
        match &self.database {
            None => {
                let trigger = format!(
                    "CREATE TRIGGER refuse BEFORE INSERT ON audit {condition} \
                     BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
                );
                self.on_sqlite(&trigger).await;
            }
            Some(database) => {
                let function = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                                $$ BEGIN RAISE 'no space left on device' USING ERRCODE = 'disk_full'; END $$";
                let trigger = format!(
                    "CREATE TRIGGER refuse BEFORE INSERT ON audit FOR EACH ROW {condition} \
                     EXECUTE FUNCTION refuse()"
                );
                database.run(&[function, &trigger]).unwrap();
            }
        }
    }

    /// Accepts records again.
    pub async fn accept_records(&self) {
        match &self.database {
            None => self.on_sqlite("DROP TRIGGER refuse").await,
            Some(database) => {
                database.run(&["DROP TRIGGER refuse ON audit"]).unwrap();
            }
        }
    }

    async fn on_sqlite(&self, statement: &str) {
        let mut database = SqliteConnection::connect(&self.database_url()).await.unwrap();
        database.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }
}
