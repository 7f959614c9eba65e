//! Measures collateral access: services that a role shows only because traces are shown whole.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Bench, Measured, Part, STEP};
use crate::bench::conditions::cells::CALLERS;
use crate::bench::conditions::data::{TABLE, quoted};
use crate::bench::conditions::handwritten::Window;
use crate::bench::interleaved::{SETTINGS, Sample};

pub fn measure(bench: &Bench<'_>, measured: &mut Vec<Measured>) -> Result<()> {
    // Only callers with a single role that has a policy: what that role shows equals what the caller sees.
    for access in CALLERS.iter().filter(|access| access.caller.roles.len() == 1) {
        let (Some((role, _)), Some(policy)) = (access.caller.roles.first(), access.sql) else { continue };
        let window = |round: usize| Window::last(86_400, round as u64 * STEP);
        measured.extend(bench.compare(
            Part::Collateral,
            access,
            "collateral access by service, 24 h",
            |round| {
                let reply = bench.environment.store.ask(&handwritten(policy, window(round)), SETTINGS)?;
                let (rows, bytes) = reply.read()?;
                Ok(Sample { answer: reply.lines()?, elapsed: reply.elapsed, rows, bytes })
            },
            |round| {
                let [from, to] = window(round).rfc_3339();
                let body = json!({"role": role, "from": from, "to": to, "seconds": 60});
                let begun = Instant::now();
                let answer = bench.environment.service.administrator.call(
                    "POST",
                    "/policies/collateral-access",
                    Some(&body),
                )?;
                let elapsed = begun.elapsed();
                ensure!(answer.get("sampled") == Some(&json!(false)), "the answer is an estimate");
                let counts = ["traces", "distinct", "only_shared"].map(|name| {
                    let count = answer.get(name).and_then(Value::as_u64);
                    count.map(|count| count.to_string()).with_context(|| format!("no `{name}`: {answer}"))
                });
                let counts = counts.into_iter().collect::<Result<Vec<_>>>()?;
                Ok((vec![counts.join("\t")], elapsed))
            },
        )?);
    }
    Ok(())
}

/// Returns the statement that counts the visible traces, the distinct services in them, and the services of which no span
/// satisfies the policy.
fn handwritten(policy: &str, window: Window) -> String {
    let (table, around_window, in_window) = (quoted(TABLE), window.around_window(), window.in_window());
    format!(
        "WITH visible AS (SELECT TraceId FROM {table} WHERE {around_window} GROUP BY TraceId \
         HAVING countIf({in_window}) > 0 AND countIf({policy}) > 0) \
         SELECT (SELECT count() FROM visible), count(), countIf(NOT satisfied) FROM (\
         SELECT ServiceName, max({policy}) AS satisfied FROM {table} \
         WHERE {around_window} AND TraceId IN (SELECT TraceId FROM visible) GROUP BY ServiceName)"
    )
}
