//! The application database on SQLite or PostgreSQL, with the same statements: users, roles, sessions, API keys, the
//! access model, the audit log. Several processes may share one PostgreSQL database.
//!
//! Repository values are transactions: [`ReadTx`] is one consistent snapshot, [`WriteTx`] changes nothing until it is
//! committed, and [`AppendTx`] can only append to the audit log and record times of last use. A row that cannot be read
//! in full is an error, never a default, so that access decisions fail closed.
//!
//! Every method can fail with [`DbError::Unavailable`] when the database does, and with [`DbError::Corrupt`] when it
//! reads rows. The methods document other errors only.

mod access_models;
mod api_keys;
mod audit;
mod audit_chain;
mod audit_prune;
mod audit_query;
mod audit_record;
mod audit_verify;
mod backend;
mod callers;
mod database;
mod documents;
mod error;
mod fair_queue;
#[cfg(test)]
mod fuzz;
mod history;
mod history_pages;
mod identities;
mod inspect;
mod metrics;
mod migrations;
mod postgres;
mod records;
mod refresh_tokens;
mod roles;
mod row_batches;
mod rows;
mod secrets;
mod sessions;
mod sqlite;
mod statements;
mod throttles;
mod transactions;
mod users;
mod values;

pub use access_models::CurrentModel;
pub use audit_chain::GENESIS_HASH;
pub use audit_prune::{AUDIT_PRUNE, PrunedAudit};
pub use audit_query::{AuditFilter, AuditRecord};
pub use audit_record::NewAuditRecord;
pub use audit_verify::{AuditPosition, AuditRemoval, ChainFault, VerifiedAudit};
pub use database::AppDb;
pub use error::DbError;
pub use history::{Change, ModelState, NewChange};
pub use history_pages::WrittenRoles;
pub use identities::{Identities, IdentitiesMut, Logout, NewIdentity, StoredClaims};
pub use inspect::{DbInspection, SchemaState};
pub use records::{
    ADMIN_ROLE, ApiKey, AttributeKinds, KnownAttributes, MappedAttributes, PasswordHash, Policy, Preview,
    Role, ServiceAccount, Session, Throttle, TokenDigest, User, UserIdentity, fold_username,
};
pub use refresh_tokens::ClaimedRefreshToken;
pub use transactions::{AppendTx, Epoch, ReadTx, WriteTx};
