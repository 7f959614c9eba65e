//! `cargo xtask soak clickhouse`: the tests of trace tables, real servers and clusters, on the engine, on the
//! server of the oldest supported version, and on an older one.

use anyhow::Result;
use tracewarden_testkit::clickhouse::{LIBRARY, VERSION};

use super::run_test;
use crate::test::Environment;
use crate::test::clickhouse_server::UNSUPPORTED;

/// Runs the tests on each version. `tries` is the number of searches while servers of a cluster fail.
pub fn run(environment: &Environment, tries: u64, debug: bool) -> Result<()> {
    let target = ["--package", "tracewarden", "--test", "suite"];
    let both = [("TRACEWARDEN_TEST_CLICKHOUSE", "all")];
    run_test(
        &format!("clickhouse: trace tables on the engine and on {VERSION}"),
        &target,
        &["trace_tables::"],
        &both,
        environment,
        debug,
    )?;
    let tries = tries.to_string();
    run_test(
        &format!("clickhouse: servers and clusters of {VERSION}, {tries} searches while servers fail"),
        &target,
        &["real_server::"],
        &[("TRACEWARDEN_TEST_TRIES", &tries)],
        environment,
        debug,
    )?;
    let library = UNSUPPORTED.ensure()?.display().to_string();
    run_test(
        &format!("clickhouse: refusal of {}", UNSUPPORTED.version),
        &target,
        &["real_server::versions::"],
        &[(LIBRARY, &library)],
        environment,
        debug,
    )
}
