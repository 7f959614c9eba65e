//! What the service's own data must do on either database: the same tests run on both, and a few on one alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod access_models;
mod audit;
mod crash;
mod fixture;
mod history;
mod identity;
mod postgres_server;
mod pruning;
mod replicas;
mod schema;
mod sqlite_file;
mod tampering;
