//! Patterns of `matches`, limited to syntax that means the same in ClickHouse's RE2 and in the engine of the reference
//! evaluator.
//!
//! The pattern is parsed and written again from its syntax tree, once for each engine. CEL uses RE2 semantics, so `\d
//! \w \s \b` are ASCII-only. Syntax that the engines could interpret differently is rejected.

mod error;
mod prefix;
mod size;

use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassAsciiKind, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, Flag,
    Flags, FlagsItemKind, GroupKind, Literal, RepetitionKind, RepetitionRange, parse::ParserBuilder,
};

pub use error::PatternError;
use size::{expanded, nested_repeats};

/// Maximum count of a repetition, and of the product of nested repetitions: the limit of RE2. RE2 rejects larger
/// counts only on first use of the pattern, which would fail the queries of every user with the role.
const MAX_REPEAT: u32 = 1_000;
/// Maximum nesting depth of groups and repetitions.
const MAX_NESTING: u32 = 32;
/// Maximum number of positions of the pattern with its repetitions expanded. Matching takes at most that many steps
/// per byte of text, on every span that is read. Both engines compile much larger patterns, so an accepted pattern
/// never fails to compile later.
const MAX_EXPANDED: u64 = 1_000;

/// A pattern in both dialects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The pattern as it was written.
    pub(crate) text: String,
    /// Pattern for ClickHouse's `match`.
    pub re2: String,
    /// Pattern for the reference evaluator.
    pub reference: String,
    /// Prefix, in this letter case, of every text that matches.
    pub(crate) prefix: Option<String>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The reason for which the pattern is rejected.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let parsed = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(text);
        let ast = parsed.map_err(|error| PatternError::syntax(text, &error))?;
        if expanded(&ast) > MAX_EXPANDED {
            let message =
                format!("the pattern is too large: written out it has more than {MAX_EXPANDED} positions");
            return Err(PatternError::new(None, message, "use `+` or `*` in place of large counts"));
        }
        if nested_repeats(&ast) > u64::from(MAX_REPEAT) {
            let message = format!("repetitions, also within each other, are at most {MAX_REPEAT}");
            return Err(PatternError::new(None, message, "use `+` or `*` in place of large counts"));
        }
        // In ClickHouse, `.` matches newlines by default.
        let mut re2 = Writer { text, out: "(?-s)".to_owned(), boundary: "\\b", folded: false };
        re2.write(&ast)?;
        let mut reference = Writer { text, out: String::new(), boundary: "(?-u:\\b)", folded: false };
        reference.write(&ast)?;
        let prefix = prefix::prefix(&ast);
        Ok(Self { text: text.to_owned(), re2: re2.out, reference: reference.out, prefix })
    }
}

/// Writes a pattern in one of the dialects.
struct Writer<'a> {
    /// The pattern as it was written.
    text: &'a str,
    out: String,
    boundary: &'static str,
    folded: bool,
}

