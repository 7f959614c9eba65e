//! ClickHouse's answers with arbitrary bytes: never a shorter answer than was sent, and the same answer for every split.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use fuzzing::{parts, target, texts, within_time_limit};
use serde_json::Value;
use tracewarden_model::{Binding, Display};

use crate::client::Cost;
use crate::client::response::parse_rows;
use crate::read::lines::LineChecker;
use crate::schema::{MapKey, TableEngine, key_column_expression, only_name, parse_key_expression};
use crate::search::SelectedTrace;
use crate::sql::{quote, quote_literal};
use crate::{ClickHouseError, Grant, PrivilegeKind, Result};

/// The counted spans.
const TRACES: [(&str, u64); 3] = [("a", 2), ("b\n", 1), ("ü", 1)];

fn binding() -> Binding {
    Binding {
        database: "d".to_owned(),
        table: "t".to_owned(),
        trace_id: "Trace\"Id".to_owned(),
        span_id: "s".to_owned(),
        timestamp: "ts".to_owned(),
        parent_span_id: "p".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    }
}

/// Returns the output if the whole answer is accepted.
fn read(body: &[u8], pieces: impl Iterator<Item = usize>) -> Result<(Vec<u8>, u64)> {
    let traces = TRACES.map(|(id, spans)| SelectedTrace { id: id.to_owned(), spans });
    let mut checker = LineChecker::new(&binding(), &traces);
    let (mut lines, mut spans, mut rest) = (Vec::new(), 0, body);
    for piece in pieces {
        let (piece, after) = rest.split_at(piece.min(rest.len()));
        if let Some(chunk) = checker.take(Bytes::copy_from_slice(piece))? {
            assert!(chunk.lines.ends_with(b"\n"));
            lines.extend_from_slice(&chunk.lines);
            spans += chunk.spans;
        }
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    checker.finish().map(|()| (lines, spans))
}

/// Counts the spans of each trace with another parser.
fn span_counts(body: &[u8]) -> Option<HashMap<String, u64>> {
    let mut span_counts = HashMap::new();
    for line in body.strip_suffix(b"\n")?.split(|byte| *byte == b'\n') {
        let value = line.strip_prefix(b"{\"Trace\\\"Id\":")?;
        let id = serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()?;
        *span_counts.entry(id).or_insert(0) += 1;
    }
    Some(span_counts)
}

#[test]
fn lines() {
    let check = |body: &[u8]| {
        let whole = within_time_limit(|| read(body, std::iter::once(body.len())));
        for size in [1, 2, 3, 7, 16, 61] {
            assert_eq!(
                within_time_limit(|| read(body, std::iter::repeat(size))),
                whole,
                "in pieces of {size}"
            );
        }
        // Pieces whose sizes come from the bytes themselves.
        assert_eq!(read(body, body.iter().map(|byte| usize::from(*byte) + 1).cycle()), whole);
        match whole {
            Ok((lines, spans)) => {
                assert_eq!(lines, body);
                let span_counts = span_counts(body).unwrap();
                assert!(
                    TRACES.iter().all(|(id, spans)| span_counts.get(*id) >= Some(spans)),
                    "{span_counts:?}"
                );
                assert!(span_counts.len() == TRACES.len() && span_counts.values().sum::<u64>() == spans);
            }
            Err(
                ClickHouseError::IncompleteResponse(message) | ClickHouseError::Exception { message, .. },
            ) => {
                assert!(!message.is_empty())
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    let (a, b, u) = (
        "{\"Trace\\\"Id\":\"a\",\"x\":1}\n",
        "{\"Trace\\\"Id\":\"b\\n\"}\n",
        "{\"Trace\\\"Id\":\"\\u00fc\"}\n",
    );
    let seeds = texts([
        format!("{a}{a}{b}{u}"),
        format!("{u}{a}{b}{a}"),
        format!("{a}{a}{a}{b}{}", u.replace("\\u00fc", "ü")),
        format!("{a}{a}Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED)\n"),
        format!(
            "{a}{a}{b}{u}__exception__\r\nabc\r\nCode: 395. DB::Exception: x\r\n42 abc\r\n__exception__\r\n"
        ),
        format!("{a}{}", &a[..9]),
        "{\"Trace\\\"Id\":\"\\ud800\"}\n".to_owned(),
    ]);
    target!(seeds, check);
}

/// Answers as ClickHouse writes them, with failures after them.
fn answers() -> Vec<Vec<u8>> {
    let answer = r#"{
	"meta":
	[
		{
			"name": "name",
			"type": "String"
		},
		{
			"name": "n",
			"type": "UInt64"
		}
	],

	"data":
	[
		["Span\tName", 18446744073709551615],
		["a]}\"", -0.5]
	],

	"rows": 2,

	"rows_before_limit_at_least": 2,

	"statistics":
	{
		"elapsed": 0.001,
		"rows_read": 2,
		"bytes_read": 20
	}
}
"#;
    let exception = "Code: 241. DB::Exception: (total) memory limit exceeded: would use 1 GiB. (MEMORY_LIMIT_EXCEEDED) (version 26.7.1.1)\n";
    let before = answer.split_once("],\n\t\t[").unwrap().0;
    texts([
        answer.to_owned(),
        r#"{"meta":[],"data":[[1],[null],["x"]],"rows":3}"#.to_owned(),
        r#"{"data":[],"rows":0}"#.to_owned(),
        format!("{before}],\n{exception}"),
        format!(
            "{before}],\r\n__exception__\r\nabcdefghijklmnop\r\n{exception}121 abcdefghijklmnop\r\n__exception__\r\n"
        ),
        format!("{{\"data\":[[1]],\"rows\":1,\n\t\"exception\": {:?}}}", exception.trim()),
        exception.to_owned(),
        "Code: 159. DB::Exception: Timeout".to_owned(),
    ])
}

#[test]
fn collected_answers() {
    let check = |body: &[u8]| match within_time_limit(|| parse_rows::<Vec<Value>>(body)) {
        Ok(rows) => {
            // Ignored members may hold values that are not text.
            if let Ok(whole) = serde_json::from_slice::<Value>(body) {
                assert_eq!(whole["rows"].as_u64(), Some(rows.len() as u64));
            }
            // No truncation is accepted as an answer.
            let end = body.trim_ascii_end().len();
            for cut in (0..end).rev().step_by(end / 64 + 1) {
                let cut = parse_rows::<Vec<Value>>(&body[..cut]);
                assert!(matches!(cut, Err(ClickHouseError::IncompleteResponse(_))), "{cut:?}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    };
    target!(answers(), check);
}

#[test]
fn summaries() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Some(cost) = within_time_limit(|| Cost::from_summary(text, Duration::from_secs(1))) {
            let written = format!(
                "{{\"read_rows\":\"{}\",\"read_bytes\":\"{}\",\"elapsed_ns\":\"{}\"}}",
                cost.rows,
                cost.bytes,
                cost.elapsed.as_nanos()
            );
            assert_eq!(Cost::from_summary(&written, Duration::ZERO), Some(cost));
        }
    };
    let seeds = texts([
        r#"{"read_rows":"1000","read_bytes":"8000","written_rows":"0","elapsed_ns":"1830416","real_time_microseconds":"2"}"#,
        r#"{"read_rows":18446744073709551615,"read_bytes":"0"}"#,
        r#"{"read_rows":"-1","read_bytes":"x"}"#,
        "[]",
    ]);
    target!(seeds, check);
}

#[test]
fn grants() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Some(grant) = within_time_limit(|| Grant::parse(text)) {
            // Every privilege has a power, and none is lost.
            let count_of = |kind| grant.privileges_of(kind).count();
            let all = count_of(PrivilegeKind::Read)
                + count_of(PrivilegeKind::Metadata)
                + count_of(PrivilegeKind::External)
                + count_of(PrivilegeKind::Change);
            assert_eq!(all, grant.privileges.len());
            assert!(text.contains(&grant.object) && grant.privileges.iter().all(|name| text.contains(name)));
            let _ = grant.database();
        }
    };
    let seeds = texts([
        "GRANT SELECT ON otel.otel_traces TO tracewarden",
        "GRANT SHOW TABLES, SELECT(a, `b ON c`), INSERT(x) ON otel.* TO u WITH GRANT OPTION",
        "GRANT READ ON S3('https://x/.* TO .*') TO u",
        "GRANT SELECT ON `a.b\\``.`c TO d` TO u",
        "GRANT ALL ON *.* TO u",
        "GRANT reader TO u",
        "REVOKE SELECT ON system.* FROM u",
    ]);
    target!(seeds, check);
}

/// Column expressions and engine arguments.
#[test]
fn definitions() {
    let check = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let text = &*text;
        if let Some(name) = within_time_limit(|| only_name(text)) {
            assert_eq!(only_name(&quote(&name)), Some(name));
        }
        if let Some(MapKey { map, key }) = within_time_limit(|| parse_key_expression(text)) {
            assert!(text.contains("mapContains"), "{map:?} {key:?}");
        }
        let _ = within_time_limit(|| TableEngine::from_system_table("Distributed", text));
        let [one, other, third] = parts::<3>(input).map(|part| String::from_utf8_lossy(part).into_owned());
        // Written definitions parse again, whatever the names hold.
        assert_eq!(only_name(&quote(text)).as_deref(), Some(text));
        let key = MapKey { map: one.clone(), key: other.clone() };
        assert_eq!(parse_key_expression(&key_column_expression(&one, &other)), Some(key));
        let full = format!(
            "Distributed({}, {}, {}, rand())",
            quote_literal(&one),
            quote_literal(&other),
            quote(&third)
        );
        let engine = TableEngine::Distributed { cluster: one, database: other, table: third };
        assert_eq!(TableEngine::from_system_table("Distributed", &full), engine);
    };
    let seeds = texts([
        "if(mapContains(`SpanAttributes`, 'a\\'b'), mapValues(SpanAttributes)[indexOf(mapKeys(SpanAttributes), 'a\\'b')], NULL)",
        "`a \\`b\\\\`",
        "SpanAttributes",
        "Distributed('my cluster', otel, `t 1`, cityHash64(TraceId))",
        "Distributed(c, 'd', 't')",
        "a\0b'\\\0c`\n\t",
        "",
    ]);
    target!(seeds, check);
}
