//! Suggestions for functions that policies do not have, and for wrong calls of known functions.

use cel::IdedExpr;
use cel::common::ast::Expr;
use tracewarden_model::nearest::nearest;

use crate::check::suggestions::Suggester;
use crate::expression::Type;
use crate::syntax_errors::like_as_call;
use crate::syntax_tree::{is_user_attributes, text_literal};

/// The functions of the language, for suggestions.
pub(in crate::check) const FUNCTIONS: [&str; 9] =
    ["startsWith", "endsWith", "contains", "matches", "size", "has", "exists", "all", "exists_one"];

/// Returns the function of policies for a name from another language, in lower case without `_`.
fn function_for(name: &str) -> Option<&'static str> {
    Some(match name {
        "startswith" | "hasprefix" | "beginswith" | "startwith" | "prefix" => "startsWith",
        "endswith" | "hassuffix" | "endwith" | "suffix" => "endsWith",
        "includes" | "include" | "indexof" | "instr" | "has" | "hastoken" | "position" | "strpos" => {
            "contains"
        }
        "match" | "regex" | "regexmatch" | "regexp" | "rlike" | "test" | "find" | "search" | "like"
        | "ilike" | "glob" => "matches",
        "length" | "len" | "count" | "strlen" | "cardinality" => "size",
        "any" | "some" | "anymatch" | "filter" | "existsany" => "exists",
        "every" | "forall" | "allmatch" => "all",
        _ => return None,
    })
}

/// A call that policies do not have, as it was written.
struct WrittenCall<'a> {
    name: &'a str,
    /// The name in lower case without `_`.
    lower: String,
    /// The target and the arguments.
    operands: Vec<&'a IdedExpr>,
    /// Number of arguments without the target.
    arguments: usize,
    /// Text of the first operand.
    subject: String,
    /// Type of the first operand, if it is known.
    ty: Option<Type>,
    /// Texts of the other operands.
    rest: Vec<String>,
}

impl WrittenCall<'_> {
    /// Returns the text of the second operand.
    fn argument(&self) -> &str {
        self.rest.first().map_or("\"…\"", String::as_str)
    }
}

