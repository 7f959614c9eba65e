//! Fuzz targets for column types and times from other programs.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use fuzzing::{target, texts, within_time_limit};

use crate::{ColumnType, Timestamp};

fn column_type(input: &[u8]) {
    let text = &*String::from_utf8_lossy(input);
    let read = within_time_limit(|| ColumnType::parse(text));
    // Queries on any parsed type must not panic.
    let _ = (read.logical_types(), read.key_logical_types(), read.nested_member("a"), read.within("a"));
    // An unknown type, also within another, keeps its text.
    if !format!("{read:?}").contains("Other(") {
        assert_eq!(ColumnType::parse(&read.to_string()), read);
    }
}

#[test]
fn column_types() {
    let seeds = texts([
        "LowCardinality(Nullable(String))",
        "Array(Map(LowCardinality(String), String))",
        "DateTime64(9, 'UTC')",
        "LowCardinality(FixedString(5))",
        "Nullable(UUID)",
        r"Enum8('a' = -1, 'b\'\\ = 1, (' = 2, '' = 3, '\n\t\0`é' = 4)",
        "Nested(Name LowCardinality(String), `a b.\\`` Map(String, Array(UInt8)))",
        "Array(Tuple(Name String, At DateTime64(9, 'UTC')))",
        "JSON(max_dynamic_types=3, a.b UInt8, `x y.z` Array(Nullable(String)), SKIP x.y, SKIP REGEXP 'a, (b')",
        "Dynamic(max_types=3)",
        "Bool",
        "Decimal(9, 2)",
    ]);
    target!(seeds, column_type);
}

#[test]
fn times() {
    let read = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Ok(time) = within_time_limit(|| Timestamp::parse(text)) {
            assert_eq!(Timestamp::parse(&time.to_string()), Ok(time), "{time}");
        }
    };
    let seeds = texts([
        "2026-11-21T07:33:26.123456789Z",
        "2026-11-21T07:33:26+05:30",
        "1677-09-21T00:12:43.145224192Z",
        "2262-04-11T23:47:16.854775807Z",
        "9999-12-31T23:59:60-23:59",
        "2026-02-29t00:00:00z",
    ]);
    target!(seeds, read);
}
