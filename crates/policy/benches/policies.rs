//! Measures the CPU time that policies take: checking one, and authorising a caller. Prints a table. Run it with
//! `cargo xtask bench policy`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tracewarden_model::{
    AccessModel, AttributeValue, Caller, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField,
};
use tracewarden_policy::{CompiledPolicies, Diagnostic, RolePolicy, authorise, check};

const TYPICAL: &str = "SpanAttributes[\"tenant.id\"] in user.attributes.tenants && \
    (ServiceName == \"checkout\" || ServiceName.startsWith(\"payments-\")) && !(SpanAttributes[\"env\"] == \"prod\")";

fn model() -> AccessModel {
    let column = |name: &str, logical, kind: &str| MarkedField {
        field: FieldRef::column(name),
        source: FieldSource::Column,
        logical,
        column_type: ColumnType::parse(kind),
        filterable: true,
        policy: true,
        column: None,
    };
    let key = |name: String| MarkedField {
        field: FieldRef::key("SpanAttributes", name),
        source: FieldSource::MapKey,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: None,
    };
    let named = ["env", "tenant.id", "team"].map(str::to_owned);
    let mut fields = vec![
        column("ServiceName", LogicalType::String, "LowCardinality(String)"),
        column("SpanName", LogicalType::String, "LowCardinality(String)"),
        column("Sampled", LogicalType::Boolean, "Bool"),
        column("Events.Name", LogicalType::StringArray, "Array(LowCardinality(String))"),
    ];
    fields.extend(named.into_iter().chain((0..200).map(|number| format!("key.{number}"))).map(key));
    AccessModel { version: 1, binding: None, fields }
}

fn caller() -> Caller {
    let list = |count: u32, name: &str| {
        AttributeValue::Strings((0..count).map(|number| format!("{name}-{number}")).collect())
    };
    Caller {
        username: "ada".to_owned(),
        roles: (0..20).map(|number| format!("role-{number}")).collect(),
        attributes: [
            ("team".to_owned(), AttributeValue::String("payments".to_owned())),
            ("tenants".to_owned(), list(8, "tenant")),
            ("many".to_owned(), list(10_000, "team")),
        ]
        .into(),
    }
}

/// Returns one of five kinds of policy, slightly different for each role.
fn policy(role: u32, number: u32) -> String {
    match number % 5 {
        0 => TYPICAL.replace("checkout", &format!("checkout-{role}")),
        1 => format!("ServiceName == \"service-{role}\" && SpanAttributes[\"team\"] == user.attributes.team"),
        2 => {
            format!("\"role-{role}\" in user.roles && SpanAttributes[\"env\"] in [\"dev\", \"test-{role}\"]")
        }
        3 => format!("has(SpanAttributes.env) ? SpanAttributes.env != \"prod\" : SpanName == \"job-{role}\""),
        _ => format!("Events.Name.exists(e, e.startsWith(\"audit.{role}\")) && Sampled"),
    }
}

/// Returns a policy close to the size limits.
fn large() -> String {
    let parts: Vec<String> = (0..90)
        .map(|number| format!("SpanAttributes[\"key.{number}\"] == \"value {number}\" && Sampled"))
        .collect();
    parts.join(" || ")
}

/// Returns the CPU time of the whole process, because checks run on a thread of their own.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Prints the median and the 99th percentile of the CPU time of one run, in microseconds.
fn measure(what: &str, runs: usize, mut work: impl FnMut() -> Result<(), Vec<Diagnostic>>) -> bool {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let before = processor_time();
        if let Err(diagnostics) = work() {
            eprintln!("{what}: {diagnostics:?}");
            return false;
        }
        times.push(processor_time().saturating_sub(before));
    }
    times.sort();
    let at = |share: usize| times.get((runs * share / 100).min(runs - 1)).map_or(0, Duration::as_micros);
    println!("| {what} | {} | {} |", at(50), at(99));
    true
}

fn main() -> std::process::ExitCode {
    let (model, caller) = (model(), caller());
    let texts: Vec<String> =
        (0..20).flat_map(|role| (0..5).map(move |number| policy(role, number))).collect();
    let policies = || texts.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
    let authorised = |compiled: &CompiledPolicies| {
        authorise(policies(), None, &caller, &model, compiled).map(drop).map_err(|broken| broken.diagnostics)
    };
    let long = "user.attributes.many.exists(x, SpanAttributes[\"team\"].startsWith(x))";
    let long = [RolePolicy { role: "r", title: "t", expression: long }];
    let compiled = CompiledPolicies::new();
    let large = large();
    println!("| processor time, µs | median | 99th percentile |\n|---|---|---|");
    let fine = measure("checking a typical policy", 3_000, || check(TYPICAL, &model).map(drop))
        && measure("checking a policy of 90 alternatives", 300, || check(&large, &model).map(drop))
        && measure("authorising, 20 roles of 5 policies, none compiled before", 100, || {
            authorised(&CompiledPolicies::new())
        })
        && measure("authorising, 20 roles of 5 policies, all compiled before", 3_000, || {
            authorised(&compiled)
        })
        && measure("authorising, a macro over the caller's list of 10,000", 300, || {
            authorise(long, None, &caller, &model, &compiled).map(drop).map_err(|broken| broken.diagnostics)
        });
    if fine { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
