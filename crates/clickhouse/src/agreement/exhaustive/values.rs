//! Hostile strings of maps, and hostile values of JSON documents.

use tracewarden_model::{LogicalType, Number};
use tracewarden_policy::FieldValue;

fn bytes(values: &[&[u8]]) -> Vec<FieldValue> {
    values.iter().map(|bytes| FieldValue::String(bytes.to_vec())).collect()
}

/// Returns strings of a map that represent values of another type, and strings that do not.
pub(super) fn map_strings(logical: LogicalType) -> Vec<FieldValue> {
    let deep = "[".repeat(600);
    let texts: &[&[u8]] = match logical {
        LogicalType::Boolean => {
            &[b"true", b"false", b"", b"True", b"1", b"true\n", b" true", b"\xff", b"true\0", b"null"]
        }
        LogicalType::Number => &[
            b"0",
            b"5",
            b"5.0",
            b"-0",
            b"1e3",
            b"nan",
            b"inf",
            b"-inf",
            b"",
            b"x",
            b"1x",
            b"\xff",
            b"9223372036854775807",
            b"9223372036854775808",
            b"-9223372036854775808",
            b"18446744073709551615",
            b"18446744073709551616",
            b"9007199254740993",
            b"9223372036854775807.0",
            b"18446744073709551615.99999999999999999999",
            b"5.000000000000000000000000000001",
            b"+5",
            b"005.00",
            b".1",
            b"5.",
            b"-0.0010",
            b"-0.0",
            b"0.5e1",
            b"50E-01",
            b"1E+400",
            b"-1e99999999999999999999",
            b"1e-99999999999999999999",
            b"0e99999999999999999999",
            b"+Inf",
            b"-infinity",
            b"-nan",
            b"1e",
            b"e5",
            b".",
            b"+",
            b"1_0",
            b"0x10",
            b"1\n",
            b" 1",
        ],
        _ => &[
            b"[]",
            b"[\"a\"]",
            b"[\"a\",\"prod\",\"a\"]",
            b" [ \"\" ] ",
            b"[\"a\\nb\",\"\\u0000\"]",
            b"",
            b"[\"a\",1]",
            b"[null]",
            b"[\"a\"",
            b"[\"a\"]x",
            b"[\"a\"]\0",
            b"\"a\"",
            b"{}",
            b"[[\"a\"]]",
            b"[\"\xff\"]",
            b"\xef\xbb\xbf[\"a\"]",
            b"[\"\\ud800\"]",
            b"[\"a\",]",
            b"['a']",
            b"null",
            deep.as_bytes(),
        ],
    };
    bytes(texts)
}

/// Returns values of a path without a declared type. Each is inserted alone: its stored type depends on other documents.
pub(super) fn json_values() -> Vec<FieldValue> {
    let mut found = vec![FieldValue::Bool(true), FieldValue::Bool(false)];
    found.extend(["", "a", "prod", "a\nb", "\0", "\u{e9}", "true", "[\"a\"]"].map(FieldValue::text));
    found.extend(
        [Number::Int(0), Number::Int(5), Number::Int(i64::MIN), Number::UInt(u64::MAX)]
            .map(FieldValue::Number),
    );
    found.extend([0.5, -1e300, 1e-300].map(|value| FieldValue::Number(Number::Float(value))));
    found.extend([vec![], vec!["a"], vec!["", "prod", "a\nb"]].map(FieldValue::texts));
    found.push(FieldValue::Array(vec![FieldValue::Null]));
    found.push(FieldValue::Array(vec![FieldValue::text("a"), FieldValue::Null]));
    let wrong = [
        "\"2024-01-01\"",
        "\"2024-01-01 10:00:00\"",
        "[\"2024-01-01\"]",
        "[1]",
        "[\"a\",1]",
        "[[\"a\"]]",
        "[{\"a\":1}]",
        "[true,null]",
    ];
    found.extend(wrong.map(|text| FieldValue::Other(text.to_owned())));
    found
}
