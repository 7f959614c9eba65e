//! Measures previews of a role change in an installation with hundreds of roles and users.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::Bench;
use crate::bench::conditions::data::{TABLE, quoted};
use crate::bench::conditions::environment::DataSet;
use crate::bench::conditions::handwritten::Window;
use crate::bench::interleaved::SETTINGS;

const ROLES: usize = 300;
const USERS: usize = 300;
/// Roles per user besides the changed one.
const OTHER_ROLES: usize = 2;
/// The role that every user has.
const CHANGED: &str = "changed";
/// Time limits of the previews in seconds.
const SECONDS: [u64; 2] = [1, 10];

/// The policy of the role before and after the change, as CEL and as SQL.
const BEFORE: (&str, &str) =
    (r#"ResourceAttributes["team"] == "team-5""#, "ResourceAttributes['team'] = 'team-5'");
const AFTER: (&str, &str) = (
    r#"ResourceAttributes["team"] == "team-5" && ResourceAttributes["deployment.environment"] == "production""#,
    "ResourceAttributes['team'] = 'team-5' AND ResourceAttributes['deployment.environment'] = 'production'",
);

/// Measurements of a preview: the worst of its rounds.
pub struct Previewed {
    pub data: DataSet,
    /// Time limit in seconds.
    pub seconds: u64,
    /// Longest time in seconds, or NaN if a round failed.
    pub took: f64,
    /// Smallest fraction of the traces that was read, 1 for all of them.
    pub fraction: f64,
    /// Smallest number of members that were compared.
    pub compared: u64,
    /// Fastest time in milliseconds of a hand-written pass that counts the same for the role alone.
    pub handwritten: f64,
    /// Whether each preview that was not sampled has the counts of the hand-written pass.
    pub equal: bool,
    /// Error of a failed round.
    pub failure: Option<String>,
}

pub fn measure(bench: &Bench<'_>, previewed: &mut Vec<Previewed>) -> Result<()> {
    set_up(bench)?;
    let window = Window::last(86_400, 0);
    let [from, to] = window.rfc_3339();
    for seconds in SECONDS {
        let body = json!({
            "role": CHANGED, "policies": [{"title": "after", "expression": AFTER.0}], "from": from, "to": to,
            "seconds": seconds,
        });
        let mut one = Previewed {
            data: bench.environment.data,
            seconds,
            took: 0.0,
            fraction: 1.0,
            compared: u64::MAX,
            handwritten: f64::MAX,
            equal: true,
            failure: None,
        };
        for round in 0..=bench.effort.rounds {
            let reply = bench.environment.store.ask(&handwritten(window), SETTINGS)?;
            let counted = reply.lines()?.into_iter().next().unwrap_or_default();
            let begun = Instant::now();
            let answer =
                bench.environment.service.administrator.call("POST", "/policies/preview", Some(&body));
            let elapsed = begun.elapsed();
            bench.log.write(&json!({
                "store": bench.environment.data.store.name(), "spans": bench.environment.data.spans, "round": round,
                "what": format!("preview, {seconds} s"), "milliseconds": elapsed.as_secs_f64() * 1e3,
                "by_hand": reply.elapsed.as_secs_f64() * 1e3, "answered": answer.is_ok(),
            }))?;
            one.handwritten = one.handwritten.min(reply.elapsed.as_secs_f64() * 1e3);
            match answer {
                Ok(answer) => one.add(&answer, elapsed, &counted)?,
                Err(error) => one.failure = Some(format!("{error:#}")),
            }
        }
        if one.failure.is_some() {
            one.took = f64::NAN;
        }
        match &one.failure {
            None => eprintln!("preview, {seconds} s: {:.1} s, {:.3} of the traces", one.took, one.fraction),
            Some(failure) => eprintln!("preview, {seconds} s: {failure}"),
        }
        previewed.push(one);
    }
    Ok(())
}

impl Previewed {
    fn add(&mut self, answer: &Value, elapsed: Duration, counted: &str) -> Result<()> {
        let number = |pointer: &str| answer.pointer(pointer).and_then(Value::as_u64);
        self.took = self.took.max(elapsed.as_secs_f64());
        let fraction =
            answer.get("fraction").and_then(Value::as_f64).context("the preview contains no fraction")?;
        self.fraction = self.fraction.min(fraction);
        let compared = number("/members_compared").context("the preview contains no members")?;
        self.compared = self.compared.min(compared);
        if answer.get("sampled") == Some(&json!(false)) {
            let change = ["gained", "lost", "unchanged"].map(|name| number(&format!("/traces/{name}")));
            let change: Vec<String> = change.into_iter().flatten().map(|count| count.to_string()).collect();
            self.equal &= change.join("\t") == counted;
        }
        Ok(())
    }
}

/// Returns the statement that counts the traces that the role alone gains, loses and keeps.
fn handwritten(window: Window) -> String {
    format!(
        "SELECT countIf(after AND NOT before), countIf(before AND NOT after), countIf(before AND after) FROM (\
         SELECT countIf({}) > 0 AS before, countIf({}) > 0 AS after FROM {} WHERE {} GROUP BY TraceId \
         HAVING countIf({}) > 0)",
        BEFORE.1,
        AFTER.1,
        quoted(TABLE),
        window.around_window(),
        window.in_window()
    )
}

/// Creates roles and users. Each user has the changed role and two others.
fn set_up(bench: &Bench<'_>) -> Result<()> {
    let administrator = &bench.environment.service.administrator;
    let put = |role: &str, expression: &str| {
        let policies = json!({"policies": [{"title": role, "expression": expression}]});
        administrator.call("PUT", &format!("/roles/{role}"), Some(&policies)).map(drop)
    };
    let bar = ProgressBar::new((ROLES + USERS) as u64);
    put(CHANGED, BEFORE.0)?;
    let name = |number: usize| format!("role-{number}");
    for number in 0..ROLES - 1 {
        let tenant = format!(
            r#"SpanAttributes["tenant.id"] == "tenant-{number}" && ResourceAttributes["team"] == "team-{}""#,
            number % 12
        );
        put(&name(number), &tenant)?;
        bar.inc(1);
    }
    for number in 0..USERS {
        let others = (0..OTHER_ROLES).map(|other| name((number * OTHER_ROLES + other) % (ROLES - 1)));
        let roles: Vec<String> = others.chain([CHANGED.to_owned()]).collect();
        let user = json!({"username": format!("member-{number}"), "roles": roles});
        administrator.call("POST", "/users", Some(&user))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}
