//! Renders diagnostics for a terminal, in the style of compiler messages.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::diagnostics::{Diagnostic, underlined};
use crate::syntax_errors::escape_invisible;

/// Maximum width. Longer lines are truncated around the underlined part.
pub(crate) const WIDTH_COLUMNS: usize = 120;

impl Diagnostic {
    /// Renders the diagnostic with the affected line of `text`, the underlined part, and the hint. `text` is the
    /// checked text; `origin` is its source, such as a file name. Invisible characters and characters that change the
    /// text direction are shown as escapes. Returns several lines without a final line break.
    pub fn render(&self, text: &str, origin: Option<&str>) -> String {
        let level = if self.is_warning() { Level::WARNING } else { Level::ERROR };
        let underlined = underlined(text, self.line, self.column, self.length);
        let snippet = Snippet::source(text)
            .path(origin.map(escape_invisible))
            .annotation(AnnotationKind::Primary.span(underlined));
        let mut group = level.primary_title(escape_invisible(&self.message)).id(self.code).element(snippet);
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(escape_invisible(hint)));
        }
        Renderer::plain().term_width(WIDTH_COLUMNS).render(&[group])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Span;

    fn rendered(text: &str, underlined: &str, origin: Option<&str>) -> String {
        let at = text.find(underlined).unwrap();
        let span = Span::new(at, at + underlined.len());
        Diagnostic::new(text, span, "syntax", "this is wrong")
            .with_hint("write it right")
            .render(text, origin)
    }

    #[test]
    fn the_exact_span_is_underlined() {
        assert_eq!(
            rendered("true &&\n\t\"größe 漢字\" == x", "x", Some("policy.cel")),
            r#"error[syntax]: this is wrong
 --> policy.cel:2:16
  |
2 |     "größe 漢字" == x
  |                     ^
  |
  = help: write it right"#
        );
        assert_eq!(
            rendered("true &&\n (a\n == b) || c", "(a\n == b)", None),
            "\
error[syntax]: this is wrong
  |
2 | /  (a
3 | |  == b) || c
  | |______^
  |
  = help: write it right"
        );
    }

    #[test]
    fn terminal_output_is_bounded_and_sanitized() {
        let hostile = rendered("a == \"\u{202e}x\u{1b}[31m\" \u{1f600}", "\u{1f600}", Some("\u{1b}[2J"));
        assert!(!hostile.contains(['\u{202e}', '\u{1b}']), "{hostile:?}");
        let message = Diagnostic::new("a", Span::new(0, 1), "syntax", "bad \u{1b}[2J").with_hint("\u{202e}x");
        let hostile = message.render("a", None);
        assert!(!hostile.contains(['\u{202e}', '\u{1b}']), "{hostile:?}");
        let long = rendered(&("x".repeat(3_000) + " y " + &"x".repeat(3_000)), "y", None);
        assert!(long.contains("x y x") && long.lines().all(|line| line.chars().count() <= 130), "{long}");
    }

    #[test]
    fn positions_outside_the_text_do_not_fail() {
        for (text, line, column, length) in [
            ("", 1, 1, 1),
            ("a\n", 1, 1, 1),
            ("a", 9, 9, 9),
            ("ä", 1, 2, 5),
            ("a\nb", u32::MAX, u32::MAX, u32::MAX),
        ] {
            let found =
                Diagnostic { line, column, length, ..Diagnostic::new("", Span::new(0, 0), "syntax", "m") };
            assert!(found.render(text, None).contains("error[syntax]: m"), "{text}");
        }
    }
}
