//! Determines the kind of a statement, and where the text of an `INSERT` ends and its data begins.

use crate::lexer::{Kind, Lexer, Token};

/// How a statement is passed to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementKind {
    /// Returns rows and may be long: streamed.
    Select,
    /// `INSERT` followed by data.
    InsertData(InsertHeader),
    /// `KILL QUERY WHERE ...`.
    KillQuery,
    Other,
}

/// The parts of `INSERT INTO t (a, b) FORMAT RowBinary <data>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertHeader {
    /// Length of the text before `FORMAT` or `VALUES`.
    pub header_length: usize,
    pub format: String,
    /// Offset of the data in the text.
    pub data_start: usize,
}

/// Properties of a statement's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    pub statement_kind: StatementKind,
    /// The format named in a trailing `FORMAT` clause.
    pub format: Option<String>,
    /// The first keyword, in upper case.
    pub first_keyword: String,
    /// `INTO OUTFILE` or `FROM INFILE`, with which the engine could write or read any file on this machine.
    pub file_clause: Option<&'static str>,
}

/// Maximum number of leading bytes of a request that can contain the text of an `INSERT` before its data (ClickHouse's
/// `max_query_size`).
pub const MAX_INSERT_HEADER_BYTES: usize = 262_144;

/// Analyses a whole statement or the beginning of an `INSERT`.
pub fn analyse(text: &[u8]) -> Analysis {
    let mut tokens = Lexer::new(text).skip_while(|token| token.kind == Kind::Punctuation(b'('));
    let first = tokens.next();
    let first_keyword = first.and_then(|token| token.name(text)).unwrap_or_default().to_ascii_uppercase();
    let mut analysis =
        Analysis { statement_kind: StatementKind::Other, format: None, first_keyword, file_clause: None };
    match analysis.first_keyword.as_str() {
        "INSERT" => {
            if let Some(header) = insert_header(text) {
                analysis.file_clause = file_clause(text.get(..header.header_length).unwrap_or_default());
                analysis.statement_kind = StatementKind::InsertData(header);
                return analysis;
            }
        }
        "SELECT" | "WITH" | "FROM" => analysis.statement_kind = StatementKind::Select,
        "KILL" if tokens.next().is_some_and(|token| token.is(text, "QUERY")) => {
            analysis.statement_kind = StatementKind::KillQuery
        }
        _ => {}
    }
    analysis.format = trailing_format(text).map(|(_, name)| name);
    analysis.file_clause = file_clause(text);
    analysis
}

fn file_clause(text: &[u8]) -> Option<&'static str> {
    let clause = |(before, after): (Token, Token)| {
        if before.is(text, "INTO") && after.is(text, "OUTFILE") {
            return Some("INTO OUTFILE");
        }
        (before.is(text, "FROM") && after.is(text, "INFILE")).then_some("FROM INFILE")
    };
    Lexer::new(text).zip(Lexer::new(text).skip(1)).find_map(clause)
}

/// Returns position and name of a `FORMAT` clause: outside brackets, and followed only by settings.
fn trailing_format(text: &[u8]) -> Option<(usize, String)> {
    let mut depth = 0_i64;
    let mut format = None;
    let mut tokens = Lexer::new(text).peekable();
    while let Some(token) = tokens.next() {
        match token.kind {
            Kind::Punctuation(b'(' | b'[') => depth += 1,
            Kind::Punctuation(b')' | b']') => depth -= 1,
            Kind::Word if depth == 0 && token.is(text, "FORMAT") => {
                let mut ahead = tokens.clone();
                let name = ahead.next().filter(|next| next.kind == Kind::Word);
                let ends = ahead
                    .next()
                    .is_none_or(|next| next.kind == Kind::Punctuation(b';') || next.is(text, "SETTINGS"));
                format = name
                    .and_then(|name| name.name(text))
                    .filter(|_| ends)
                    .map(|name| (token.start, name.to_owned()));
            }
            _ => {}
        }
    }
    format
}

