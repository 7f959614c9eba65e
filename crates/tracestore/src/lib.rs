//! The only crate that talks to ClickHouse: predicates to SQL, selection, reading, discovery.
