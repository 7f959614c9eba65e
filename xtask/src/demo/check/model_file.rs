//! Checks the access model as a file, with the command that administrators use.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{DemoUnderTest, Findings};
use crate::demo::demo_users::{ADMINISTRATOR, PROPOSAL, STOREFRONT_PRODUCTION};
use crate::stack::api::list;

/// Exports the model, checks that its plan is empty, applies a changed file that takes effect on the next request, and restores
/// the previous version.
pub fn export_and_import(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
    let model = Model { subject, directory: directory.path() };
    let storefront = &subject.accounts.of("stefan")?.client;
    let logistics = subject.expectations.landmarks.iter().find(|landmark| landmark.name == "logistics");
    let path = format!("/traces/{}", logistics.context("the sample has no logistics")?.id);
    let sees = || Ok::<bool, anyhow::Error>(storefront.send("GET", &path, None, None)?.status == 200);

    model.run(&["export", "--output", "access.yaml"], 0)?;
    let before = model.read("access.yaml")?;
    let same = model.run(&["plan", "access.yaml", "--detailed-exitcode", "--seconds", "0"], 0)?;
    findings.assert(same.contains("\n0 to add, 0 to change, 0 to remove\n"), || {
        format!("an unchanged exported file gives changes: {same}")
    });
    findings.assert(same.contains("\n  7 tests passed, 0 failed\n"), || {
        format!("the tests did not all pass: {same}")
    });

    let mut file: Value = serde_json::from_str(&model.run(&["export", "--format", "json"], 0)?)?;
    let roles = file.pointer_mut("/roles").and_then(Value::as_array_mut).context("the file has no roles")?;
    let role = roles.iter_mut().find(|role| role.get("name") == Some(&json!(STOREFRONT_PRODUCTION.name)));
    *role.and_then(|role| role.get_mut("policies")).context("the file lacks a role")? =
        json!([{"title": PROPOSAL.title, "expression": PROPOSAL.expression}]);
    model.write("changed.json", &file.to_string())?;
    // The tests in the file state what the storefront sees, which the change contradicts.
    let refused = model.run(&["apply", "changed.json", "--yes", "--seconds", "0"], 1)?;
    findings.assert(refused.contains("  FAIL the storefront sees its production\n"), || {
        format!("a file with failing tests was applied, or the reason is missing: {refused}")
    });
    findings.assert(!sees()?, || "a refused file has taken effect".to_owned());

    let tests = file.get_mut("tests").and_then(Value::as_array_mut).context("the file has no tests")?;
    tests.retain(|test| test.get("user") != Some(&json!("stefan")));
    model.write("changed.json", &file.to_string())?;
    let planned = model.run(&["plan", "changed.json", "--detailed-exitcode", "--seconds", "0"], 3)?;
    findings.assert(planned.contains(&format!("+ expression: '{}'", PROPOSAL.expression)), || {
        format!("the plan does not show the new policy: {planned}")
    });
    findings.assert(!sees()?, || "a plan has taken effect".to_owned());
    model.run(&["apply", "changed.json", "--yes", "--seconds", "0"], 0)?;
    findings.assert(sees()?, || "an applied file has not taken effect".to_owned());

    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    // The rejected import never reached the service. The applied change and the restore are in the audit log.
    administrator.tally.changes.fetch_add(2, Ordering::Relaxed);
    let history = administrator.get("/schema/history?limit=2")?;
    let changes = list(&history, "/changes")?;
    let number = changes.last().and_then(|change| change.get("version")).context("the history is empty")?;
    model.run(&["restore", &number.to_string(), "--yes", "--seconds", "0"], 0)?;
    findings.assert(!sees()?, || "a restored model has not taken effect".to_owned());
    let after = model.run(&["export"], 0)?;
    findings.assert(after == before, || format!("the restored model differs:\n{before}\n{after}"));
    Ok(())
}

struct Model<'a> {
    subject: &'a DemoUnderTest<'a>,
    directory: &'a Path,
}

impl Model<'_> {
    /// Runs the command, which must exit with this status, and returns its output.
    fn run(&self, arguments: &[&str], status: i32) -> Result<String> {
        let mut command = Command::new(self.subject.program);
        command.arg("model").args(arguments).current_dir(self.directory).stdin(Stdio::null());
        command.env("TRACEWARDEN_URL", self.subject.base);
        command.env("TRACEWARDEN_API_KEY", &self.subject.accounts.administrator_key);
        command.env_remove("TRACEWARDEN_API_KEY_FILE").env_remove("TRACEWARDEN_CA_FILE");
        let output = command.output().context("cannot run `tracewarden model`")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() != Some(status) {
            let error_text = String::from_utf8_lossy(&output.stderr);
            bail!(
                "`tracewarden model {}` ended with {}, must end with {status}:\n{printed}{error_text}",
                arguments.join(" "),
                output.status
            );
        }
        Ok(printed)
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.directory.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
    }
}
