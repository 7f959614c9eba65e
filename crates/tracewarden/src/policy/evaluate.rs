//! `tracewarden policy evaluate`.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use tracewarden_policy::{check, explain};
use tracewarden_service::EvaluateResult;

use super::columns::print_misspelt_columns;
use super::error::{EXIT_FAILED, ErrorReport, Line};
use super::files;
use super::report;
use crate::command_line::{Format, PolicyEvaluate};

pub(super) fn run(options: &PolicyEvaluate, output: &mut String) -> Result<u8, ErrorReport> {
    let files = [&options.model, &options.user, &options.spans];
    files::require_single_standard_input(files.into_iter().chain(&options.file))?;
    let model = files::model(&options.model)?;
    let user = files::user(&options.user)?;
    let (origin, text) = match (&options.expression, &options.file) {
        (Some(expression), _) => ("expression".to_owned(), expression.clone()),
        (None, Some(path)) => (files::display_name(path), files::text(path)?),
        (None, None) => {
            return Err(ErrorReport::failed("give a file with a policy, or `--expression`"));
        }
    };
    let (named, raw_spans, pointer) = files::spans(&options.spans)?;
    let refuse = |diagnostics: Vec<tracewarden_policy::Diagnostic>, output: &mut String| {
        for diagnostic in diagnostics {
            let _ = writeln!(output, "{}\n", diagnostic.render(&text, Some(&origin)));
        }
        Ok(EXIT_FAILED)
    };
    // Check the policy before the spans: it determines which of their columns matter.
    if let Err(diagnostics) = check(&text, &model) {
        return refuse(diagnostics, output);
    }
    print_misspelt_columns(&named, &raw_spans, &model, pointer);
    let spans = tracewarden_documents::spans(&raw_spans, &model, pointer).map_err(|errors| {
        let lines = errors.iter().map(|error| Line::Message(named.at(&error.pointer, &error.detail)));
        lines.collect::<ErrorReport>()
    })?;
    let verdicts = match explain(&text, &model, &user, &spans, &AtomicBool::new(false)) {
        Ok(verdicts) => verdicts,
        Err(diagnostics) => return refuse(diagnostics, output),
    };
    match options.format {
        Format::Json => output.push_str(&report::json(&EvaluateResult::from(verdicts))),
        Format::Text => {
            for (index, verdict) in verdicts.iter().enumerate() {
                let title = format!("on span {}", index + 1);
                let _ = writeln!(output, "{}\n", verdict.render(&title, &text, Some(&origin)));
            }
            let _ = writeln!(output, "{}", report::outcome_counts(&verdicts));
        }
    }
    Ok(0)
}
