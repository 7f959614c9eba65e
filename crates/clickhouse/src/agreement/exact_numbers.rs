//! Compares number comparisons with exact arithmetic: random values of every type that holds numbers, random operands near
//! them, every operator.

use std::cmp::Ordering;
use std::mem::discriminant;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{
    ColumnType, Condition, Decimal, FieldRef, FieldSource, LogicalType, MarkedField, NumberType, Relation,
    Test, TextType,
};
use tracewarden_policy::lower_condition;
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::column_types::NUMBER_TYPES;

use crate::ClickHouse;
use crate::agreement::differential::{connect, execute};
use crate::agreement::filter_reference::{exact_order, float_order, satisfies};
use crate::sql::{Statement, quote_literal, render};

/// Columns that hold numbers.
const TYPES: [&str; 27] = [
    "Int8",
    "UInt8",
    "Int16",
    "UInt16",
    "Int32",
    "UInt32",
    "Int64",
    "UInt64",
    "Int128",
    "UInt128",
    "Int256",
    "UInt256",
    "Nullable(Int64)",
    "LowCardinality(UInt64)",
    "Decimal(9, 2)",
    "Decimal(18, 18)",
    "Decimal(38, 0)",
    "Nullable(Decimal(76, 20))",
    "DateTime",
    "DateTime('Asia/Tokyo')",
    "DateTime64(0)",
    "DateTime64(3)",
    "DateTime64(4, 'UTC')",
    "DateTime64(6)",
    "Nullable(DateTime64(9))",
    "Float32",
    "Nullable(Float64)",
];
/// Maps with numbers as strings, and JSON.
const KEYS: [(&str, &str); 5] = [
    ("Map(String, String)", "String"),
    ("Map(LowCardinality(String), LowCardinality(String))", "LowCardinality(String)"),
    ("Map(String, Nullable(String))", "Nullable(String)"),
    ("Map(String, DateTime64(9))", "DateTime64(9)"),
    ("JSON", "Dynamic"),
];

const VALUES: usize = 24;
const OPERANDS: usize = 30;
const RELATIONS: [Relation; 6] =
    [Relation::Eq, Relation::Ne, Relation::Gt, Relation::Ge, Relation::Lt, Relation::Le];

/// A stored value: a count of units, for types that count units.
struct StoredValue {
    sql: String,
    /// The exact decimal value; for a float, the text that it was made from.
    digits: String,
}

