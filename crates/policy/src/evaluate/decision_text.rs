//! Verdicts for people at a terminal, in the form of diagnostics.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::diagnostics::render::{WIDTH_COLUMNS, covered};
use crate::evaluate::{Outcome, Verdict};

impl Outcome {
    /// `true`, `false` or `error`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Error(_) => "error",
        }
    }
}

impl Verdict {
    /// The policy's text with the parts that decided underlined, each with what it is and what it looked at; `title`
    /// stands above, and `origin` says where the text comes from. Holds data of the span. Several lines without a final
    /// line end.
    pub fn render(&self, title: &str, text: &str, origin: Option<&str>) -> String {
        let annotations = self.decided_by.iter().map(|decision| {
            let outcome = decision.outcome.as_str();
            let label = match decision.detail() {
                Some(detail) => format!("{outcome}: {detail}"),
                None => outcome.to_owned(),
            };
            let covered = covered(text, decision.line, decision.column, decision.length);
            AnnotationKind::Primary.span(covered).label(label)
        });
        let snippet = Snippet::source(text).path(origin).annotations(annotations);
        let group = Level::NOTE.with_name(self.outcome.as_str()).primary_title(title).element(snippet);
        Renderer::plain().term_width(WIDTH_COLUMNS).render(&[group])
    }
}
