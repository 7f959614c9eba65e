//! The only place where the CEL library parses text.

use std::sync::LazyLock;

use cel::common::ast::{EntryExpr, Expr, SourceInfo};
use cel::{Env, IdedExpr};

use crate::diagnostics::{Diagnostic, Span};
use crate::syntax_errors::{SuggestionCheck, syntax_errors};
use crate::tokens::{MAX_DEPTH, tokens, too_deep};

/// Enough stack for the parser's recursion on the deepest text within the limits, in a debug build. The operating
/// system allocates the pages only when they are used.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Parser without macro expansion: `exists`, `all` and `has` remain calls as written, with their positions in the
/// text.
static UNEXPANDED: LazyLock<Env> =
    LazyLock::new(|| Env::default().with_optional_support(false).with_stdlib());

/// Runs `work` on a thread with a stack large enough for deep recursion. `action` is for the message.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn on_deep_stack<T: Send>(
    action: &str,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Vec<Diagnostic>> {
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("policy".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    });
    done.ok_or_else(|| {
        let message = format!("the policy could not be {action}: no thread could be started");
        vec![Diagnostic::new("", Span::default(), "unavailable", message)]
    })
}

/// A parsed policy: the syntax tree as written and the positions of its nodes.
pub(crate) struct Parsed<'a> {
    pub(crate) text: &'a str,
    pub(crate) root: IdedExpr,
    source: SourceInfo,
    tokens: Vec<Span>,
}

/// Parses a policy within the limits. `check_suggestion` checks suggested corrections. Call it inside [`on_deep_stack`].
///
/// # Errors
/// If the text is not valid CEL, or exceeds a limit.
pub(crate) fn parse<'a>(
    text: &'a str,
    check_suggestion: &SuggestionCheck<'_>,
) -> Result<Parsed<'a>, Vec<Diagnostic>> {
    let tokens = tokens(text).map_err(|error| vec![error])?;
    if tokens.is_empty() {
        return Err(vec![
            Diagnostic::new(text, Span::new(0, 0), "syntax", "the expression is empty")
                .with_hint("write a condition such as `ServiceName == \"checkout\"`"),
        ]);
    }
    let (root, source) = UNEXPANDED.parser().parse_with_source_info(text).map_err(|errors| {
        let reported = errors.errors.iter().filter(|error| !error.msg.starts_with("Incomplete"));
        let first = reported.min_by_key(|error| error.pos);
        let (position, message) = first.map_or(((1, 1), ""), |error| (error.pos, error.msg.as_str()));
        let parses = |text: &str| {
            crate::tokens::tokens(text).is_ok() && UNEXPANDED.parser().parse_with_source_info(text).is_ok()
        };
        syntax_errors(text, &tokens, position, message, parses, check_suggestion)
    })?;
    let parsed = Parsed { text, root, source, tokens };
    parsed.refuse_deep_trees()?;
    Ok(parsed)
}

impl Parsed<'_> {
    /// Returns the range of text that a node covers, including brackets.
    pub(crate) fn span(&self, node: &IdedExpr) -> Span {
        let mut low = usize::MAX;
        let mut high = 0;
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            if let Some((start, stop)) = self.source.offset_for(node.id) {
                let own = self.widen_span(node, self.token_at(start as usize, stop as usize));
                low = low.min(own.start);
                high = high.max(own.end);
            }
            stack.extend(children(node));
        }
        if low > high {
            return Span::default();
        }
        self.balanced(Span::new(low, high))
    }

    fn token_at(&self, start: usize, stop: usize) -> Span {
        self.tokens
            .iter()
            .find(|token| token.start <= start && start < token.end)
            .copied()
            .unwrap_or_else(|| Span::new(start.min(self.text.len()), (stop + 1).min(self.text.len())))
    }

    /// Extends a span by a name: the parser places a call at its bracket and a selection at its dot, so the name
    /// before or after them is added.
    fn widen_span(&self, node: &IdedExpr, own: Span) -> Span {
        let at = self.tokens.iter().position(|token| token.start == own.start);
        let neighbour = |at: Option<usize>| at.and_then(|at| self.tokens.get(at)).copied();
        match (&node.expr, self.text.as_bytes().get(own.start)) {
            (Expr::Call(call), Some(b'(')) if call.target.is_none() => {
                let name = neighbour(at.and_then(|at| at.checked_sub(1)));
                name.map_or(own, |name| Span::new(name.start, own.end))
            }
            (Expr::Select(_), Some(b'.')) => {
                neighbour(at.map(|at| at + 1)).map_or(own, |name| Span::new(own.start, name.end))
            }
            _ => own,
        }
    }

    /// Extends a span to the right until the brackets that it opens are closed, because the parser places an index or
    /// a call at its opening bracket. Also extends it to the left for brackets that it closes: for `a` in `(a) && b`.
    fn balanced(&self, span: Span) -> Span {
        let mut open = 0_i32;
        let mut unopened = 0_i32;
        let mut end = span.end;
        let first = self.tokens.partition_point(|token| token.start < span.start);
        for token in self.tokens.iter().skip(first) {
            if token.start >= span.end && open <= 0 {
                break;
            }
            match self.text.as_bytes().get(token.start) {
                Some(b'(' | b'[' | b'{') => open += 1,
                Some(b')' | b']' | b'}') if open == 0 => unopened += 1,
                Some(b')' | b']' | b'}') => open -= 1,
                _ => {}
            }
            end = end.max(token.end);
        }
        let mut start = span.start;
        for token in self.tokens.iter().take(first).rev() {
            if unopened == 0 {
                break;
            }
            match self.text.as_bytes().get(token.start) {
                Some(b'(' | b'[' | b'{') => unopened -= 1,
                Some(b')' | b']' | b'}') => unopened += 1,
                _ => {}
            }
            start = token.start;
        }
        Span::new(start, end)
    }

    /// Rejects a tree that is deeper than the limit, using an explicit stack. Later tree walks may then recurse.
    fn refuse_deep_trees(&self) -> Result<(), Vec<Diagnostic>> {
        let mut stack = vec![(&self.root, 1_usize)];
        while let Some((node, depth)) = stack.pop() {
            if depth > MAX_DEPTH {
                let span = self
                    .source
                    .offset_for(node.id)
                    .map_or(Span::default(), |(start, stop)| self.token_at(start as usize, stop as usize));
                return Err(vec![too_deep(self.text, span)]);
            }
            stack.extend(children(node).into_iter().map(|child| (child, depth + 1)));
        }
        Ok(())
    }
}

pub(crate) fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
    match &node.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_children(&entry.expr)).collect(),
        Expr::Struct(fields) => fields.entries.iter().flat_map(|entry| entry_children(&entry.expr)).collect(),
        // The parser makes comprehensions only from macros, and this parser has no macros.
        Expr::Comprehension(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_children(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}
