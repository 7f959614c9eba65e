//! Checks the lines of an answer: each is whole and a span of a selected trace, and none is missing at the end.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use tracewarden_model::Binding;

use crate::client::response_memory::ResponseMemory;
use crate::search::SelectedTrace;
use crate::{ClickHouseError, Result};

/// Maximum size of a span, in bytes of JSON. Larger than any span that a collector accepts.
const MAX_LINE_BYTES: usize = 256 * 1024 * 1024;

/// A number of whole spans.
#[derive(Debug, Clone)]
pub struct SpanChunk {
    /// Lines, each one JSON object and a newline; no newline occurs within one.
    pub lines: Bytes,
    /// Number of lines.
    pub spans: u64,
}

/// Splits an answer into whole lines and counts each trace's spans.
pub(crate) struct LineChecker {
    /// The beginning of every line, up to the trace id.
    prefix: Vec<u8>,
    /// Number of spans still to come, by trace id.
    missing: HashMap<String, i128>,
    /// The trace id of the previous line, as written there, quotes included.
    current: Vec<u8>,
    current_id: String,
    /// The beginning of a line that is incomplete.
    partial: BytesMut,
    memory: ResponseMemory,
}

impl LineChecker {
    pub(crate) fn new(binding: &Binding, traces: &[SelectedTrace]) -> Self {
        let name = serde_json::Value::from(binding.trace_id.as_str());
        Self {
            prefix: format!("{{{name}:").into_bytes(),
            missing: traces.iter().map(|trace| (trace.id.clone(), i128::from(trace.spans))).collect(),
            current: Vec::new(),
            current_id: String::new(),
            partial: BytesMut::new(),
            memory: ResponseMemory::default(),
        }
    }

    pub(crate) fn take(&mut self, bytes: Bytes) -> Result<Option<SpanChunk>> {
        let Some(end) = memchr::memrchr(b'\n', &bytes) else {
            if self.partial.len() + bytes.len() > MAX_LINE_BYTES {
                return Err(ClickHouseError::failed("a span is too large"));
            }
            self.memory.reserve(self.partial.len() + bytes.len())?;
            self.partial.extend_from_slice(&bytes);
            return Ok(None);
        };
        let whole = bytes.slice(..=end);
        let rest = bytes.slice(end + 1..);
        let lines = if self.partial.is_empty() {
            whole
        } else {
            self.partial.extend_from_slice(&whole);
            self.memory = ResponseMemory::default();
            self.partial.split().freeze()
        };
        self.partial.extend_from_slice(&rest);
        let mut spans = 0;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &lines) {
            self.check(lines.get(start..end).unwrap_or_default())?;
            spans += 1;
            start = end + 1;
        }
        Ok(Some(SpanChunk { lines, spans }))
    }

    /// A line that is not a span of a selected trace is the text of an exception, or a fault: either way the page fails.
    fn check(&mut self, line: &[u8]) -> Result<()> {
        let value = line.strip_prefix(self.prefix.as_slice()).filter(|_| line.ends_with(b"}"));
        let Some(value) = value else { return Err(unexpected_line(line)) };
        if self.current.is_empty() || !value.starts_with(&self.current) {
            let mut strings = serde_json::Deserializer::from_slice(value).into_iter::<String>();
            let Some(Ok(id)) = strings.next() else { return Err(unexpected_line(line)) };
            self.current = value.get(..strings.byte_offset()).unwrap_or_default().to_vec();
            self.current_id = id;
        }
        let Some(missing) = self.missing.get_mut(&self.current_id) else {
            return Err(ClickHouseError::failed("a span of another trace arrived"));
        };
        *missing -= 1;
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        if !self.partial.is_empty() {
            return Err(unexpected_line(&self.partial));
        }
        match self.missing.values().filter(|missing| **missing > 0).count() {
            0 => Ok(()),
            short => Err(ClickHouseError::IncompleteResponse(format!(
                "{short} traces arrived with fewer spans than were counted"
            ))),
        }
    }
}

/// The text of the line is for the log. It is withheld when it begins like a row, since rows hold span data.
fn unexpected_line(line: &[u8]) -> ClickHouseError {
    let text = match line.first() {
        Some(b'{') => "(not shown, it may contain span data)".to_owned(),
        _ => String::from_utf8_lossy(line).chars().take(300).collect(),
    };
    ClickHouseError::failed(format!("not a span: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracewarden_model::Display;

    fn checker(traces: &[(&str, u64)]) -> LineChecker {
        let binding = Binding {
            database: "d".to_owned(),
            table: "t".to_owned(),
            trace_id: "Trace\"Id".to_owned(),
            span_id: "s".to_owned(),
            timestamp: "ts".to_owned(),
            parent_span_id: "p".to_owned(),
            trace_index: None,
            display: Display::default(),
            ..Binding::default()
        };
        let traces: Vec<SelectedTrace> =
            traces.iter().map(|(id, spans)| SelectedTrace { id: (*id).to_owned(), spans: *spans }).collect();
        LineChecker::new(&binding, &traces)
    }

    fn run(traces: &[(&str, u64)], body: &str, piece: usize) -> Result<u64> {
        let mut checker = checker(traces);
        let mut spans = 0;
        for piece in body.as_bytes().chunks(piece) {
            spans += checker.take(Bytes::copy_from_slice(piece))?.map_or(0, |chunk| chunk.spans);
        }
        checker.finish().map(|()| spans)
    }

    #[test]
    fn any_split_gives_the_same_lines() {
        let body =
            "{\"Trace\\\"Id\":\"a\",\"x\":1}\n{\"Trace\\\"Id\":\"a\",\"x\":2}\n{\"Trace\\\"Id\":\"b\\n\"}\n";
        for piece in 1..body.len() {
            assert_eq!(run(&[("a", 2), ("b\n", 1)], body, piece), Ok(3), "{piece}");
        }
    }

    #[test]
    fn errors_contain_no_span_data() {
        let cut = run(&[("a", 2)], "{\"Trace\\\"Id\":\"a\",\"secret", 7).unwrap_err().to_string();
        assert!(!cut.contains("secret"), "{cut}");
        let failed = run(&[("a", 2)], "Code: 241. DB::Exception\n", 7).unwrap_err().to_string();
        assert!(failed.contains("Code: 241"), "{failed}");
    }

    #[test]
    fn truncated_and_foreign_answers_fail() {
        let line = "{\"Trace\\\"Id\":\"a\"}\n";
        assert!(matches!(run(&[("a", 2)], line, 7), Err(ClickHouseError::IncompleteResponse(_))));
        assert!(run(&[("a", 1)], line.trim_end(), 7).is_err());
        assert!(run(&[("b", 1)], line, 7).is_err());
        // Also if no span is missing.
        let foreign = line.replace("\"a\"", "\"b\"");
        assert!(run(&[("a", 1)], &format!("{line}{foreign}"), 7).is_err());
        assert!(run(&[("a", 1)], &format!("{line}Code: 241. DB::Exception: Memory limit\n"), 5).is_err());
        assert!(run(&[("a", 1)], &format!("{line}__exception__\r\nabc\r\nCode: 241\n"), 5).is_err());
        // More spans may have arrived since they were counted.
        assert_eq!(run(&[("a", 1)], &line.repeat(3), 11), Ok(3));
    }
}