impl Suggester<'_> {
    /// Suggests what was probably intended. `types` are the types of the call's target and arguments, where they are
    /// known.
    pub(in crate::check) fn call(
        &self,
        name: &str,
        target: Option<&IdedExpr>,
        arguments: &[IdedExpr],
        types: &[Option<Type>],
    ) -> String {
        let operands: Vec<&IdedExpr> = target.into_iter().chain(arguments).collect();
        let text = |node: &&IdedExpr| self.parsed.snippet(node).unwrap_or("…").to_owned();
        let call = WrittenCall {
            name,
            lower: normalize_function_name(name),
            arguments: arguments.len(),
            subject: operands.first().map_or_else(|| "x".to_owned(), |node| self.parsed.operand(node, "x")),
            ty: types.first().copied().flatten(),
            rest: operands.iter().skip(1).map(text).collect(),
            operands,
        };
        // A map or the caller's attributes: `SpanAttributes.contains("env")`.
        if let Some(container) = call.operands.first()
            && (self.scope.map_named(container).is_some() || is_user_attributes(container))
            && call.operands.get(1).is_none_or(|key| text_literal(key).is_some())
        {
            let (subject, key) = (&call.subject, call.argument());
            return match call.lower.as_str() {
                "get" | "at" => format!("write `{subject}[{key}]`"),
                "size" | "length" | "len" => "a policy cannot count the keys of a map".to_owned(),
                _ => format!("to test for a key, write `{key} in {subject}`"),
            };
        }
        let other = self.library_replacement(&call.lower, &call.operands, types);
        if let Some(hint) = other.or_else(|| self.replacement(&call)) {
            return hint;
        }
        let known = FUNCTIONS
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(&call.lower) || *known == name)
            .or_else(|| function_for(&call.lower))
            .map(str::to_owned)
            .or_else(|| nearest(name, FUNCTIONS).into_iter().next());
        match known {
            Some(known) => self.correct_call(&known, &call),
            None => format!("policies know {}", FUNCTIONS.map(|name| format!("`{name}`")).join(", ")),
        }
    }

    /// Suggests a condition without a function of this kind.
    fn replacement(&self, call: &WrittenCall<'_>) -> Option<String> {
        let WrittenCall { lower, operands, subject, ty, rest, .. } = call;
        let first = call.argument();
        let is_list = *ty == Some(Type::List);
        Some(match lower.as_str() {
            "count" if call.arguments == 2 => {
                let (element, condition) = (first, rest.get(1).map_or("…", String::as_str));
                format!(
                    "to test for one or more, write `{subject}.exists({element}, {condition})`; for exactly \
                     one, `{subject}.exists_one({element}, {condition})`"
                )
            }
            "isempty" | "empty" | "notempty" | "isnotempty" if ty.is_some() => {
                let negated = lower.contains("not");
                let written = match (*ty, negated) {
                    (Some(Type::Text), false) => format!("{subject} == \"\""),
                    (Some(Type::Text), true) => format!("{subject} != \"\""),
                    (Some(Type::List | Type::Dynamic), false) => format!("size({subject}) == 0"),
                    (Some(Type::List | Type::Dynamic), true) => format!("size({subject}) > 0"),
                    _ => return Some("a boolean and a number are never empty: leave this out".to_owned()),
                };
                format!("write `{written}`")
            }
            "in" | "isin" | "oneof" if is_list => {
                format!("to test its elements, write `{subject}.exists(v, v in {})`", format_list(rest))
            }
            "equals" | "eq" | "equal" | "is" | "ne" | "notequals"
                if is_list && rest.len() == 1 && !first.starts_with('[') =>
            {
                format!("to look for an element, write `{first} in {subject}`")
            }
            "lower" | "upper" | "tolower" | "toupper" | "lowerascii" | "upperascii" | "tolowercase"
            | "touppercase" | "lcase" | "ucase" | "equalsignorecase" | "casefold" => {
                let test = "matches(\"(?i)^…$\")";
                let written = if is_list { format!("exists(v, v.{test})") } else { test.to_owned() };
                format!("to compare without regard to case, write `{subject}.{written}`")
            }
            "isnull" | "isempty" | "empty" | "isabsent" | "missing" | "notexists" => {
                match operands.first().and_then(|node| self.presence(node)) {
                    Some(presence) => format!("to test whether it is absent, write `!({presence})`"),
                    None => format!("to test whether it is empty, write `{subject} == \"\"`"),
                }
            }
            "isnotnull" | "defined" | "isset" | "present" | "notempty" | "coalesce" | "ifnull" | "exists"
                if operands.len() <= 2 && operands.len() == call.arguments =>
            {
                match operands.first().and_then(|node| self.presence(node)) {
                    Some(presence) => format!("to test whether it is present, write `{presence}`"),
                    None => "write `list.exists(v, v == \"…\")`, or `\"key\" in SpanAttributes` for a key"
                        .to_owned(),
                }
            }
            "hasrole" | "isinrole" | "inrole" => {
                let role = operands.last().filter(|node| text_literal(node).is_some());
                let role = role.map_or_else(|| "\"…\"".to_owned(), |node| self.parsed.operand(node, "\"…\""));
                format!("to test for a role, write `{role} in user.roles`")
            }
            "in" | "isin" | "oneof" => format!("write `{subject} in {}`", format_list(rest)),
            "equals" | "eq" | "equal" | "is" => format!("write `{subject} == {first}`"),
            "ne" | "notequals" => format!("write `{subject} != {first}`"),
            _ => return None,
        })
    }

    /// Suggests the correct call of the function, with the operands as written.
    fn correct_call(&self, known: &str, call: &WrittenCall<'_>) -> String {
        let WrittenCall { name: written, operands, subject, ty, .. } = call;
        let (rest, ty) = (call.rest.as_slice(), *ty);
        let on_text = |argument: &str| format!("{subject}.{known}({argument})");
        match known {
            "startsWith" | "endsWith" | "contains" | "matches" if ty == Some(Type::List) => {
                match (known, rest) {
                    ("contains", [element]) if !element.starts_with('[') => {
                        format!("to look for an element, write `{element} in {subject}`")
                    }
                    ("contains", [_, ..]) => {
                        let list = format_list(rest);
                        format!("to look for one of them, write `{subject}.exists(v, v in {list})`")
                    }
                    _ => {
                        let test = format!("{known}({})", call.argument());
                        format!("to test its elements, write `{subject}.exists(v, v.{test})`")
                    }
                }
            }
            "startsWith" | "endsWith" | "contains" | "matches"
                if matches!(ty, Some(Type::Bool | Type::Int)) =>
            {
                "only strings have this method: compare it with `==`".to_owned()
            }
            "matches" if matches!(rest, [_, flags] if is_flags(flags)) => {
                let written = with_flags(call.argument(), rest.last().map_or("", String::as_str));
                format!("flags belong in the pattern: write `{}`", on_text(&written))
            }
            "exists" | "all" | "exists_one" if ty == Some(Type::Text) => match rest {
                [list] if list.starts_with('[') => format!("it is one string: write `{subject} in {list}`"),
                [text] if text.starts_with(['"', '\'']) => {
                    format!("it is one string: write `{subject} == {text}`")
                }
                _ => format!("it is one string: compare it, as in `{subject} == \"…\"`"),
            },
            "startsWith" | "endsWith" | "contains" | "matches" => match rest {
                [] => format!("write `{}`", on_text("\"…\"")),
                // SQL patterns have another syntax.
                [argument] if written.to_lowercase().contains("like") => {
                    let folded = written.to_lowercase().contains("ilike");
                    let pattern = operands.get(1).and_then(|node| text_literal(node));
                    match pattern.map(|pattern| like_as_call(subject, pattern, folded)) {
                        Some(Some(call)) => format!("write `{call}`"),
                        Some(None) => "every string matches this: leave the condition out".to_owned(),
                        None => {
                            format!("write `{subject}.contains({argument})`, or `startsWith` or `endsWith`")
                        }
                    }
                }
                [argument] => format!("write `{}`", on_text(argument)),
                several => {
                    let calls: Vec<String> = several.iter().map(|argument| on_text(argument)).collect();
                    format!("it takes one value: write `{}`", calls.join(" || "))
                }
            },
            "size" => format!("write `size({subject})`"),
            "has" => match operands.first().and_then(|node| self.presence(node)) {
                Some(presence) => format!("write `{presence}`"),
                None => "write `has(SpanAttributes.key)` or `\"key\" in SpanAttributes`".to_owned(),
            },
            _ => {
                let is_element_name = operands.get(1).is_some_and(|node| matches!(node.expr, Expr::Ident(_)));
                let condition = match rest {
                    [element] if is_element_name => {
                        return format!("write `{subject}.{known}({element}, {element} == \"…\")`");
                    }
                    [condition] if !condition.starts_with(['"', '\'', '[']) => condition.as_str(),
                    [text] if text.starts_with(['"', '\'']) => {
                        return format!("write `{subject}.{known}(v, v == {text})`");
                    }
                    [list] => return format!("write `{subject}.{known}(v, v in {list})`"),
                    [variable, condition] => {
                        return format!("write `{subject}.{known}({variable}, {condition})`");
                    }
                    _ => "v == \"…\"",
                };
                // The unknown name in the condition is the element.
                let element: String =
                    condition.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect();
                let element = if element.is_empty() || self.scope.is_known(&element) {
                    "v".to_owned()
                } else {
                    element
                };
                format!("write `{subject}.{known}({element}, {condition})`")
            }
        }
    }
}

