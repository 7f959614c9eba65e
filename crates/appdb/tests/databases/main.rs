//! Tests of the application database. Most run on both databases, a few on one of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod access_models;
mod audit;
mod crash;
mod fixture;
mod history;
mod identities;
mod identity;
mod postgres_server;
mod pruning;
mod replicas;
mod schema;
mod sqlite_file;
mod tampering;
