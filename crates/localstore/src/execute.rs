//! Runs one statement, from the bytes of the request to the bytes of the response. Blocks, so it runs on its own
//! thread.

use std::io::{self, Read};
use std::os::fd::AsRawFd;

use crate::engine::{Connection, Progress, Query, QueryClass};
use crate::error::{EngineError, code};
use crate::http::compression::Encoding;
use crate::http::output::Output;
use crate::http::request::Request;
use crate::otlp::table::quote_identifier;
use crate::running::{self, Entry, MARK_COLUMN, PROCESSES_VIEW, RunningQuery, StopReason};
use crate::statement::{self, Analysis, InsertHeader, MAX_INSERT_HEADER_BYTES, StatementKind};

/// Maximum length of a statement other than an `INSERT` with data.
const MAX_STATEMENT_BYTES: usize = 64 << 20;
const INSERT_PART_BYTES: usize = 256 << 10;
/// Capacity of a pipe.
const ANSWER_PART_BYTES: usize = 64 << 10;
/// Directory where a process finds its own open files by number; the same on Linux and macOS.
const PIPE_DIRECTORY: &str = "/dev/fd/";
/// Words at which the engine's built-in command-line client exits instead of parsing a statement.
const CLIENT_EXIT_COMMANDS: [&str; 12] =
    ["exit", "quit", "logout", "учшеж", "йгше", "дщпщгеж", "exit;", "quit;", "logout;", "q", "й", "\\q"];

pub struct Job {
    pub request: Request,
    pub entry: Entry,
}

impl Job {
    /// Runs the statement and writes its result, or its error, to the output. `body` is not decoded.
    pub fn run(mut self, body: impl Read + Send, mut output: Output) {
        let result = match self.decoded_body(body) {
            Ok(mut body) => self.execute(&mut *body, &mut output),
            Err(error) => Err(body_error(error)),
        };
        let stop_error = self.entry.running.stop_error();
        // Releases the query id first: a client that has read the end may use the id again.
        drop(self);
        match stop_error.map_or(result, Err) {
            Ok(progress) => output.finish(progress),
            Err(error) => output.fail(error),
        }
    }