impl Writer<'_> {
    fn write(&mut self, ast: &Ast) -> Result<(), PatternError> {
        match ast {
            Ast::Empty(_) => {}
            Ast::Flags(set) => {
                let flags = self.flags(&set.flags)?;
                self.out.push_str(&format!("(?{flags})"));
            }
            Ast::Literal(literal) => self.literal(literal)?,
            Ast::Dot(_) => self.out.push('.'),
            Ast::Assertion(assertion) => self.assertion(assertion)?,
            Ast::ClassPerl(class) => self.out.push_str(&format!("[{}]", perl(class, true)?)),
            Ast::ClassBracketed(class) => {
                self.out.push_str(if class.negated { "[^" } else { "[" });
                match &class.kind {
                    ClassSet::Item(item) => self.item(item)?,
                    ClassSet::BinaryOp(_) => {
                        return Err(PatternError::new(
                            Some(&class.span),
                            "`&&`, `--` and `~~` within brackets are not supported",
                            "list the characters, and put `\\` before special characters",
                        ));
                    }
                }
                self.out.push(']');
            }
            Ast::ClassUnicode(class) => {
                return Err(PatternError::new(
                    Some(&class.span),
                    "Unicode classes such as `\\p{L}` are not supported: engines differ about them",
                    "list the characters, for instance `[A-Za-z]`",
                ));
            }
            Ast::Repetition(repetition) => {
                // RE2 rejects it, and in other engines `a++` does not mean `(a+)+`.
                if matches!(*repetition.ast, Ast::Repetition(_)) {
                    return Err(PatternError::new(
                        Some(&repetition.op.span),
                        "two repetitions follow each other",
                        "leave one out, or put a group between them: `(?:a+)?`",
                    ));
                }
                self.out.push_str("(?:");
                self.write(&repetition.ast)?;
                self.out.push(')');
                match &repetition.op.kind {
                    RepetitionKind::ZeroOrOne => self.out.push('?'),
                    RepetitionKind::ZeroOrMore => self.out.push('*'),
                    RepetitionKind::OneOrMore => self.out.push('+'),
                    RepetitionKind::Range(RepetitionRange::Exactly(n)) => {
                        self.out.push_str(&format!("{{{}}}", n));
                    }
                    RepetitionKind::Range(RepetitionRange::AtLeast(n)) => {
                        self.out.push_str(&format!("{{{},}}", n));
                    }
                    RepetitionKind::Range(RepetitionRange::Bounded(low, high)) => {
                        self.out.push_str(&format!("{{{},{}}}", low, high));
                    }
                }
                if !repetition.greedy {
                    self.out.push('?');
                }
            }
            Ast::Group(group) => {
                let outside = self.folded;
                match &group.kind {
                    GroupKind::NonCapturing(flags) if !flags.items.is_empty() => {
                        let flags = self.flags(flags)?;
                        self.out.push_str(&format!("(?{flags}:"));
                    }
                    _ => self.out.push_str("(?:"),
                }
                self.write(&group.ast)?;
                self.out.push(')');
                self.folded = outside;
            }
            Ast::Alternation(alternation) => {
                for (at, branch) in alternation.asts.iter().enumerate() {
                    if at > 0 {
                        self.out.push('|');
                    }
                    self.write(branch)?;
                }
            }
            Ast::Concat(concat) => {
                for part in &concat.asts {
                    self.write(part)?;
                }
            }
        }
        Ok(())
    }

    fn flags(&mut self, flags: &Flags) -> Result<String, PatternError> {
        let mut written = String::new();
        let mut negated = false;
        for item in &flags.items {
            match &item.kind {
                FlagsItemKind::Negation => {
                    negated = true;
                    written.push('-');
                }
                FlagsItemKind::Flag(Flag::CaseInsensitive) => {
                    self.folded = !negated;
                    written.push('i');
                }
                FlagsItemKind::Flag(Flag::MultiLine) => written.push('m'),
                FlagsItemKind::Flag(Flag::DotMatchesNewLine) => written.push('s'),
                FlagsItemKind::Flag(_) => {
                    return Err(PatternError::new(
                        Some(&item.span),
                        "only the flags `i`, `m` and `s` are supported",
                        "leave the others out",
                    ));
                }
            }
        }
        Ok(written)
    }

    fn literal(&mut self, literal: &Literal) -> Result<(), PatternError> {
        let character = literal.c;
        // The engines' case-folding tables come from different Unicode versions.
        if self.folded && !character.is_ascii() {
            return Err(PatternError::new(
                Some(&literal.span),
                format!("`{character}` cannot be matched without regard to case: only ASCII can"),
                "list both cases, as in `[äÄ]`, outside of `(?i)`",
            ));
        }
        self.out.push_str(&written(character));
        Ok(())
    }

    fn assertion(&mut self, assertion: &Assertion) -> Result<(), PatternError> {
        let text = match assertion.kind {
            AssertionKind::StartLine => "^",
            AssertionKind::EndLine => "$",
            AssertionKind::StartText => "\\A",
            AssertionKind::EndText => "\\z",
            AssertionKind::WordBoundary => self.boundary,
            AssertionKind::NotWordBoundary => {
                return Err(PatternError::new(
                    Some(&assertion.span),
                    // RE2 matches `\B` between the bytes of a non-ASCII character, the reference engine does not.
                    "`\\B` is not supported: engines differ about it",
                    "list the characters instead, for instance `[A-Za-z0-9_]`",
                ));
            }
            _ => {
                return Err(PatternError::new(
                    Some(&assertion.span),
                    "this assertion is not supported",
                    "write `^`, `$`, `\\A`, `\\z` or `\\b`",
                ));
            }
        };
        self.out.push_str(text);
        Ok(())
    }

    fn item(&mut self, item: &ClassSetItem) -> Result<(), PatternError> {
        match item {
            ClassSetItem::Empty(_) => {}
            ClassSetItem::Literal(literal) => self.literal(literal)?,
            ClassSetItem::Range(range) => {
                self.literal(&range.start)?;
                self.out.push('-');
                self.literal(&range.end)?;
            }
            ClassSetItem::Perl(class) => self.out.push_str(&perl(class, false)?),
            ClassSetItem::Ascii(class) if !class.negated && class.kind != ClassAsciiKind::Word => {
                let written = self.text.get(class.span.start.offset..class.span.end.offset);
                self.out.push_str(written.unwrap_or_default());
            }
            ClassSetItem::Union(union) => {
                for item in &union.items {
                    self.item(item)?;
                }
            }
            _ => {
                return Err(PatternError::new(
                    Some(item.span()),
                    "this kind of class is not supported",
                    "list the characters, for instance `[A-Za-z0-9]`",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the ASCII meaning of `\d \s \w` as the content of a class. Negated ones are only supported outside
/// brackets.
fn perl(class: &ClassPerl, alone: bool) -> Result<String, PatternError> {
    let inside = match class.kind {
        ClassPerlKind::Digit => "0-9",
        ClassPerlKind::Space => "\\t\\n\\x0C\\r ",
        ClassPerlKind::Word => "0-9A-Za-z_",
    };
    match (class.negated, alone) {
        (false, _) => Ok(inside.to_owned()),
        (true, true) => Ok(format!("^{inside}")),
        (true, false) => Err(PatternError::new(
            Some(&class.span),
            "`\\D`, `\\S` and `\\W` are not supported within brackets",
            "put them outside, as in `(?:[abc]|\\D)`",
        )),
    }
}

/// Escapes a character so that both engines read it literally.
fn written(character: char) -> String {
    if character.is_ascii_alphanumeric() {
        character.to_string()
    } else {
        format!("\\x{{{:X}}}", u32::from(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perl_classes_are_ascii() {
        let pattern = Pattern::parse("^v\\d+\\.[\\w-]*$").unwrap();
        assert_eq!(pattern.re2, "(?-s)^v(?:[0-9])+\\x{2E}(?:[0-9A-Za-z_\\x{2D}])*$");
        assert_eq!(Pattern::parse("\\bx").unwrap().reference, "(?-u:\\b)x");
    }

    #[test]
    fn patterns_that_engines_may_interpret_differently_are_refused() {
        for text in [
            "\\p{L}",
            "a{1001}",
            "(?x) a",
            "[a&&b]",
            "(?i)ä",
            "(",
            "[\\D]",
            "(?u)a",
            "((a{90}){90})",
            "((a{40}){40})",
            "((a{2,}){600})",
            "a{1000}{2}",
            "\\b{start}",
            "a\\Bb",
            "[[:^digit:]]",
            "[a[:^alpha:]]",
            "[[:word:]]",
            "[[:^word:]]",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        assert!(Pattern::parse(&"(".repeat(4_000)).is_err());
    }
}