fn digits(random: &mut ChaCha8Rng, most: usize) -> String {
    let length = random.random_range(1..=most);
    let digits: String = (0..length).map(|_| char::from(b'0' + random.random_range(0..10_u8))).collect();
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

/// Formats a decimal number from its digits, `scale` of them after the point.
fn scaled(count: &str, scale: usize) -> String {
    let (sign, count) = count.strip_prefix('-').map_or(("", count), |count| ("-", count));
    let padded = format!("{}{count}", "0".repeat((scale + 1).saturating_sub(count.len())));
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Returns the minimum and the maximum count of a type, and the number of digits after its point.
fn range(column_type: &ColumnType) -> (String, String, usize) {
    match column_type.bare() {
        ColumnType::Number(NumberType::Integer { bits: 256, signed: true }) => (
            "-57896044618658097711785492504343953926634992332820282019728792003956564819968".to_owned(),
            "57896044618658097711785492504343953926634992332820282019728792003956564819967".to_owned(),
            0,
        ),
        ColumnType::Number(NumberType::Integer { bits: 256, .. }) => (
            "0".to_owned(),
            "115792089237316195423570985008687907853269984665640564039457584007913129639935".to_owned(),
            0,
        ),
        ColumnType::Number(NumberType::Integer { bits: 128, signed: true }) => {
            (i128::MIN.to_string(), i128::MAX.to_string(), 0)
        }
        ColumnType::Number(NumberType::Integer { bits: 128, .. }) => {
            ("0".to_owned(), u128::MAX.to_string(), 0)
        }
        ColumnType::Number(NumberType::Integer { bits, signed: true }) => {
            let most = (1_i128 << (bits - 1)) - 1;
            ((-most - 1).to_string(), most.to_string(), 0)
        }
        ColumnType::Number(NumberType::Integer { bits, .. }) => {
            ("0".to_owned(), ((1_u128 << bits) - 1).to_string(), 0)
        }
        ColumnType::Number(NumberType::Decimal { precision, scale }) => {
            let nines = "9".repeat(usize::from(*precision));
            (format!("-{nines}"), nines, usize::from(*scale))
        }
        ColumnType::Number(NumberType::DateTime) => ("0".to_owned(), u32::MAX.to_string(), 0),
        ColumnType::Number(NumberType::DateTime64 { precision }) => {
            (i64::MIN.to_string(), i64::MAX.to_string(), usize::from(*precision))
        }
        other => panic!("{other}"),
    }
}

fn random_count(random: &mut ChaCha8Rng, column_type: &ColumnType) -> StoredValue {
    let (least, most, scale) = range(column_type);
    let signed = least.starts_with('-');
    let count = loop {
        let count = match random.random_range(0..8) {
            0 => least.clone(),
            1 => most.clone(),
            2 => random.random_range(0..3).to_string(),
            3 if matches!(
                column_type.bare(),
                ColumnType::Number(NumberType::DateTime | NumberType::DateTime64 { .. })
            ) =>
            {
                format!("17000108{}", digits(random, scale + 2))
            }
            _ => digits(random, most.len()),
        };
        let count = if signed && random.random_bool(0.4) && count != "0" && !count.starts_with('-') {
            format!("-{count}")
        } else {
            count
        };
        if exact_order(&count, &least).is_ge() && exact_order(&count, &most).is_le() {
            break count;
        }
    };
    let digits = scaled(&count, scale);
    let sql = match column_type.bare() {
        ColumnType::Number(NumberType::DateTime) => format!("toDateTime({count}, 'UTC')"),
        ColumnType::Number(NumberType::DateTime64 { precision }) => {
            format!("reinterpret(toInt64('{count}'), 'DateTime64({precision}, \\'UTC\\')')")
        }
        _ => format!("CAST('{digits}', {})", quote_literal(&column_type.bare().to_string())),
    };
    StoredValue { sql, digits }
}

fn random_float(random: &mut ChaCha8Rng, bits: u16) -> StoredValue {
    let value = match random.random_range(0..8) {
        0 => [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::from(f32::MAX)]
            .choose(random)
            .copied()
            .unwrap(),
        1 => f64::from(f32::from_bits(random.random::<u32>())),
        2 => f64::from_bits(random.random::<u64>()),
        _ => f64::from(random.random_range(-2_000..2_000)) / 100.0,
    };
    let sql = if bits == 32 {
        format!("reinterpretAsFloat32(toUInt32({}))", (value as f32).to_bits())
    } else {
        format!("reinterpretAsFloat64(toUInt64('{}'))", value.to_bits())
    };
    StoredValue { sql, digits: value.to_string() }
}

/// Returns a number in a form that users write: with signs, leading zeros, points and exponents.
fn random_numeral(random: &mut ChaCha8Rng) -> StoredValue {
    let sign = *["", "-", "+"].choose(random).unwrap();
    let whole = match random.random_range(0..8) {
        0 => "9223372036854775807".to_owned(),
        1 => "9223372036854775808".to_owned(),
        2 => "18446744073709551615".to_owned(),
        3 => "18446744073709551616".to_owned(),
        4 => format!("000{}", digits(random, 4)),
        _ => digits(random, 30),
    };
    let fraction = match random.random_range(0..4) {
        0 => format!(".{}", digits(random, 30)),
        1 => ".000".to_owned(),
        2 => format!(".0{}00", digits(random, 3)),
        _ => String::new(),
    };
    let exponent = match random.random_range(0..4) {
        0 => format!("e{}", random.random_range(-30..30)),
        1 => "E+002".to_owned(),
        _ => String::new(),
    };
    let text = format!("{sign}{whole}{fraction}{exponent}");
    StoredValue { sql: format!("'{text}'"), digits: text }
}

/// Returns a number of a JSON document, which ClickHouse stores in 64 bits.
fn random_json_number(random: &mut ChaCha8Rng) -> StoredValue {
    let digits = match random.random_range(0..3) {
        0 => ["9223372036854775807", "18446744073709551615", "-9223372036854775808"]
            .choose(random)
            .unwrap()
            .to_string(),
        1 => random.random_range(-20..20).to_string(),
        _ => format!("{}.5", random.random_range(-20..20)),
    };
    StoredValue { sql: format!("'{{\"k\":{digits}}}'"), digits }
}

/// Returns an operand near a value, or far from all.
fn operand(random: &mut ChaCha8Rng, values: &[StoredValue]) -> Decimal {
    loop {
        let near = values.choose(random).unwrap().digits.trim_start_matches('+').to_lowercase();
        let plain = near.contains(|letter: char| letter.is_ascii_alphabetic());
        let text = match random.random_range(0..8) {
            0 => digits(random, 40),
            1 => format!("-{}.{}", digits(random, 20), digits(random, 20)),
            2 => format!("{}e{}", digits(random, 3), random.random_range(-40..80)),
            _ if plain => near,
            // Just above or below a value, and between two values.
            3 if near.contains('.') => format!("{near}{}", digits(random, 12)),
            3 => format!("{near}.{}", digits(random, 30)),
            4 if near.len() > 3 => near[..near.len() - 1].trim_end_matches('.').to_owned(),
            5 => format!("{near}e{}", random.random_range(-1..2)),
            6 => near.split('.').next().unwrap().to_owned(),
            _ => near,
        };
        let sign = if text.starts_with('-') { "-" } else { "" };
        let (whole, rest) = match text.trim_start_matches('-').find(['.', 'e']) {
            Some(at) => text.trim_start_matches('-').split_at(at),
            None => (text.trim_start_matches('-'), ""),
        };
        let whole = whole.trim_start_matches('0');
        let text = format!("{sign}{}{rest}", if whole.is_empty() { "0" } else { whole });
        if let Ok(number) = Decimal::parse(&text) {
            return number;
        }
    }
}

fn order(column_type: &ColumnType, value: &StoredValue, wanted: &str) -> Option<Ordering> {
    match column_type.bare() {
        ColumnType::Number(NumberType::Float { bits }) => {
            float_order(value.digits.parse().unwrap(), *bits, wanted)
        }
        ColumnType::Dynamic if value.digits.contains('.') => {
            float_order(value.digits.parse().unwrap(), 64, wanted)
        }
        _ => Some(exact_order(&value.digits, wanted)),
    }
}

/// Evaluates the same conditions as filters on a table that is partitioned and sorted by its time, as the exporter's is: the
/// parts and granules that ClickHouse skips by its keys must hold no matching rows. `found` has the results of each row,
/// sorted by id.
async fn compare_pruned(
    store: &ClickHouse,
    execute: &impl AsyncFn(String),
    (table, type_text): (&str, &str),
    conditions: &[Condition],
    found: &[(u32, Vec<u8>)],
) {
    let pruned = format!("{table}_pruned");
    execute(format!(
        "CREATE TABLE {pruned} (id UInt32, c {type_text}) ENGINE = MergeTree PARTITION BY toDate(c) ORDER BY toDateTime(c) \
         SETTINGS allow_nullable_key = 1, index_granularity = 1"
    ))
    .await;
    execute(format!("INSERT INTO {pruned} SELECT id, c FROM {table}")).await;
    for (at, condition) in conditions.iter().enumerate() {
        let mut statement = Statement::default();
        let filter = render(&lower_condition(condition), &mut statement);
        statement.push(&format!("SELECT id FROM {pruned} WHERE {filter} ORDER BY id"));
        let rows: Vec<(u32,)> = store.client.rows(statement).await.unwrap();
        let expected = found.iter().filter(|(_, row)| row[at] == 1).map(|(id, _)| *id);
        assert!(
            rows.iter().map(|(id,)| *id).eq(expected),
            "{type_text} {:?}: {rows:?}\n{filter}",
            condition.test
        );
    }
}

/// Creates tables with `execute`, and compares what `store` finds in them with exact arithmetic.
pub(crate) async fn compare_all(store: &ClickHouse, execute: impl AsyncFn(String)) {
    let seed = std::env::var("TRACEWARDEN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(27);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let columns = TYPES.iter().map(|text| (*text, ColumnType::parse(text), FieldSource::Column));
    let keys = KEYS.iter().map(|(text, value)| {
        let source = if *text == "JSON" { FieldSource::JsonPath } else { FieldSource::MapKey };
        (*text, ColumnType::parse(value), source)
    });
    let (mut compared, mut matching, mut wrong) = (0, 0, Vec::new());
    for (at, (type_text, column_type, source)) in columns.chain(keys).enumerate() {
        let table = format!("default.numbers{at}");
        execute(format!(
            "CREATE TABLE {table} (id UInt32, c {type_text}) ENGINE = MergeTree ORDER BY id \
                 SETTINGS allow_suspicious_low_cardinality_types = 1"
        ))
        .await;
        let mut values: Vec<StoredValue> = (0..VALUES)
            .map(|_| match (source, column_type.bare()) {
                (FieldSource::JsonPath, _) => random_json_number(&mut random),
                (_, ColumnType::Text(TextType::String)) => random_numeral(&mut random),
                (_, ColumnType::Number(NumberType::Float { bits })) => random_float(&mut random, *bits),
                _ => random_count(&mut random, &column_type),
            })
            .collect();
        // Values of the rows, sorted by text: the text of one value can be that of another one with further zeros.
        values.sort_by(|a, b| a.digits.cmp(&b.digits));
        let rows: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(id, value)| match source {
                FieldSource::MapKey => format!("({id}, map('k', {}))", value.sql),
                _ => format!("({id}, {})", value.sql),
            })
            .collect();
        // Documents are inserted one at a time: the type of a number depends on the other documents of its block.
        let rows_per_insert = if source == FieldSource::JsonPath { 1 } else { VALUES };
        for rows in rows.chunks(rows_per_insert) {
            execute(format!("INSERT INTO {table} VALUES {}", rows.join(", "))).await;
        }
        let field = MarkedField {
            field: if source == FieldSource::Column {
                FieldRef::column("c")
            } else {
                FieldRef::key("c", "k")
            },
            source,
            logical: LogicalType::Number,
            column_type: column_type.clone(),
            filterable: true,
            policy: false,
            column: None,
        };
        let operands: Vec<Decimal> = (0..OPERANDS).map(|_| operand(&mut random, &values)).collect();
        let mut tests: Vec<Test> = operands
            .iter()
            .flat_map(|operand| RELATIONS.map(|relation| Test::Compare(relation, operand.clone())))
            .collect();
        tests.extend(operands.windows(2).map(|pair| Test::Between(pair[0].clone(), pair[1].clone())));
        let mut statement = Statement::default();
        let conditions: Vec<Condition> =
            tests.iter().map(|test| Condition { field: field.clone(), test: test.clone() }).collect();
        let rendered: Vec<String> = conditions
            .iter()
            .map(|condition| format!("toUInt8({})", render(&lower_condition(condition), &mut statement)))
            .collect();
        statement.push(&format!("SELECT id, [{}] FROM {table} ORDER BY id", rendered.join(", ")));
        let found: Vec<(u32, Vec<u8>)> =
            store.client.rows(statement).await.unwrap_or_else(|error| panic!("{type_text}: {error}"));
        assert_eq!(found.len(), values.len());
        let is_time = matches!(
            column_type.bare(),
            ColumnType::Number(NumberType::DateTime | NumberType::DateTime64 { .. })
        );
        if is_time && source == FieldSource::Column {
            compare_pruned(store, &execute, (&table, type_text), &conditions, &found).await;
        }
        for (value, (_, row)) in values.iter().zip(found) {
            for ((test, found), sql) in tests.iter().zip(row).zip(&rendered) {
                let holds = |relation, wanted: &Decimal| {
                    satisfies(order(&column_type, value, &wanted.to_string()), relation)
                };
                let expected = match test {
                    Test::Compare(relation, wanted) => holds(*relation, wanted),
                    Test::Between(low, high) => holds(Relation::Ge, low) && holds(Relation::Le, high),
                    other => panic!("{other:?}"),
                };
                compared += 1;
                matching += usize::from(expected);
                if expected != (found == 1) {
                    wrong.push(format!("{type_text} {} {test:?}: store {found}\n{sql}", value.digits));
                }
            }
        }
    }
    println!("{compared} comparisons, {matching} hold, {} wrong, seed {seed}", wrong.len());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n\n"));
    assert!(
        compared > 100_000 && matching > compared / 5 && matching < compared / 5 * 4,
        "{matching} of {compared} hold"
    );
}

#[tokio::test]
async fn numbers_of_every_type_compare_exactly() {
    for known in NUMBER_TYPES.map(|number_type| discriminant(&number_type)) {
        let mut types = TYPES.iter().map(|text| ColumnType::parse(text));
        let has_type = |column_type: ColumnType| match column_type.bare() {
            ColumnType::Number(number_type) => discriminant(number_type) == known,
            _ => false,
        };
        assert!(types.any(has_type), "{known:?}");
    }
    let local = LocalStore::start().unwrap();
    compare_all(&connect(&local), async |statement| execute(&local, statement).await).await;
}