    /// Returns the decoded body. This already reads from the body, so it must run on this thread.
    fn decoded_body<'a>(&self, body: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
        let decoded = self.request.content_encoding.decode(body)?;
        if self.request.native_blocks { Encoding::Native.decode(decoded) } else { Ok(decoded) }
    }

    fn execute(&mut self, body: &mut dyn Read, output: &mut Output) -> Result<Progress, EngineError> {
        // Clients put the text of an `INSERT` into the URL; it can begin before its data arrives.
        let in_url =
            matches!(statement::analyse(&self.request.query).statement_kind, StatementKind::InsertData(_));
        let limit = if in_url { 0 } else { MAX_INSERT_HEADER_BYTES };
        let (mut text, complete) = self.read_statement(body, limit)?;
        let mut analysis = statement::analyse(&text);
        if !complete && !matches!(analysis.statement_kind, StatementKind::InsertData(_)) {
            let rest = read_rest(body)?;
            text.extend_from_slice(&rest);
            analysis = statement::analyse(&text);
        }
        self.refuse_client_features(&text, &analysis)?;
        let mut connection = self.connect()?;
        output.state.format = analysis.format.clone().or_else(|| self.request.default_format.clone());
        if let Some(error) = self.entry.running.stop_error() {
            return Err(error);
        }
        match &analysis.statement_kind {
            StatementKind::InsertData(header) => self.insert(&mut connection, &text, header, body),
            StatementKind::KillQuery => self.kill(&mut connection, &text, &analysis, output),
            StatementKind::Select | StatementKind::Other => {
                self.select_or_other(&mut connection, &text, &analysis, output)
            }
        }
    }

    /// Reads the text of the query parameter and at most `limit` bytes of the body. Returns whether the body ended
    /// there.
    fn read_statement(
        &mut self,
        source: &mut dyn Read,
        limit: usize,
    ) -> Result<(Vec<u8>, bool), EngineError> {
        let mut text = std::mem::take(&mut self.request.query);
        let mut body = Vec::new();
        source.take(limit as u64).read_to_end(&mut body).map_err(body_error)?;
        let complete = body.len() < limit;
        if !text.is_empty() && (!body.is_empty() || !complete) {
            text.push(b'\n');
        }
        text.extend_from_slice(&body);
        Ok((text, complete))
    }

    /// Rejects features of the engine's built-in command-line client that a server does not have.
    fn refuse_client_features(&self, text: &[u8], analysis: &Analysis) -> Result<(), EngineError> {
        if let Some(clause) = analysis.file_clause {
            return Err(file_clause_refused(clause));
        }
        let trimmed = String::from_utf8_lossy(text.get(..64).unwrap_or(text)).trim().to_lowercase();
        if CLIENT_EXIT_COMMANDS.contains(&trimmed.trim_end_matches(';').trim_end()) {
            return Err(EngineError::new(
                code::SYNTAX_ERROR,
                format_args!("Syntax error: failed at position 1 ({trimmed})"),
            ));
        }
        if analysis.first_keyword == "SET"
            && self.request.setting("readonly").is_some_and(|value| value == b"1")
        {
            return Err(EngineError::new(code::READONLY, "Cannot modify settings in readonly mode"));
        }
        Ok(())
    }

    /// Opens a connection with the settings and the database of the request.
    fn connect(&self) -> Result<Connection, EngineError> {
        let mut connection = self.entry.registry.engine.connect()?;
        let comment = self.request.setting("log_comment").unwrap_or_default();
        let comment = running::log_comment(&self.entry.running, comment);
        // These make the engine behave like a server. Each thread of parallel formatting would hold whole blocks of the
        // result in memory.
        let mut statement = b"SET implicit_select = '0', allow_introspection_functions = '0', \
              output_format_parallel_formatting = '0', log_comment = "
            .to_vec();
        quote_string(&mut statement, &comment);
        for (name, value) in self.request.settings.iter().filter(|(name, _)| name != "log_comment") {
            // The names are plain words.
            statement.extend_from_slice(format!(", {name} = ").as_bytes());
            quote_string(&mut statement, value);
        }
        connection.run(statement)?;
        if let Some(database) = &self.request.database {
            connection.run(format!("USE {}", quote_identifier(database)))?;
        }
        Ok(connection)
    }

    fn select_or_other(
        &self,
        connection: &mut Connection,
        text: &[u8],
        analysis: &Analysis,
        output: &mut Output,
    ) -> Result<Progress, EngineError> {
        let rewritten = statement::replace_processes_table(text, PROCESSES_VIEW);
        let text = rewritten.as_deref().unwrap_or(text);
        let query = Query { text, format: self.format(), params: &self.request.params };
        let class = connection.classify(text)?;
        match (class, &analysis.statement_kind) {
            (QueryClass::NotOneStatement, _) => return Err(connection.parse_error(query)),
            (QueryClass::Read, StatementKind::Select) => {
                if let Some(progress) = self.select(connection, text, output)? {
                    return Ok(progress);
                }
            }
            (QueryClass::Control, StatementKind::Select) => return Err(file_clause_refused("INTO OUTFILE")),
            _ => {}
        }
        let answer = connection.query(query)?;
        let progress = answer.progress();
        output.state.progress = progress;
        output.write(answer.as_ref().to_vec());
        Ok(progress)
    }

    /// Lets the engine write the result into a pipe. The engine's own streaming interface formats every part as a
    /// separate document, each with the header and footer of the format. Here the format sees the result as a whole,
    /// and a full pipe slows the engine down. Returns `None` if [`statement`] does not understand the text of the
    /// query.
    fn select(
        &self,
        connection: &mut Connection,
        text: &[u8],
        output: &mut Output,
    ) -> Result<Option<Progress>, EngineError> {
        let pipe_error = |error: io::Error| EngineError::local(format_args!("cannot make a pipe: {error}"));
        let (mut reader, writer) = io::pipe().map_err(pipe_error)?;
        let path = format!("{PIPE_DIRECTORY}{}", writer.as_raw_fd());
        let text = statement::with_outfile(text, &path, self.format());
        let query = Query { text: &text, format: self.format(), params: &self.request.params };
        // The engine's parser decides whether the clause is in a valid position.
        if connection.classify(&text)? != QueryClass::Control {
            return Ok(None);
        }
        let running = &self.entry.running;
        std::thread::scope(|scope| {
            let engine = scope.spawn(move || {
                let answer = connection.query(query).map(|answer| answer.progress());
                // The reader reaches the end when the last writer is closed.
                drop(writer);
                answer
            });
            let copied = copy_answer(&mut reader, output, running);
            // An engine that still writes gets an error instead of waiting for ever.
            drop(reader);
            let progress =
                engine.join().map_err(|_| EngineError::local("the statement's thread has ended"))?;
            // A stopped query may end without an error, so the stop is checked before the result counts as complete.
            running.stop_error().map_or(Ok(()), Err)?;
            let progress = progress?;
            copied.map_err(|error| EngineError::local(format_args!("cannot read the answer: {error}")))?;
            Ok(Some(progress))
        })
    }

    fn format(&self) -> &str {
        self.request.default_format.as_deref().unwrap_or("TabSeparated")
    }

    fn insert(
        &self,
        connection: &mut Connection,
        text: &[u8],
        header: &InsertHeader,
        body: &mut dyn Read,
    ) -> Result<Progress, EngineError> {
        let statement = text.get(..header.header_length).unwrap_or_default();
        let query = Query { text: statement, format: &header.format, params: &self.request.params };
        let mut insert = connection.insert(query)?;
        let mut accepted = insert.append(text.get(header.data_start..).unwrap_or_default());
        let mut part = Vec::with_capacity(INSERT_PART_BYTES);
        while accepted {
            part.clear();
            // A truncated body must not be treated as complete: dropping the insert cancels it.
            (&mut *body).take(INSERT_PART_BYTES as u64).read_to_end(&mut part).map_err(body_error)?;
            if let Some(error) = self.entry.running.stop_error() {
                return Err(error);
            }
            if part.is_empty() {
                break;
            }
            accepted = insert.append(&part);
        }
        insert.finish()
    }

    /// Writes the list of matching queries to the output, as ClickHouse does, and stops them.
    fn kill(
        &self,
        connection: &mut Connection,
        text: &[u8],
        analysis: &Analysis,
        output: &mut Output,
    ) -> Result<Progress, EngineError> {
        let Some((condition, only_test)) = statement::kill_condition(text) else {
            return Err(EngineError::new(
                code::SYNTAX_ERROR,
                "Syntax error: expected KILL QUERY WHERE <condition>",
            ));
        };
        let own_mark = &self.entry.running.mark;
        let mut find = format!(
            "SELECT {MARK_COLUMN} AS mark FROM {PROCESSES_VIEW} WHERE mark NOT IN ('', '{own_mark}') AND ("
        )
        .into_bytes();
        find.extend_from_slice(condition);
        find.extend_from_slice(b")");
        let params = self.request.params.as_slice();
        let found = connection.query(Query { text: &find, format: "TSVRaw", params })?;
        let marks: Vec<String> = String::from_utf8_lossy(found.as_ref()).lines().map(str::to_owned).collect();
        if marks.is_empty() {
            return Ok(Progress::default());
        }
        let list = marks.join("', '");
        let status = if only_test { "" } else { "waiting" };
        let answer = format!(
            "SELECT '{status}' AS kill_status, query_id, user, query FROM {PROCESSES_VIEW} WHERE {MARK_COLUMN} IN ('{list}')"
        );
        let format = analysis.format.as_deref().unwrap_or(self.format());
        let rows = connection.query(Query { text: answer.as_bytes(), format, params: &[] })?;
        let progress = rows.progress();
        output.write(rows.as_ref().to_vec());
        if !only_test {
            self.entry.registry.stop(&marks, StopReason::Cancelled);
        }
        Ok(progress)
    }
}

