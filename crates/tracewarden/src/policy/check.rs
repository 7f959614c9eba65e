//! `tracewarden policy check`.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use tracewarden_clickhouse::display_sql;
use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{CheckedPolicy, Diagnostic, check, role_warnings};
use tracewarden_service::{Policy, PolicyCheck as CheckResult};

use super::error::{EXIT_FAILED, ErrorReport};
use super::files::{self, Origin, sanitize};
use crate::command_line::{Format, PolicyCheck};

/// A policy with the result of checking it.
struct PolicyReport {
    origin: Origin,
    text: String,
    checked: Result<CheckedPolicy, Vec<Diagnostic>>,
    warnings: Vec<Diagnostic>,
}

/// A result as JSON: the API's form, with the policy's origin.
#[derive(Serialize)]
struct JsonResult {
    policy: String,
    #[serde(flatten)]
    result: CheckResult,
}

pub(super) fn run(options: &PolicyCheck, output: &mut String) -> Result<u8, ErrorReport> {
    let files = options.files.iter().chain(&options.model).chain(&options.user);
    files::require_single_standard_input(files)?;
    let given = options.model.as_deref().map(files::model).transpose()?;
    let user = options.user.as_deref().map(files::user).transpose()?.unwrap_or_default();
    let mut found = Vec::new();
    let mut errors = Vec::new();
    if let Some(expression) = &options.expression {
        let origin = Origin::standalone("expression".to_owned());
        found.push(standalone(origin, expression.clone(), require_model(given.as_ref())?));
    }
    if options.files.iter().any(|path| !holds_roles(path)) {
        require_model(given.as_ref())?;
    }
    for path in &options.files {
        match check_file(path, given.as_ref()) {
            Ok(policies) => found.extend(policies),
            Err(report) => errors.extend(report.lines),
        }
    }
    if found.is_empty() && errors.is_empty() {
        return Err(ErrorReport::failed(
            "there is no policy to check: the files contain neither roles nor policies",
        ));
    }
    let status = report(found, options, &user, output);
    // The results of the other files have been written despite the error.
    if errors.is_empty() { Ok(status) } else { Err(errors.into_iter().collect()) }
}

/// Writes the results and returns the exit status.
fn report(found: Vec<PolicyReport>, options: &PolicyCheck, user: &Caller, output: &mut String) -> u8 {
    let failed =
        |found: &PolicyReport| found.checked.is_err() || (options.strict && !found.warnings.is_empty());
    let status = if found.iter().any(failed) { EXIT_FAILED } else { 0 };
    match options.format {
        Format::Text => found.iter().for_each(|found| show(found, options, user, output)),
        Format::Json if found.is_empty() => {}
        Format::Json => {
            let lines: Vec<JsonResult> = found.into_iter().map(|found| line(found, user)).collect();
            output.push_str(&super::report::json(&lines));
        }
    }
    status
}

fn check_file(path: &Path, given: Option<&AccessModel>) -> Result<Vec<PolicyReport>, ErrorReport> {
    if !holds_roles(path) {
        return Ok(vec![standalone(
            Origin::standalone(files::display_name(path)),
            files::text(path)?,
            require_model(given)?,
        )]);
    }
    let (named, file, model) = files::roles(path, given)?;
    let mut found: Vec<PolicyReport> = file
        .policies()
        .map(|(pointer, role, policy)| {
            let role = role.map_or_else(String::new, |role| format!("role `{}`, ", sanitize(role)));
            let origin = named.origin(&pointer, &format!("{role}policy `{}`", sanitize(&policy.title)));
            standalone(origin, policy.expression.clone(), &model)
        })
        .collect();
    let mut rest = found.as_mut_slice();
    for role in &file.roles {
        let split = std::mem::take(&mut rest).split_at_mut_checked(role.policies.len());
        let Some((role_policies, others)) = split else { break };
        add_role_warnings(&role.policies, role_policies);
        rest = others;
    }
    Ok(found)
}

fn require_model(given: Option<&AccessModel>) -> Result<&AccessModel, ErrorReport> {
    given.ok_or_else(|| ErrorReport::failed("give the access model with `--model`"))
}

fn holds_roles(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

fn standalone(origin: Origin, text: String, model: &AccessModel) -> PolicyReport {
    let checked = check(&text, model);
    let warnings = checked.as_ref().map_or_else(|_| Vec::new(), |checked| checked.warnings().to_vec());
    PolicyReport { origin, text, checked, warnings }
}

/// Adds the warnings that concern all policies of a role together.
fn add_role_warnings(policies: &[Policy], found: &mut [PolicyReport]) {
    let valid: Option<Vec<(&str, &CheckedPolicy)>> = policies
        .iter()
        .zip(found.iter())
        .map(|(policy, found)| found.checked.as_ref().ok().map(|checked| (policy.title.as_str(), checked)))
        .collect();
    if let Some(warnings) = valid.map(|valid| role_warnings(&valid)) {
        for (found, warnings) in found.iter_mut().zip(warnings) {
            found.warnings = warnings;
        }
    }
}

fn predicate(checked: &CheckedPolicy, user: &Caller) -> Option<String> {
    checked.predicate(user).as_ref().map(display_sql)
}

fn show(found: &PolicyReport, options: &PolicyCheck, user: &Caller, output: &mut String) {
    let errors = found.checked.as_ref().err().into_iter().flatten();
    for diagnostic in errors.chain(&found.warnings) {
        let _ =
            writeln!(output, "{}\n", diagnostic.render(&found.text, Some(&found.origin.at(diagnostic.line))));
    }
    let _ = match &found.checked {
        Err(_) => writeln!(output, "{}: not valid", found.origin),
        Ok(checked) => {
            let fields = checked.fields();
            let read = if fields.is_empty() {
                String::new()
            } else {
                format!(", reads {}", sanitize(&fields.join(", ")))
            };
            writeln!(output, "{}: valid{read}", found.origin)
        }
    };
    if let (true, Ok(checked)) = (options.sql, &found.checked) {
        let sql = predicate(checked, user);
        let sql =
            sql.as_deref().map_or("too large for this user's roles and attributes".to_owned(), sanitize);
        let _ = writeln!(output, "  in ClickHouse: {sql}");
    }
}

fn line(found: PolicyReport, user: &Caller) -> JsonResult {
    let PolicyReport { origin, checked, warnings, .. } = found;
    let result = match checked {
        Ok(checked) => CheckResult {
            valid: true,
            fields: checked.fields(),
            warnings,
            predicate: predicate(&checked, user),
            ..CheckResult::default()
        },
        Err(errors) => CheckResult { errors, ..CheckResult::default() },
    };
    JsonResult { policy: origin.to_string(), result }
}
