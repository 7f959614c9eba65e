//! Several service processes on one PostgreSQL database, and failures of a process or of the database.

mod audit_log;
mod audit_writes;
mod effects;
mod first_start;
mod fleet;
mod kill;
mod lost_commits;
mod outage;
mod races;
pub mod random;
mod retention;