/// Copies a result to the output until its end, or until the query is stopped or the client disconnects.
fn copy_answer(reader: &mut io::PipeReader, output: &mut Output, running: &RunningQuery) -> io::Result<()> {
    loop {
        let mut part = vec![0_u8; ANSWER_PART_BYTES];
        let read = reader.read(&mut part)?;
        part.truncate(read);
        if read == 0 || running.stop_error().is_some() || !output.write(part) {
            return Ok(());
        }
    }
}

/// Appends a string literal that the engine parses back to the same bytes.
fn quote_string(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'\'');
    for byte in value {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            b'\\' | b'\'' => out.extend_from_slice(&[b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

fn file_clause_refused(clause: &str) -> EngineError {
    EngineError::new(code::INTO_OUTFILE_NOT_ALLOWED, format_args!("{clause} is not allowed"))
}

fn read_rest(body: &mut dyn Read) -> Result<Vec<u8>, EngineError> {
    let mut rest = Vec::new();
    body.take(MAX_STATEMENT_BYTES as u64).read_to_end(&mut rest).map_err(body_error)?;
    if rest.len() >= MAX_STATEMENT_BYTES {
        return Err(EngineError::new(code::QUERY_IS_TOO_LARGE, "The statement is too large"));
    }
    Ok(rest)
}

fn body_error(error: io::Error) -> EngineError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => EngineError::new(
            code::CANNOT_READ_ALL_DATA,
            format_args!("Cannot read all data of the body: {error}"),
        ),
        _ => EngineError::new(code::CANNOT_DECOMPRESS, format_args!("Cannot read the body: {error}")),
    }
}
