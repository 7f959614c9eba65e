//! Explained outcomes: what a policy evaluated to on a span, and which parts determined it.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;
use utoipa::ToSchema;

use crate::diagnostics::render::WIDTH_COLUMNS;
use crate::diagnostics::underlined;

/// Text for an absent value.
pub(super) const ABSENT: &str = "absent";
/// Text for NULL.
pub(super) const NULL: &str = "NULL";

/// Value of an expression or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyOutcome)]
pub enum Outcome {
    /// True: the span satisfies the policy.
    True,
    /// False.
    False,
    /// Evaluation failed: the span satisfies neither the policy nor its negation.
    Error,
}

impl From<Option<bool>> for Outcome {
    fn from(truth: Option<bool>) -> Self {
        match truth {
            Some(true) => Self::True,
            Some(false) => Self::False,
            None => Self::Error,
        }
    }
}

/// Outcome of a policy on one span, with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Result of [`evaluate`](crate::evaluate()).
    pub outcome: Outcome,
    /// The sub-expressions that determined the outcome, in text order; never empty.
    pub decided_by: Vec<Decision>,
}

impl Verdict {
    /// Renders the policy's text with the decisive parts underlined, each with its outcome and the values that it
    /// read. `title` is the heading, `origin` the source of the text. Contains data of the span. Returns several lines
    /// without a final line break.
    pub fn render(&self, title: &str, text: &str, origin: Option<&str>) -> String {
        let annotations = self.decided_by.iter().map(|decision| {
            let outcome = <&str>::from(decision.outcome);
            let label = match &decision.detail {
                Some(detail) => format!("{outcome}: {detail}"),
                None => outcome.to_owned(),
            };
            let underlined = underlined(text, decision.line, decision.column, decision.length);
            AnnotationKind::Primary.span(underlined).label(label)
        });
        let snippet = Snippet::source(text).path(origin).annotations(annotations);
        let group = Level::NOTE.with_name(<&str>::from(self.outcome)).primary_title(title).element(snippet);
        Renderer::plain().term_width(WIDTH_COLUMNS).render(&[group])
    }
}

/// A deciding part of the expression.
// Inside a negation, its outcome is the opposite of the whole's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Decision {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in code points.
    pub column: u32,
    /// Length, in code points.
    // At least 1. May include line breaks.
    pub length: u32,
    /// Outcome of this part by itself.
    pub outcome: Outcome,
    /// Reason for an error, and the values that the part read.
    // Contains data of the span: show it only to users who may see the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("`SpanAttributes[\"team\"]` is absent on this span"))]
    pub detail: Option<String>,
    /// Reason for an error. Names fields and attributes, but contains no values of the span.
    #[serde(skip)]
    pub reason: Option<String>,
    /// Values that it read. These are data of the span, too.
    #[serde(skip)]
    pub read: Vec<ReadValue>,
}

impl Decision {
    pub(super) fn new(
        (line, column, length): (u32, u32, u32),
        outcome: Outcome,
        reason: Option<String>,
        read: Vec<ReadValue>,
    ) -> Self {
        let detail = detail(reason.as_ref(), &read);
        Self { line, column, length, outcome, detail, reason, read }
    }

    /// Returns the text of the part.
    pub fn text<'a>(&self, expression: &'a str) -> &'a str {
        expression.get(underlined(expression, self.line, self.column, self.length)).unwrap_or_default()
    }
}

/// Returns the reason for an error and the values read, as text; `None` if there is neither.
fn detail(reason: Option<&String>, read: &[ReadValue]) -> Option<String> {
    let is_missing = |read: &ReadValue| [ABSENT, NULL].contains(&read.value.as_str());
    let values: Vec<String> =
        read.iter().map(|ReadValue { name, value }| format!("`{name}` is {value}")).collect();
    match reason {
        // The reason already says that a value is absent or NULL.
        Some(reason) if read.iter().all(is_missing) => Some(reason.clone()),
        Some(reason) => Some(format!("{reason}: {}", values.join(", "))),
        None if values.is_empty() => None,
        None => Some(values.join(", ")),
    }
}

/// A value that a sub-expression read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadValue {
    /// Name in policy syntax of the field, the caller's attribute, or the variable of a macro.
    pub name: String,
    /// The value in CEL syntax, truncated if it is long; `absent` or `NULL` if there is no value.
    pub value: String,
}
