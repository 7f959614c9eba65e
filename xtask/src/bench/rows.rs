//! Reads rows of traces by trace id, directly from ClickHouse.

use anyhow::Result;

use super::store::Store;

/// Formats trace ids as a list of SQL string literals.
pub fn listed(ids: &[String]) -> String {
    ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ")
}

/// Number of occurrences of a byte sequence in a text, including overlapping ones.
pub fn occurrences(body: &[u8], part: &[u8]) -> u64 {
    body.windows(part.len()).filter(|window| *window == part).count() as u64
}

/// Returns the statement that reads these traces in page order: all columns except computed ones, as JSON. `table` is quoted;
/// `bounds` is empty or a further condition that begins with `AND`.
pub fn statement(store: &Store, table: &str, ids: &[String], bounds: &str) -> Result<String> {
    let columns = store.run(&format!(
        "SELECT name FROM system.columns WHERE concat('`', database, '`.`', table, '`') = '{table}' \
         AND default_kind IN ('', 'DEFAULT') ORDER BY position"
    ))?;
    let columns: Vec<String> = columns.lines().map(|name| format!("`{name}`")).collect();
    let positions: Vec<String> = (1..=ids.len()).map(|position| position.to_string()).collect();
    Ok(format!(
        "SELECT {columns} FROM {table} WHERE TraceId IN ({ids}) {bounds} \
         ORDER BY transform(TraceId, [{ids}], [{positions}], 0), Timestamp, SpanId FORMAT JSONEachRow \
         SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_validate_utf8 = 1, \
         output_format_json_escape_forward_slashes = 0, date_time_output_format = 'iso'",
        columns = columns.join(", "),
        ids = listed(ids),
        positions = positions.join(", ")
    ))
}
