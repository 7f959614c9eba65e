//! A test file with all its names resolved.

use std::collections::HashMap;
use std::path::Path;

use tracewarden_documents::{PolicyFile, SuiteFault, resolve};
use tracewarden_model::AccessModel;
use tracewarden_policy::suite::{self, SuitePolicy};

use super::columns::print_misspelt_columns;
use super::error::{ErrorReport, Line};
use super::files::{self, NamedDocument, Origin, sanitize};

/// Tests with everything needed to run them.
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) tests: suite::Suite,
    /// Origin of each policy, by JSON Pointer.
    origins: HashMap<String, Origin>,
}

impl Suite {
    /// Reads a file.
    ///
    /// # Errors
    /// Every reason why its tests cannot be run.
    pub(super) fn read(path: &Path, given: Option<&AccessModel>) -> Result<Self, ErrorReport> {
        let (named, file, model) = files::roles(path, given)?;
        print_column_notes(&named, &file, &model);
        let tests = resolve(&file, &model)
            .map_err(|faults| ErrorReport(faults.iter().flat_map(|fault| lines(&named, fault)).collect()))?;
        let origin = |policy: &SuitePolicy| named.origin(&policy.pointer, &policy_name(&policy.label));
        let origins = tests.policies.iter().map(|policy| (policy.pointer.clone(), origin(policy))).collect();
        Ok(Self { name: named.name.clone(), tests, origins })
    }

    /// Position of a line of the policy's text: "roles.yaml:12, policy `dev/One`".
    pub(super) fn at(&self, policy: &SuitePolicy, line: u32) -> Option<String> {
        self.origins.get(&policy.pointer).map(|origin| origin.at(line))
    }
}

fn policy_name(label: &str) -> String {
    format!("policy `{}`", sanitize(label))
}

/// Prints notes on misspelt columns in all spans of the file.
fn print_column_notes(named: &NamedDocument, file: &PolicyFile, model: &AccessModel) {
    for (at, trace) in file.traces.iter().enumerate() {
        print_misspelt_columns(named, &trace.spans, model, &format!("/traces/{at}/spans"));
    }
    for (at, test) in file.tests.iter().enumerate() {
        if let Some(spans) = &test.spans {
            print_misspelt_columns(named, spans, model, &format!("/tests/{at}/spans"));
        }
    }
}

fn lines(named: &NamedDocument, fault: &SuiteFault) -> Vec<Line> {
    match fault {
        SuiteFault::Member(fault) => vec![Line::Message(named.at(&fault.pointer, &fault.message))],
        SuiteFault::Policy { pointer, label, expression, diagnostics } => {
            let origin = named.origin(pointer, &policy_name(label));
            let rendered =
                diagnostics.iter().map(|found| found.render(expression, Some(&origin.at(found.line))));
            rendered.map(Line::Rendered).collect()
        }
    }
}
