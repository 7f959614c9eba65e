//! Response times of "not found". This is a separate binary, so that no other test runs concurrently and disturbs the
//! measurement.

mod not_found;