/// Returns the query with a clause that makes the engine write the result to a file, in the format of the query or else
/// in `default_format`.
pub fn with_outfile(text: &[u8], path: &str, default_format: &str) -> Vec<u8> {
    let clause = format!(" INTO OUTFILE '{path}' APPEND ");
    let (before, after) = match trailing_format(text) {
        Some((at, _)) => (text.get(..at).unwrap_or_default(), text.get(at..).unwrap_or_default().to_vec()),
        None => {
            let last = Lexer::new(text).filter(|token| token.kind != Kind::Punctuation(b';')).last();
            let end = last.map_or(0, |token| token.end);
            (text.get(..end).unwrap_or_default(), format!("FORMAT {default_format}").into_bytes())
        }
    };
    [before, clause.as_bytes(), &after].concat()
}

/// Finds `FORMAT <name>` or `VALUES` of an `INSERT`; `None` for `INSERT ... SELECT` and for a text that ends before
/// either.
fn insert_header(text: &[u8]) -> Option<InsertHeader> {
    let mut depth = 0_i64;
    // The word after `INTO`, `TABLE`, `FUNCTION` or a dot is a name, even if it looks like a keyword.
    let mut name_follows = false;
    let mut opened = false;
    let mut tokens = Lexer::new(text).skip(1);
    while let Some(token) = tokens.next() {
        let was_opened = std::mem::replace(&mut opened, false);
        let is_name = std::mem::replace(&mut name_follows, false);
        let header = |format: &str, data_start| InsertHeader {
            header_length: token.start,
            format: format.to_owned(),
            data_start,
        };
        match token.kind {
            Kind::Punctuation(b'(') => {
                depth += 1;
                opened = depth == 1;
            }
            Kind::Punctuation(b')') => depth -= 1,
            Kind::Punctuation(b'.') => name_follows = true,
            Kind::Word if was_opened && token.is_any(text, &["SELECT", "WITH"]) => return None,
            Kind::Word if depth == 0 && !is_name => {
                if token.is_any(text, &["INTO", "TABLE", "FUNCTION"]) {
                    name_follows = true;
                } else if token.is_any(text, &["SELECT", "WITH", "FROM", "WATCH"]) {
                    return None;
                } else if token.is(text, "VALUES") {
                    return Some(header("Values", token.end));
                } else if token.is(text, "FORMAT") {
                    let name = tokens.next().filter(|next| next.kind == Kind::Word)?;
                    return Some(header(name.name(text)?, data_start(text, name.end)));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the start of the data: after the blanks that follow the format's name and at most one line break.
fn data_start(text: &[u8], after_format: usize) -> usize {
    let rest = text.get(after_format..).unwrap_or_default();
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | 0x0c)).count();
    let rest = rest.get(blanks..).unwrap_or_default();
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
    text.len() - rest.strip_prefix(b"\n").unwrap_or(rest).len()
}

/// Returns the condition of `KILL QUERY WHERE <condition> [SYNC|ASYNC|TEST] [FORMAT name]`, and whether the statement
/// is only a test.
pub fn kill_condition(text: &[u8]) -> Option<(&[u8], bool)> {
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let position = tokens.iter().position(|token| token.is(text, "WHERE"))?;
    let start = tokens.get(position)?.end;
    let tail = tokens.iter().skip(position).find(|token| {
        token.kind == Kind::Punctuation(b';')
            || token.is_any(text, &["SYNC", "ASYNC", "TEST", "FORMAT", "SETTINGS"])
    });
    let condition = text.get(start..tail.map_or(text.len(), |token| token.start))?;
    Some((condition, tail.is_some_and(|token| token.is(text, "TEST"))))
}

/// Replaces every table name `system.processes` with `replacement`.
pub fn replace_processes_table(text: &[u8], replacement: &str) -> Option<Vec<u8>> {
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    for (index, window) in tokens.windows(3).enumerate() {
        let [schema, dot, table] = window else { continue };
        let after_from = index.checked_sub(1).and_then(|before| tokens.get(before)).is_some_and(|token| {
            token.is(text, "FROM") || token.is(text, "JOIN") || token.kind == Kind::Punctuation(b',')
        });
        let named = |token: &Token, name: &str| token.name(text).is_some_and(|found| found == name);
        if after_from
            && named(schema, "system")
            && dot.kind == Kind::Punctuation(b'.')
            && named(table, "processes")
            && schema.start >= copied
        {
            out.extend_from_slice(text.get(copied..schema.start)?);
            out.extend_from_slice(replacement.as_bytes());
            copied = table.end;
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(text.get(copied..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(text: &str) -> Option<(&str, String, &str)> {
        match analyse(text.as_bytes()).statement_kind {
            StatementKind::InsertData(header) => {
                Some((&text[..header.header_length], header.format, &text[header.data_start..]))
            }
            _ => None,
        }
    }

    #[test]
    fn inserts_are_split_from_their_data() {
        assert_eq!(
            insert("INSERT INTO t (a, format) FORMAT RowBinary\nXY"),
            Some(("INSERT INTO t (a, format) ", "RowBinary".into(), "XY"))
        );
        assert_eq!(
            insert("insert into values values (1)"),
            Some(("insert into values ", "Values".into(), " (1)"))
        );
        assert_eq!(
            insert("INSERT INTO db.format SETTINGS x='format y' FORMAT CSV  \r\n1"),
            Some(("INSERT INTO db.format SETTINGS x='format y' ", "CSV".into(), "1"))
        );
        assert_eq!(insert("INSERT INTO t FORMAT CSV\n\n1").map(|parts| parts.2), Some("\n1"));
        for other in [
            "INSERT INTO t SELECT 1",
            "INSERT INTO t (a) SELECT 'FORMAT x'",
            "INSERT INTO t (SELECT 1)",
            "INSERT INTO t",
            "INSERT INTO t WITH 1 AS x SELECT x",
        ] {
            assert_eq!(insert(other), None, "{other}");
        }
    }

    #[test]
    fn formats_and_kinds_are_recognised() {
        let analysis =
            analyse(b"-- c\n(SELECT format(a) FROM (SELECT 1 FORMAT CSV)) FORMAT JSON SETTINGS x=1");
        assert_eq!(
            (analysis.statement_kind, analysis.format.as_deref()),
            (StatementKind::Select, Some("JSON"))
        );
        assert_eq!(analyse(b"kill /* */ query where 1").statement_kind, StatementKind::KillQuery);
        assert_eq!(analyse(b"select 1 into  outfile 'x'").file_clause, Some("INTO OUTFILE"));
        assert_eq!(analyse(b"select 'into outfile'").file_clause, None);
    }

    #[test]
    fn the_outfile_goes_before_the_format() {
        let with = |text: &str| String::from_utf8(with_outfile(text.as_bytes(), "/f", "TSV")).unwrap();
        assert_eq!(with("SELECT 1 -- FORMAT x"), "SELECT 1 INTO OUTFILE '/f' APPEND FORMAT TSV");
        assert_eq!(with("SELECT format FROM t;"), "SELECT format FROM t INTO OUTFILE '/f' APPEND FORMAT TSV");
        assert_eq!(
            with("SELECT 1\nFORMAT JSON SETTINGS a = 1"),
            "SELECT 1\n INTO OUTFILE '/f' APPEND FORMAT JSON SETTINGS a = 1"
        );
        assert_eq!(
            with("SELECT 1 SETTINGS a = 1;"),
            "SELECT 1 SETTINGS a = 1 INTO OUTFILE '/f' APPEND FORMAT TSV"
        );
    }

    #[test]
    fn kill_conditions_end_before_the_mode() {
        assert_eq!(
            kill_condition(b"KILL QUERY WHERE query_id = 'a' SYNC"),
            Some((b" query_id = 'a' ".as_slice(), false))
        );
        assert_eq!(kill_condition(b"KILL QUERY WHERE user='x' TEST"), Some((b" user='x' ".as_slice(), true)));
        assert_eq!(kill_condition(b"KILL QUERY"), None);
    }

    #[test]
    fn only_the_processes_table_is_replaced() {
        let replaced =
            replace_processes_table(b"SELECT 'system.processes' FROM system.processes AS p", "(X)").unwrap();
        assert_eq!(replaced, b"SELECT 'system.processes' FROM (X) AS p");
        assert_eq!(replace_processes_table(b"SELECT 1 FROM system.one", "(X)"), None);
    }
}