/// Formats arguments as a list. A single argument may already be a list.
fn format_list(arguments: &[String]) -> String {
    match arguments {
        [list] if !list.starts_with(['"', '\'']) => list.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Whether a literal looks like the flags of a pattern in other languages.
fn is_flags(literal: &str) -> bool {
    let flags = literal.trim_matches(['"', '\'']);
    literal.starts_with(['"', '\'']) && flags.len() <= 4 && flags.chars().all(|flag| "gimsu".contains(flag))
}

/// Returns the literal of a pattern with flags added; flags without effect are left out.
fn with_flags(pattern: &str, flags: &str) -> String {
    let flags: String = flags.chars().filter(|flag| "ims".contains(*flag)).collect();
    let Some(open) = pattern.find(['"', '\'']).filter(|_| !flags.is_empty()) else {
        return pattern.to_owned();
    };
    let (before, quoted) = pattern.split_at(open);
    let quote = if quoted.starts_with("\"\"\"") || quoted.starts_with("'''") { 3 } else { 1 };
    let (quote, rest) = quoted.split_at(quote);
    format!("{before}{quote}(?{flags}){rest}")
}

/// Normalises differences in case and underscores between languages.
pub(in crate::check) fn normalize_function_name(name: &str) -> String {
    name.to_lowercase().replace('_', "")
}
