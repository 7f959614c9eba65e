//! Measures previews of role changes, compared with a hand-written single pass over the same window.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::queries::{Layout, SEARCH_CALLERS};
use crate::bench::interleaved::{self, Effort, Figures, Sample, Variant};
use crate::bench::numbers::grouped;
use crate::bench::targets::Target;
use crate::stack::api::rfc_3339;

/// A change of a role, with the old and the new policy as SQL.
struct Change {
    name: &'static str,
    role: &'static str,
    expression: &'static str,
    before: &'static str,
    after: &'static str,
}

const CHANGES: [Change; 4] = [
    Change {
        name: "70 % of spans, to another environment",
        role: "production",
        expression: r#"ResourceAttributes["deployment.environment"] != "production""#,
        before: "ResourceAttributes['deployment.environment'] = 'production'",
        after: "mapContains(ResourceAttributes, 'deployment.environment') \
                AND ResourceAttributes['deployment.environment'] != 'production'",
    },
    Change {
        name: "one team, to one of two",
        role: "team",
        expression: r#"ResourceAttributes["team"] in ["team-3", "team-4"]"#,
        before: "ResourceAttributes['team'] = 'team-3'",
        after: "ResourceAttributes['team'] IN ('team-3', 'team-4')",
    },
    Change {
        name: "one team, to one service",
        role: "team",
        expression: r#"ServiceName == "service-7""#,
        before: "ResourceAttributes['team'] = 'team-3'",
        after: "ServiceName = 'service-7'",
    },
    Change {
        name: "tenants of two users, to one tenant",
        role: "tenants",
        expression: r#"SpanAttributes["tenant.id"] == "tenant-7""#,
        before: "SpanAttributes['tenant.id'] IN ('tenant-7', 'tenant-8', 'tenant-rare')",
        after: "SpanAttributes['tenant.id'] = 'tenant-7'",
    },
];

/// Measurements of a preview.
pub struct Previewed {
    change: &'static str,
    counts: Counts,
    pass: Figures,
    preview: Figures,
}

/// Numbers of gained, lost and unchanged traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts([u64; 3]);

impl Change {
    /// Returns the statement that counts the traces that the role grants access to before and after, in one pass that groups the
    /// window by trace.
    fn pass(&self, layout: &Layout<'_>) -> String {
        let (table, from, to) = (layout.table, layout.range.from, layout.range.to);
        let (before, after) = (self.before, self.after);
        format!(
            "SELECT countIf(a AND NOT b), countIf(b AND NOT a), countIf(a AND b) FROM (\
             SELECT countIf({before}) > 0 AS b, countIf({after}) > 0 AS a FROM {table} \
             WHERE Timestamp >= fromUnixTimestamp64Nano({from}) AND Timestamp < fromUnixTimestamp64Nano({to}) \
             GROUP BY TraceId)"
        )
    }
}

/// Previews each change in turn with the hand-written pass, and compares the counts.
pub fn measure(bench: &Bench, layout: &Layout<'_>, effort: Effort) -> Result<Vec<Previewed>> {
    let mut measured = Vec::new();
    for change in &CHANGES {
        ensure!(
            SEARCH_CALLERS.iter().any(|search_caller| search_caller.has_role(change.role)),
            "no user has the role `{}`",
            change.role
        );
        let body = json!({
            "role": change.role, "policies": [{"title": change.name, "expression": change.expression}],
            "from": rfc_3339(layout.range.from), "to": rfc_3339(layout.range.to), "seconds": 60,
        });
        let preview = Variant::new("the preview", || {
            let begun = std::time::Instant::now();
            let answer = bench.service.administrator.call("POST", "/policies/preview", Some(&body))?;
            let elapsed = begun.elapsed();
            ensure!(
                answer.pointer("/sampled") == Some(&json!(false)),
                "the preview is an estimate: {answer}"
            );
            let read = |name: &str| number(&answer, &format!("/cost/{name}"));
            Ok(Sample { answer: counts(&answer)?, elapsed, rows: read("rows")?, bytes: read("bytes")? })
        });
        let pass = Variant::handwritten("one pass", &bench.store, change.pass(layout), |lines| {
            let line = lines.into_iter().next().unwrap_or_default();
            let mut found = line.split('\t').map(|count| count.parse().unwrap_or(u64::MAX));
            Counts([(); 3].map(|()| found.next().unwrap_or(u64::MAX)))
        });
        let (answer, figures) = interleaved::measure_agreeing(&mut [pass, preview], effort)?;
        let [pass, preview] = figures.as_slice() else { anyhow::bail!("a contestant is missing") };
        let counts = answer.context("no contestant answered")?;
        let previewed = Previewed { change: change.name, counts, pass: *pass, preview: *preview };
        eprintln!("{}: {:.2} passes", change.name, previewed.passes());
        measured.push(previewed);
    }
    Ok(measured)
}

fn counts(answer: &Value) -> Result<Counts> {
    let of = |name: &str| number(answer, &format!("/traces/{name}"));
    Ok(Counts([of("gained")?, of("lost")?, of("unchanged")?]))
}

fn number(answer: &Value, pointer: &str) -> Result<u64> {
    let found = answer.pointer(pointer).and_then(Value::as_u64);
    found.with_context(|| format!("the answer has no number at `{pointer}`: {answer}"))
}

impl Previewed {
    /// Time of the preview divided by the time of one pass.
    fn passes(&self) -> f64 {
        self.preview.milliseconds / self.pass.milliseconds.max(1e-6)
    }
}

/// Returns the section of the document and its targets.
pub fn markdown(
    spans: u64,
    engine: &str,
    measured: &[Previewed],
    service_memory: u64,
) -> (String, Vec<Target>) {
    let worst = measured.iter().map(Previewed::passes).fold(f64::NAN, f64::max);
    let targets = vec![Target::at_most("preview of a change, times one pass by hand, worst", 3.0, worst)];
    let mut out = format!(
        "## Previews\n\n`POST /policies/preview` over one day of {} spans, ClickHouse {engine}, exact, with \
         collateral access and the cost of a search,\ncompared with one pass by hand that groups the window \
         by trace id and counts the same. Both must give the same counts. All times are\nmedians after a \
         round that fills caches.\n\n",
        grouped(spans)
    );
    out.push_str(&crate::bench::targets::table(&targets));
    out.push_str(
        "\n| change of a role | gained | lost | unchanged | one pass, ms | preview, ms | times | rows read | MB read |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for previewed in measured {
        let Counts([gained, lost, unchanged]) = previewed.counts;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {:.2} | {} | {} |",
            previewed.change,
            grouped(gained),
            grouped(lost),
            grouped(unchanged),
            grouped(previewed.pass.milliseconds as u64),
            grouped(previewed.preview.milliseconds as u64),
            previewed.passes(),
            grouped(previewed.preview.rows),
            grouped(previewed.preview.bytes / 1_000_000),
        );
    }
    let _ = writeln!(
        out,
        "\nNo statement used more memory in ClickHouse than the default of `query_memory`; the service's \
         process used at most {} MB.",
        service_memory / 1_000_000
    );
    (out, targets)
}
