//! A test file with all its names resolved.

use std::path::Path;

use tracewarden_documents::{PolicyFile, SuiteFault, resolve};
use tracewarden_model::AccessModel;
use tracewarden_policy::suite::{self, SuitePolicy};

use super::columns::print_misspelt_columns;
use super::error::{ErrorReport, Line};
use super::files::{self, NamedDocument, sanitize};

pub(super) struct Suite {
    pub(super) named: NamedDocument,
    pub(super) tests: suite::Suite,
}

impl Suite {
    /// Reads a file. The report has every reason why its tests cannot be run.
    pub(super) fn read(path: &Path, given: Option<&AccessModel>) -> Result<Self, ErrorReport> {
        let (named, file, model) = files::roles(path, given)?;
        print_column_notes(&named, &file, &model);
        let tests = resolve(&file, &model).map_err(|faults| {
            faults.iter().flat_map(|fault| lines(&named, fault)).collect::<ErrorReport>()
        })?;
        Ok(Self { named, tests })
    }

    /// Position of a line of the policy's text: "roles.yaml:12, policy `dev/One`".
    pub(super) fn at(&self, policy: &SuitePolicy, line: u32) -> String {
        self.named.origin(&policy.pointer, &policy_name(&policy.label)).at(line)
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
