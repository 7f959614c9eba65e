//! YAML reader for the subset that JSON can express.

use std::collections::BTreeSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::fault::{Fault, SourcePosition};
use super::limits::ValueBudget;
use super::node::{Lines, Node, NodeContent};
use crate::json::JsonNumber;

const EXPRESSION_ADVICE: &str = "put an expression in single quotes, or on the lines after `|`";

/// Parses a document.
///
/// # Errors
/// When the text is not YAML, or uses YAML features that are rejected here.
pub(super) fn read(text: &str, values: ValueBudget) -> Result<Node, Fault> {
    document(text, values).map_err(|fault| Fault { position: clamp_to_line(text, fault.position), ..fault })
}

/// Returns the position, limited to the end of its line: for an invalid directive, the parser counts bytes and may go past it. A
/// lone carriage return ends a line too.
fn clamp_to_line(text: &str, position: SourcePosition) -> SourcePosition {
    let text = text.replace("\r\n", "\n");
    let line = text.split(['\n', '\r']).nth(position.line.saturating_sub(1));
    let length = line.map(|line| line.chars().count());
    SourcePosition {
        column: length.map_or(position.column, |length| position.column.min(length + 1)),
        ..position
    }
}

fn document(text: &str, values: ValueBudget) -> Result<Node, Fault> {
    let mut reader = Reader { text, events: Parser::new_from_str(text), values };
    let start = SourcePosition { line: 1, column: 1 };
    let mut root = None;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return root.ok_or_else(|| Fault::new(start, "the document is empty")),
            (Event::StreamStart | Event::DocumentStart(_), _) if root.is_none() => {}
            (Event::DocumentEnd, _) if root.is_some() => {}
            (_, span) if root.is_some() => {
                return Err(Fault::new(position(&span), "a file must contain one document"));
            }
            (event, span) => root = Some(reader.node(event, span, 1)?),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    values: ValueBudget,
}

fn position(span: &Span) -> SourcePosition {
    SourcePosition { line: span.start.line(), column: span.start.col() + 1 }
}

/// Returns how the lines of a scalar are written in the document.
fn lines(text: &str, style: ScalarStyle, span: &Span) -> Lines {
    match style {
        // The span starts at the first line that is not empty; the text includes the empty lines before it.
        ScalarStyle::Literal => {
            let empty = text.bytes().take_while(|byte| *byte == b'\n').count();
            Lines::Preserved(span.start.line().saturating_sub(empty).max(1))
        }
        ScalarStyle::Folded => Lines::Joined,
        _ if span.start.line() != span.end.line() => Lines::Joined,
        _ if text.contains('\n') => Lines::Escaped,
        _ => Lines::Preserved(span.start.line()),
    }
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.unreadable(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn unreadable(&self, error: &ScanError) -> Fault {
        let marker = error.marker();
        let position = SourcePosition { line: marker.line(), column: marker.col() + 1 };
        let advice = if self.within_expression(position) { EXPRESSION_ADVICE } else { "" };
        let separator = if advice.is_empty() { "" } else { "; " };
        Fault::new(position, format!("not YAML: {}{separator}{advice}", error.info()))
    }

    /// Whether the position is probably in a policy's expression that begins with or contains a YAML indicator.
    fn within_expression(&self, position: SourcePosition) -> bool {
        let before = position.line.saturating_sub(2);
        self.text.lines().skip(before).take(position.line - before).any(|line| line.contains("expression:"))
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let position = position(&span);
        let refuse = |message: &str| Err(Fault::new(position, message));
        let unsupported = |what: &str, advice: &str| {
            let advice = if self.within_expression(position) { EXPRESSION_ADVICE } else { advice };
            Err(Fault::new(position, format!("{what} are not supported: {advice}")))
        };
        self.values.take(position, depth)?;
        let (anchor, tag) = match &event {
            Event::Alias(_) => return unsupported("aliases", "write the value out"),
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 {
            return unsupported("anchors", "write the value out");
        }
        if tag {
            return unsupported("tags", "write the value without a tag");
        }
        let scalar_lines = match &event {
            Event::Scalar(text, style, ..) => Some(lines(text, *style, &span)),
            _ => None,
        };
        let content = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => match plain_scalar(&text) {
                Some(content) => content,
                None => {
                    return refuse(&format!(
                        "YAML parsers interpret `{text}` in different ways: put it in quotes if it is text"
                    ));
                }
            },
            Event::Scalar(text, ..) => NodeContent::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break NodeContent::List(list),
                        (event, span) => list.push(self.node(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => self.members(depth)?,
            _ => return refuse("a value is expected"),
        };
        let lines = scalar_lines.filter(|_| matches!(content, NodeContent::Text(_)));
        Ok(Node { position, content, lines })
    }

    fn members(&mut self, depth: usize) -> Result<NodeContent, Fault> {
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        loop {
            let (event, span) = self.next()?;
            let at = position(&span);
            let name = match event {
                Event::MappingEnd => return Ok(NodeContent::Object(members)),
                Event::Scalar(name, style, 0, None) => {
                    if name == "<<" && style == ScalarStyle::Plain {
                        return Err(Fault::new(at, "merge keys are not supported: write the members out"));
                    }
                    name.into_owned()
                }
                Event::Scalar(..) | Event::Alias(_) => {
                    return Err(Fault::new(at, "names have neither anchors nor aliases nor tags"));
                }
                _ => return Err(Fault::new(at, "the name of a member must be text")),
            };
            if !names.insert(name.clone()) {
                return Err(Fault::new(at, format!("`{name}` appears twice")));
            }
            let (event, span) = self.next()?;
            members.push((name, at, self.node(event, span, depth + 1)?));
        }
    }
}

/// Returns the value of an unquoted word in YAML 1.2; `None` if readers of other YAML versions interpret it differently.
fn plain_scalar(text: &str) -> Option<NodeContent> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(NodeContent::Null),
        "true" | "True" | "TRUE" => return Some(NodeContent::Bool(true)),
        "false" | "False" | "FALSE" => return Some(NodeContent::Bool(false)),
        _ => {}
    }
    if ["yes", "no", "on", "off", "y", "n", ".inf", "+.inf", "-.inf", ".nan"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word))
    {
        return None;
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let numeric = |byte: u8| byte.is_ascii_digit() || b"._:eE+-xXoObBabcdefABCDEF".contains(&byte);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !digits.bytes().all(numeric)
    {
        return Some(NodeContent::Text(text.to_owned()));
    }
    number(text, digits)
}

/// Parses a text that looks like a number: a JSON number, or a string that no reader takes for a number, such as a date or a
/// version.
fn number(text: &str, digits: &str) -> Option<NodeContent> {
    let json = text.strip_prefix('+').unwrap_or(text);
    if let Some(number) = JsonNumber::parse(json) {
        return Some(NodeContent::Number(number));
    }
    let based = ["0x", "0X", "0o", "0b"].iter().any(|prefix| digits.starts_with(prefix));
    let octal =
        digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let grouped = digits.contains(['_', ':'])
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b"_:.".contains(&byte));
    let float = digits.parse::<f64>().is_ok();
    if based || octal || grouped || float { None } else { Some(NodeContent::Text(text.to_owned())) }
}
