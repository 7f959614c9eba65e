//! Response times of "not found". `.config/nextest.toml` runs these tests alone, so that no other disturbs the measurement.

mod not_found;
