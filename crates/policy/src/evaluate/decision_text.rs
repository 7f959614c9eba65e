//! Renders verdicts for a terminal, in the style of diagnostics.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::diagnostics::render::WIDTH_COLUMNS;
use crate::diagnostics::underlined;
use crate::evaluate::{Outcome, Verdict};

impl Outcome {
    /// Returns `true`, `false` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Error => "error",
        }
    }
}

impl Verdict {
    /// Renders the policy's text with the decisive parts underlined, each with its outcome and the values that it
    /// read. `title` is the heading, `origin` the source of the text. Contains data of the span. Returns several lines
    /// without a final line break.
    pub fn render(&self, title: &str, text: &str, origin: Option<&str>) -> String {
        let annotations = self.decided_by.iter().map(|decision| {
            let outcome = decision.outcome.as_str();
            let label = match decision.detail() {
                Some(detail) => format!("{outcome}: {detail}"),
                None => outcome.to_owned(),
            };
            let underlined = underlined(text, decision.line, decision.column, decision.length);
            AnnotationKind::Primary.span(underlined).label(label)
        });
        let snippet = Snippet::source(text).path(origin).annotations(annotations);
        let group = Level::NOTE.with_name(self.outcome.as_str()).primary_title(title).element(snippet);
        Renderer::plain().term_width(WIDTH_COLUMNS).render(&[group])
    }
}
