//! Measures the time to plan and apply a whole access model, in the release profile.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Section;
use super::targets::{self, Target};
use crate::engine;
use crate::programs::Profile;
use crate::stack::api::{Client, expect, list};
use crate::stack::{self, Stack, interrupt, trace_source};

/// Size of the model: an installation with many teams.
const ROLES: usize = 200;
const POLICIES_OF_A_ROLE: usize = 5;
const FIELDS: usize = 20;
/// Number of runs of each request; the median is reported.
const ROUNDS: usize = 9;

struct Row {
    name: &'static str,
    times: Vec<Duration>,
}

/// Starts the service, measures planning and applying models, and returns the section of the document.
pub fn section() -> Result<Section> {
    let (engine, binaries) = (engine::ensure()?, stack::build(Profile::Release)?);
    let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
    let mut stack = Stack::start(&binaries, &engine, directory.path(), &[])?;
    let measured = measure(&mut stack);
    stack.check()?;
    stack.stop()?;
    let (rows, bytes) = measured?;
    let slowest = |what: &str| {
        let of = rows.iter().filter(|row| row.name.starts_with(what)).map(Row::median);
        of.fold(0.0, f64::max)
    };
    let targets = vec![Target::at_most("plan of 1,000 policies, ms, the longest", 2_000.0, slowest("plan"))];
    Ok(Section { title: "Access model", text: markdown(&rows, bytes, &targets), targets })
}

fn measure(stack: &mut Stack) -> Result<(Vec<Row>, usize)> {
    let anonymous = Client::anonymous(&stack.base);
    stack.wait_until_ready(&anonymous)?;
    let (admin, _) = anonymous.sign_in("admin", &stack.admin_password)?;
    trace_source::bind(&admin, "otel", "otel_traces")?;
    let field = |number: usize| json!({"map": "SpanAttributes", "name": format!("shop.field_{number}"), "filterable": true, "policy": true});
    let mut fields: Vec<Value> = (0..FIELDS).map(field).collect();
    fields.push(json!({"name": "ServiceName", "filterable": true, "policy": true}));
    fields.push(json!({"name": "SpanName", "filterable": true, "policy": true}));
    trace_source::mark(&admin, &json!(fields))?;
    let stored = admin.get("/schema/export")?;
    let files = [file(&stored, 0)?, file(&stored, 1)?];
    let bytes = files.iter().map(|file| file.to_string().len()).max().unwrap_or_default();

    let row = |name| Row { name, times: Vec::new() };
    let mut export = row("export");
    let mut same = row("plan of the current model");
    let mut other = row("plan of 1,000 other policies");
    let mut counted = row("the same with its impact (none, because there are no traces)");
    let mut import = row("import of these");
    let mut restore = row("restore of the previous model");
    put(&admin, "/schema/import", "PUT", change(&admin)?, files.first())?;
    for _ in 0..ROUNDS {
        interrupt::check()?;
        let [current, next] = &files;
        export.time(|| admin.get("/schema/export"))?;
        let plan = same.time(|| admin.call("POST", "/schema/plan?seconds=0", Some(current)))?;
        ensure!(plan.get("empty") == Some(&json!(true)), "the current model must give no changes: {plan}");
        let plan = other.time(|| admin.call("POST", "/schema/plan?seconds=0", Some(next)))?;
        let changes = list(&plan, "/changes")?.len();
        ensure!(changes >= ROLES * POLICIES_OF_A_ROLE, "the plan names {changes} changes only");
        counted.time(|| admin.call("POST", "/schema/plan", Some(next)))?;
        let before = change(&admin)?;
        import.time(|| put(&admin, "/schema/import", "PUT", before, Some(next)))?;
        let (path, last) = (format!("/schema/history/{before}/restore"), change(&admin)?);
        // The server rejects a request without a body as invalid JSON.
        restore.time(|| put(&admin, &path, "POST", last, Some(&json!({}))))?;
    }
    Ok((vec![export, same, other, counted, import, restore], bytes))
}

/// Returns a model with the stored table and fields. Every policy differs from that of the other `edition`.
fn file(stored: &Value, edition: usize) -> Result<Value> {
    let policy = |role: usize, number: usize| {
        let attribute = |field: usize| format!("SpanAttributes[\"shop.field_{}\"]", (role + field) % FIELDS);
        let expression = match number {
            0 => format!("{} == \"team {role} of {edition}\"", attribute(0)),
            1 => format!("ServiceName in [\"cart-{role}\", \"pay-{role}\", \"ship-{edition}\"]"),
            2 => format!(
                "{} == user.attributes[\"team\"] && !(SpanName == \"health {edition}\")",
                attribute(1)
            ),
            3 => format!(
                "SpanName.startsWith(\"GET /{role}/\") || {} in user.attributes[\"tenants{edition}\"]",
                attribute(2)
            ),
            _ => format!(
                "{}.matches(\"^(eu|us)-[a-z]+-{role}$\") && ServiceName != \"internal-{edition}\"",
                attribute(3)
            ),
        };
        let description = format!("What team {role} may see, for the reason number {number}.");
        json!({"title": format!("Team {role}, policy {number}"), "expression": expression, "description": description})
    };
    let roles: Vec<Value> = (0..ROLES)
        .map(|role| {
            let policies: Vec<Value> = (0..POLICIES_OF_A_ROLE).map(|number| policy(role, number)).collect();
            json!({"name": format!("team-{role}"), "policies": policies})
        })
        .collect();
    let mut file = json!({"roles": roles});
    for member in ["binding", "fields"] {
        let current =
            stored.get(member).with_context(|| format!("the exported model has no `{member}`: {stored}"))?;
        if let Value::Object(members) = &mut file {
            members.insert(member.to_owned(), current.clone());
        }
    }
    Ok(file)
}

/// Returns the number of the current model version.
fn change(admin: &Client) -> Result<u64> {
    let tag = admin.send("GET", "/schema/export", None, None)?.etag.context("the export has no ETag")?;
    tag.trim_matches('"').parse().with_context(|| format!("`{tag}` is not the number of a change"))
}

/// Sends a model change that is based on version `current`.
fn put(admin: &Client, path: &str, method: &str, current: u64, body: Option<&Value>) -> Result<Value> {
    let answer = admin.send(method, path, Some(&format!("\"{current}\"")), body)?;
    expect(&answer, method, path, &[200])
}

impl Row {
    fn time(&mut self, ask: impl FnOnce() -> Result<Value>) -> Result<Value> {
        let begun = Instant::now();
        let answer = ask()?;
        self.times.push(begun.elapsed());
        Ok(answer)
    }

    /// Median in milliseconds.
    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    fn longest(&self) -> f64 {
        self.times.iter().max().map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

fn markdown(rows: &[Row], bytes: usize, targets: &[Target]) -> String {
    let mut out = format!(
        "## Access model\n\n{ROLES} roles with {} policies and {} marked fields as one file of {} KB, over \
         HTTP, with an SQLite file as the\napplication database; {ROUNDS} rounds. A plan checks every \
         policy; an import does so too, before its single transaction.\n\n",
        ROLES * POLICIES_OF_A_ROLE,
        FIELDS + 2,
        bytes / 1000,
    );
    let _ = writeln!(out, "| | median, ms | longest, ms |\n|---|---|---|");
    for row in rows {
        let _ = writeln!(out, "| {} | {:.0} | {:.0} |", row.name, row.median(), row.longest());
    }
    out.push('\n');
    out.push_str(&targets::table(targets));
    out
}
