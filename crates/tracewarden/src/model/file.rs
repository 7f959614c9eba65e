//! A file with an access model: its request body, and the positions in it that the service's messages refer to.

use std::path::Path;

use serde_json::Value;
use tracewarden_documents::{Document, Json};
use tracewarden_policy::{Diagnostic, ERRORS, WARNINGS};

use super::answers::Warning;
use super::api_client::{ApiClient, Body, Failure, InvalidMember, Problem};
use super::paint::sanitize;
use crate::policy::files::{NamedDocument, Origin, display_name, text};
use crate::policy::{EXIT_FAILED, ErrorReport, Line};

/// Code of every error that rejects a policy.
const POLICY_INVALID: &str = "policy_invalid";

/// An access model, from a file or from the service's history.
pub(super) struct ModelFile {
    name: String,
    /// Positions of the members; only for a file.
    document: Option<NamedDocument>,
    content: Value,
    pub(super) body: Body,
}

impl ModelFile {
    /// Reads a file; `-` is the standard input.
    pub(super) fn read(path: &Path) -> Result<Self, ErrorReport> {
        let text = text(path)?;
        let named = NamedDocument::from_text(display_name(path), &text).map_err(ErrorReport::rejected)?;
        let content_type = if is_json(path) { "application/json" } else { "application/yaml" };
        let body = Body { content_type, bytes: text.into_bytes() };
        Ok(Self { name: named.name.clone(), content: named.document.value(), document: Some(named), body })
    }

    /// Returns the access model of a version.
    pub(super) fn from_version(version: u64, file: &Json) -> Self {
        // The value consists of strings, numbers, lists and objects, so serialising it cannot fail.
        let text = serde_json::to_string(file).unwrap_or_default();
        let content = Document::read(&text).map(|document| document.value()).unwrap_or_default();
        let body = Body { content_type: "application/json", bytes: text.into_bytes() };
        Self { name: format!("version {version}"), document: None, content, body }
    }

    /// Explains why the service rejected the file, with the positions that are not valid.
    pub(super) fn explain(&self, api_client: &ApiClient, failure: Failure) -> ErrorReport {
        match failure {
            Failure::Problem(problem)
                if matches!(problem.status, 400 | 409 | 413 | 422) && !problem.code.is_empty() =>
            {
                self.rejection(&problem)
            }
            failure => api_client.explain(failure),
        }
    }

    fn rejection(&self, problem: &Problem) -> ErrorReport {
        let mut lines: Vec<Line> = problem.errors.iter().map(|error| self.invalid(error)).collect();
        // With a single invalid member, the problem's own message would repeat it.
        if !matches!(problem.errors.as_slice(), [one] if one.detail == problem.detail || one.line.is_some()) {
            lines.push(Line::Message(format!("{}: {}", self.name, problem.message())));
        }
        ErrorReport { status: EXIT_FAILED, lines }
    }

    fn invalid(&self, error: &InvalidMember) -> Line {
        let InvalidMember { pointer, code, detail, line, column, length, hint } = error;
        let position = line.zip(*column).map(|(line, column)| (line, column, length.unwrap_or(1)));
        let policy = pointer.strip_suffix("/expression").unwrap_or(pointer);
        let expression = self.content.pointer(policy).and_then(|policy| policy.get("expression"));
        if let (Some(position), Some(text)) = (position, expression.and_then(Value::as_str)) {
            let found = diagnostic(code, position, detail, hint.as_deref());
            if let Some(found) = found {
                let origin = self.origin(policy);
                return Line::Rendered(found.render(text, Some(&origin.at(found.line))));
            }
        }
        let hint = hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
        let message = format!("{detail}{hint}");
        Line::Message(match &self.document {
            Some(named) => named.at(pointer, &message),
            None => sanitize(&format!("{}, {pointer}: {message}", self.name)),
        })
    }

    /// Renders a warning on a policy, with the part of its text that it concerns.
    pub(super) fn warning(&self, warning: &Warning) -> String {
        let Warning { role, title, code, message, hint, line, column, length } = warning;
        let found = diagnostic(code, (*line, *column, *length), message, hint.as_deref());
        if let (Some(found), Some((pointer, text))) = (found, self.policy(role, title)) {
            return found.render(text, Some(&self.origin(&pointer).at(found.line)));
        }
        let hint = hint.as_ref().map_or_else(String::new, |hint| format!("\n  = help: {}", sanitize(hint)));
        let position = sanitize(&format!("{}, role `{role}`, policy `{title}`", self.name));
        format!("warning[{}]: {}\n --> {position}:{line}:{column}{hint}", sanitize(code), sanitize(message))
    }

    /// Returns the JSON Pointer to a role's policy, and its text; the first one if several have the same title.
    fn policy(&self, role: &str, title: &str) -> Option<(String, &str)> {
        let has = |value: &Value, member: &str, wanted: &str| {
            value.get(member).and_then(Value::as_str) == Some(wanted)
        };
        let roles = self.content.get("roles")?.as_array()?;
        let (at, role) = roles.iter().enumerate().find(|(_, found)| has(found, "name", role))?;
        let policies = role.get("policies")?.as_array()?;
        let (index, policy) = policies.iter().enumerate().find(|(_, found)| has(found, "title", title))?;
        Some((format!("/roles/{at}/policies/{index}"), policy.get("expression")?.as_str()?))
    }

    /// Returns the origin of the policy at a JSON Pointer.
    fn origin(&self, pointer: &str) -> Origin {
        let text = |pointer: &str, member: &str| {
            self.content.pointer(&format!("{pointer}/{member}")).and_then(Value::as_str).map(sanitize)
        };
        let role = pointer.rsplit_once("/policies/").and_then(|(role, _)| text(role, "name"));
        let role = role.map_or_else(String::new, |role| format!("role `{role}`, "));
        let name = format!("{role}policy `{}`", text(pointer, "title").unwrap_or_default());
        match &self.document {
            Some(named) => named.origin(pointer, &name),
            None => Origin::standalone(format!("{}, {name}", self.name)),
        }
    }
}

pub(super) fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

/// Converts a diagnostic of the service to one of this program; `None` if its code is unknown.
fn diagnostic(
    code: &str,
    (line, column, length): (u32, u32, u32),
    message: &str,
    hint: Option<&str>,
) -> Option<Diagnostic> {
    let codes = ERRORS.iter().chain(WARNINGS).copied();
    let known = codes.chain([POLICY_INVALID]).find(|known| *known == code)?;
    let (message, hint) = (message.to_owned(), hint.map(str::to_owned));
    Some(Diagnostic { line, column, length, code: known, message, hint })
}
