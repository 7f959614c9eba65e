//! The API tests that depend on the application database (users, sessions, API keys, roles, audit) with PostgreSQL: the
//! same as with SQLite, and some for a database server only. The name of this binary selects the database.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod database_outage;

#[path = "../api/access.rs"]
mod access;
#[path = "../api/advice.rs"]
mod advice;
#[path = "../api/api_keys.rs"]
mod api_keys;
#[path = "../api/audit.rs"]
mod audit;
#[path = "../api/conformance.rs"]
mod conformance;
#[path = "../api/cross_site.rs"]
mod cross_site;
#[path = "../api/document.rs"]
mod document;
#[path = "../api/every_operation.rs"]
mod every_operation;
#[path = "../api/headers.rs"]
mod headers;
#[path = "../api/me.rs"]
mod me;
#[path = "../api/preview.rs"]
mod preview;
#[path = "../api/roles.rs"]
mod roles;
#[path = "../api/round_trips.rs"]
mod round_trips;
#[path = "../api/scoped_keys.rs"]
mod scoped_keys;
#[path = "../api/session.rs"]
mod session;
#[path = "../api/users.rs"]
mod users;
