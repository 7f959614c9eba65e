//! Error messages for text that is not valid CEL, for users who know another language better.

mod common_mistakes;
mod invisible;

pub(crate) use common_mistakes::{SuggestionCheck, like_as_call};
pub(crate) use invisible::{escape_invisible, invisible_replacement};

use tracewarden_model::field::is_reserved;

use crate::diagnostics::{Diagnostic, Span, underlined};

/// Returns the errors of text that the parser rejected at `position`: line and column in code points, counted from one.
/// Returns all errors that are common mistakes from other languages. Otherwise returns the first error only, since
/// later ones are mostly its consequence. `parses` tells whether a text is CEL, `check_suggestion` returns the checker's result.
pub(crate) fn syntax_errors(
    text: &str,
    tokens: &[Span],
    position: (isize, isize),
    message: &str,
    parses: impl Fn(&str) -> bool,
    check_suggestion: &SuggestionCheck<'_>,
) -> Vec<Diagnostic> {
    common_mistakes::common_mistakes(text, tokens, parses, check_suggestion)
        .unwrap_or_else(|| vec![syntax_error(text, tokens, position, message)])
}

/// Returns the error at a place that the parser gave, as line and column in code points, both from 1.
fn syntax_error(text: &str, tokens: &[Span], position: (isize, isize), message: &str) -> Diagnostic {
    let (line, column) = (u32::try_from(position.0).unwrap_or(1), u32::try_from(position.1).unwrap_or(1));
    let at = underlined(text, line, column, 0).start;
    let Some(token) = tokens.iter().find(|token| token.end > at).copied() else {
        return unexpected_end(text, tokens);
    };
    let written = token.of(text);
    let previous = tokens.iter().rev().find(|other| other.end <= token.start);
    let previous = previous.map_or("", |token| token.of(text));
    let error = |message: String| Diagnostic::new(text, token, "syntax", message);
    let shown = escape_invisible(written);
    let not_allowed = || error(format!("`{shown}` is not allowed here"));
    match written {
        "=" => not_allowed().with_hint("write `==` to compare"),
        "&" | "|" => not_allowed().with_hint("write `&&` for and, `||` for or"),
        "and" | "AND" => not_allowed().with_hint("write `&&`"),
        "or" | "OR" => not_allowed().with_hint("write `||`"),
        "\u{201c}" | "\u{201d}" | "\u{201e}" | "\u{2018}" | "\u{2019}" | "\u{ab}" | "\u{bb}" => {
            not_allowed().with_hint("put strings in straight quotes: `\"text\"`")
        }
        ">" if previous == "<" => not_allowed().with_hint("write `!=` for unequal"),
        "," if !message.contains("']'") => {
            not_allowed().with_hint("write a list in square brackets: `[\"a\", \"b\"]`")
        }
        ")" | "]" | "}" => closing_bracket(text, tokens, token),
        "#" => not_allowed().with_hint("a comment begins with `//`"),
        _ if written.chars().all(|character| invisible_replacement(character).is_some()) => {
            error(format!("`{shown}` is not allowed here, and is invisible"))
                .with_hint("delete it, or write an ordinary space")
        }
        "if" | "IF" => not_allowed().with_hint("write a choice as `condition ? one : other`"),
        "?" if previous == "?" => not_allowed()
            .with_hint("there are no default values: where a key is absent, the condition is not satisfied"),
        "in" | "IN" if token.start == 0 => {
            not_allowed().with_hint("write `in` between a value and a list: `x in [\"a\", \"b\"]`")
        }
        _ if is_reserved(written) && !matches!(written, "true" | "false" | "null") => {
            error(format!("`{shown}` is a reserved word of CEL")).with_hint(match previous {
                "." => format!("write a key of this name in quotes, as in `SpanAttributes[\"{shown}\"]`"),
                _ => "no field can have this name; put text in quotes".to_owned(),
            })
        }
        "==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||" | "in" | "+" | "*" | "/" | "%" | "?" | ":" => {
            error(format!("something is missing before `{shown}`")).with_hint("write its left operand")
        }
        _ if matches!(previous, "not" | "NOT") => not_allowed().with_hint("write `!` for not"),
        _ if written.starts_with(['"', '\'']) && message.contains("token recognition") => {
            let quote = written.chars().next().unwrap_or('"');
            let inner = written.get(1..).unwrap_or_default();
            if inner.strip_suffix(quote).is_none_or(|inner| inner.ends_with('\\')) {
                error("this string is not closed".to_owned())
                    .with_hint(format!("close it with `{quote}`; a backslash in it is written `\\\\`"))
            } else {
                error("this string contains an escape that CEL does not have".to_owned())
                    .with_hint("a backslash in it is written `\\\\`")
            }
        }
        _ if written.starts_with(['"', '\'']) && (is_name(previous) || previous == "]") => {
            not_allowed().with_hint(format!("compare it with the value before it: `… == {shown}`"))
        }
        _ if message.contains("token recognition") => error(format!("`{shown}` is not part of the language"))
            .with_hint("names have letters of ASCII, digits and `_`; put other text in quotes"),
        _ => not_allowed().with_hint("join conditions with `&&` and `||`, and put text in quotes"),
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
}

/// Returns the error for an unexpected closing bracket: it has no opening bracket, closes a bracket of another kind,
/// or closes an incomplete expression.
fn closing_bracket(text: &str, tokens: &[Span], token: Span) -> Diagnostic {
    let written = |span: &Span| span.of(text);
    let shown = written(&token);
    let open = open_brackets(text, tokens.iter().take_while(|earlier| earlier.start < token.start));
    let error = |message: String| Diagnostic::new(text, token, "syntax", message);
    let Some(bracket) = open.last() else {
        return error(format!("`{shown}` is not allowed here"))
            .with_hint("there is no opening bracket for it");
    };
    let closing = match written(bracket) {
        "(" => ")",
        "[" => "]",
        _ => "}",
    };
    if closing != shown {
        return error(format!("`{shown}` does not close `{}`", written(bracket)))
            .with_hint(format!("write `{closing}`"));
    }
    let error = error(format!("something is missing before `{shown}`"));
    let directly = tokens.iter().rev().find(|earlier| earlier.end <= token.start) == Some(bracket);
    match shown {
        "]" if directly => error.with_hint("name a key, as in `SpanAttributes[\"key\"]`"),
        _ if directly => error.with_hint("write a condition between the brackets, or leave them out"),
        _ => error.with_hint("complete the expression here, or remove the text before it"),
    }
}

fn unexpected_end(text: &str, tokens: &[Span]) -> Diagnostic {
    let last = tokens.last().copied().unwrap_or_default();
    let written = last.of(text);
    if let Some(bracket) = open_brackets(text, tokens.iter()).last() {
        let written = bracket.of(text);
        return Diagnostic::new(text, *bracket, "syntax", format!("this `{written}` is not closed"))
            .with_hint("add the closing bracket");
    }
    let error =
        Diagnostic::new(text, last, "syntax", format!("the expression ends too early, after `{written}`"));
    let count = |symbol| tokens.iter().filter(|token| token.of(text) == symbol).count();
    if count("?") > count(":") {
        return error.with_hint("write both branches: `condition ? one : other`");
    }
    error.with_hint("write what comes next, for instance a value to compare with")
}

/// Returns the brackets among the tokens that are not closed.
fn open_brackets<'a>(text: &str, tokens: impl Iterator<Item = &'a Span>) -> Vec<Span> {
    let mut open = Vec::new();
    for token in tokens {
        match text.as_bytes().get(token.start) {
            Some(b'(' | b'[' | b'{') => open.push(*token),
            Some(b')' | b']' | b'}') => drop(open.pop()),
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use tracewarden_model::AccessModel;

    #[test]
    fn positions_and_hints_match() {
        let check = |text: &str| {
            let errors = crate::check(text, &AccessModel::default()).unwrap_err();
            let error = &errors[0];
            assert_eq!(error.code, "syntax", "{text}: {error:?}");
            (error.line, error.column, error.length, error.hint.clone().unwrap_or_default())
        };
        for (text, line, column, length, hint) in [
            ("ServiceName = \"a\"", 1, 13, 1, "`==`"),
            ("a == \"a\" & b == \"b\"", 1, 10, 1, "`&&`"),
            ("true\n&& größe == 1", 2, 6, 1, "ASCII"),
            ("true\n&& a = \"x\"", 2, 6, 1, "`==`"),
            ("a and b", 1, 3, 3, "`&&`"),
            ("x == 'a' OR y == 'b'", 1, 10, 2, "`||`"),
            ("not a", 1, 1, 3, "`!(…)`"),
            ("a ==", 1, 3, 2, "comes next"),
            ("(a == b", 1, 1, 1, "closing bracket"),
            ("f([1, 2", 1, 3, 1, "closing bracket"),
            ("a == b)", 1, 7, 1, "opening"),
            ("a == \u{201c}x\u{201d}", 1, 6, 3, "straight"),
            ("a === b", 1, 3, 3, "`==`"),
            ("a <> b", 1, 3, 2, "`!=`"),
            ("a in (1,2)", 1, 6, 5, "`[1,2]`"),
            ("a == 'abc", 1, 6, 4, "close"),
            ("a b", 1, 3, 1, "join"),
            ("a ; b", 1, 3, 1, "quotes"),
            ("a ? b", 1, 5, 1, "both branches"),
            ("Service\u{202e}Name", 1, 8, 1, "delete"),
        ] {
            let found = check(text);
            assert_eq!((found.0, found.1, found.2), (line, column, length), "{text}: {}", found.3);
            assert!(found.3.contains(hint), "{text}: {}", found.3);
        }
    }
}
