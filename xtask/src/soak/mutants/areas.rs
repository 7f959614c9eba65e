//! The code to mutate, and the tests that must detect the mutations.

/// Purpose of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Area {
    /// Translation of policies into predicates and SQL.
    Lowering,
    /// Authentication and authorisation.
    Authorisation,
    /// Audit records.
    Audit,
}

/// Files of one package, and the tests for them.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) files: &'static [&'static str],
    /// Tests in the order in which they run, each for the mutants that survived the previous ones.
    pub(super) tests: &'static [Tests],
}

/// Tests of some packages.
pub(super) struct Tests {
    pub(super) packages: &'static [&'static str],
    /// Cargo arguments that select the test executables to build.
    pub(super) targets: &'static [&'static str],
    /// Nextest filter of the tests to run.
    pub(super) filter: &'static str,
}

const POLICY: &str = "tracewarden-policy";
const STORE: &str = "tracewarden-clickhouse";
const SERVICE: &str = "tracewarden-service";
const DATABASE: &str = "tracewarden-appdb";
const REST: &str = "tracewarden-rest";
const PROGRAM: &str = "tracewarden";

/// All tests of policies and of the SQL that they are translated to.
const POLICIES_AND_SQL: Tests = Tests {
    packages: &[POLICY, STORE],
    targets: &[],
    filter: "package(tracewarden-policy) | test(/^agreement::golden::/)",
};

const LOWERING: &[Part] = &[
    Part {
        name: "lowering-policies",
        files: &[
            "crates/policy/src/lower.rs",
            "crates/policy/src/lower/fields.rs",
            "crates/policy/src/lower/limits.rs",
            "crates/policy/src/lower/operations.rs",
            "crates/policy/src/lower/rules.rs",
            "crates/policy/src/lower/truth.rs",
            "crates/policy/src/lower/values.rs",
            "crates/policy/src/lower/work.rs",
            "crates/policy/src/predicate.rs",
            "crates/policy/src/predicate/join.rs",
            "crates/policy/src/predicate/merge.rs",
            "crates/policy/src/predicate/operands.rs",
            "crates/policy/src/predicate/operators.rs",
            "crates/policy/src/predicate/redundancy.rs",
            "crates/policy/src/predicate/simplify.rs",
            "crates/policy/src/predicate/work.rs",
        ],
        tests: &[
            Tests { packages: &[POLICY], targets: &["--test=suite"], filter: "test(/^simplified_forms::/)" },
            Tests {
                packages: &[POLICY],
                targets: &["--lib", "--test=suite"],
                filter: "(kind(lib) & not test(/^fuzz::/)) | test(/^(lowering|simplify|long_lists)::/)",
            },
            POLICIES_AND_SQL,
        ],
    },
    Part {
        name: "lowering-sql",
        files: &[
            "crates/clickhouse/src/sql/predicates.rs",
            "crates/clickhouse/src/sql/predicates/fields.rs",
            "crates/clickhouse/src/sql/predicates/json.rs",
            "crates/clickhouse/src/sql/predicates/numbers.rs",
        ],
        tests: &[
            Tests {
                packages: &[STORE],
                targets: &["--lib"],
                filter: "test(/^agreement::golden::/) | test(/^sql::predicates::/)",
            },
            Tests {
                packages: &[STORE],
                targets: &["--lib"],
                filter: "test(/^agreement::exhaustive::/) | test(/^agreement::differential::/)",
            },
        ],
    },
];

const AUTHORISATION: &[Part] = &[
    Part {
        name: "authorisation-policies",
        files: &[
            "crates/policy/src/applied.rs",
            "crates/policy/src/authorise.rs",
            "crates/policy/src/compiled.rs",
        ],
        tests: &[
            Tests {
                packages: &[POLICY],
                targets: &["--lib", "--test=suite"],
                filter: "(kind(lib) & not test(/^fuzz::/)) | test(/^(semantics|policy_cache)::/)",
            },
            POLICIES_AND_SQL,
        ],
    },
    Part {
        name: "authorisation-service",
        files: &[
            "crates/service/src/access/preview.rs",
            "crates/service/src/core/access.rs",
            "crates/service/src/core/authentication.rs",
            "crates/service/src/core/authority.rs",
            "crates/service/src/core/principal.rs",
            "crates/service/src/core/tools.rs",
        ],
        tests: SERVICE_TESTS,
    },
    Part { name: "authorisation-database", files: &["crates/appdb/src/callers.rs"], tests: DATABASE_TESTS },
    Part {
        name: "authorisation-routes",
        files: &[
            "crates/rest/src/access.rs",
            "crates/rest/src/cookies.rs",
            "crates/rest/src/cross_site.rs",
            "crates/rest/src/routes.rs",
        ],
        tests: &[
            Tests { packages: &[REST], targets: &["--lib"], filter: "not test(/^fuzz::/)" },
            Tests {
                packages: &[PROGRAM],
                targets: &["--test=api"],
                filter: "test(/^(access|audit|cross_site|document|scoped_keys)::/)",
            },
            Tests {
                packages: &[PROGRAM],
                targets: &["--test=api", "--test=suite"],
                filter: "(binary(api) & not test(/^conformance::/)) | test(/^mcp::/)",
            },
        ],
    },
];

const AUDIT: &[Part] = &[
    Part {
        name: "audit-database",
        files: &[
            "crates/appdb/src/audit.rs",
            "crates/appdb/src/audit_chain.rs",
            "crates/appdb/src/audit_prune.rs",
            "crates/appdb/src/audit_query.rs",
            "crates/appdb/src/audit_record.rs",
            "crates/appdb/src/audit_verify.rs",
        ],
        tests: DATABASE_TESTS,
    },
    Part {
        name: "audit-service",
        files: &[
            "crates/service/src/core/audit.rs",
            "crates/service/src/core/audit_detail.rs",
            "crates/service/src/core/audit_event.rs",
            "crates/service/src/core/audit_log.rs",
            "crates/service/src/core/open_audit_record.rs",
            "crates/service/src/core/rejected_calls.rs",
            "crates/service/src/core/text.rs",
            "crates/service/src/core/tool_call.rs",
            "crates/service/src/traces/span_stream.rs",
        ],
        tests: SERVICE_TESTS,
    },
];

/// SQLite runs first, because the tests on both databases are the same.
const SERVICE_TESTS: &[Tests] = &[
    Tests { packages: &[SERVICE], targets: &["--tests"], filter: "not test(/on_postgresql|^fuzz::/)" },
    Tests { packages: &[SERVICE], targets: &["--tests"], filter: "all()" },
];

const DATABASE_TESTS: &[Tests] = &[
    Tests { packages: &[DATABASE], targets: &["--tests"], filter: "not test(/postgres|^fuzz::/)" },
    Tests { packages: &[DATABASE], targets: &["--tests"], filter: "all()" },
];

impl Area {
    pub(super) const ALL: [Self; 3] = [Self::Lowering, Self::Authorisation, Self::Audit];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lowering => "lowering",
            Self::Authorisation => "authorisation",
            Self::Audit => "audit",
        }
    }

    pub(super) fn parts(self) -> &'static [Part] {
        match self {
            Self::Lowering => LOWERING,
            Self::Authorisation => AUTHORISATION,
            Self::Audit => AUDIT,
        }
    }
}
