//! The service's own data on SQLite or PostgreSQL.
