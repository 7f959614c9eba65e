//! Samples the maps and JSON columns of a table: the keys and paths that could be marked.
//!
//! A user waits for the result, and the table may hold anything: every statement has a limit on rows, keys per row, and
//! seconds. A column that exceeds them is reported as such, and the others are still sampled.

use serde::de::DeserializeOwned;
use tracewarden_model::{ColumnType, FieldRef, LogicalType};

use super::Catalogue;
use crate::ClickHouseError;
use crate::client::{Client, QueryLimits};
use crate::schema::{Column, physical_field};
use crate::sql::{Statement, quote, quote_path, quote_table};

/// Maximum number of sampled columns.
const MAX_COLUMNS: usize = 30;
/// Time limit of each statement in seconds; there are at most three statements for a column.
const TIMEOUT_SECONDS: u32 = 5;
/// Maximum number of sampled rows of a map column.
const MAX_ROWS: u32 = 20_000;
/// Maximum number of sampled documents of a JSON column.
const MAX_DOCUMENTS: u32 = 5_000;
/// Maximum number of documents that are searched for examples.
const MAX_EXAMPLE_DOCUMENTS: u32 = 1_000;
/// Maximum number of keys or paths that are read from one row.
const MAX_KEYS_PER_ROW: u32 = 1_000;
/// Maximum number of keys or paths that are reported for each column.
const MAX_KEYS: u32 = 500;
/// Maximum number of paths for which examples are read.
const PATHS_WITH_EXAMPLES: usize = 100;
/// Maximum size of a key or path that is reported, in bytes.
const MAX_KEY_BYTES: u32 = 2_048;
/// Maximum number of examples of each key or path.
const MAX_EXAMPLES: u32 = 3;
/// Maximum length of an example value, in characters.
const MAX_EXAMPLE_LENGTH: u32 = 80;
/// Maximum number of types that are reported for each path.
const MAX_TYPES: u32 = 8;

/// The sample of a map or JSON column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledColumn {
    /// The column.
    pub column: String,
    /// Number of sampled rows.
    pub sampled_rows: u64,
    /// Keys or paths, most frequent first.
    pub keys: Vec<SampledKey>,
    /// Whether the column was too large to sample, so that its keys are unknown.
    pub stopped_early: bool,
}

/// A key of a map column, or a path of a JSON column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledKey {
    /// The key or path.
    pub name: String,
    /// Number of sampled rows that hold it.
    pub rows: u64,
    /// Types of its values, as ClickHouse writes them: of the map's values, or those that were found at the path.
    pub types: Vec<String>,
    /// Types that it can be marked as, those that fit the sampled values first. Empty when it cannot be marked.
    pub logical_types: Vec<LogicalType>,
    /// Some of its values, cut to 80 characters. Span data: not every user may see them.
    pub examples: Vec<String>,
}

/// The table that is sampled.
struct SampleSource<'a> {
    client: Client,
    columns: &'a [Column],
    /// The table's quoted name, and the condition for its newest rows.
    from: String,
}

impl Catalogue {
    /// Samples the map and JSON columns of a table: rows of the newest hour when the timestamp is known, future ones
    /// excluded.
    ///
    /// # Errors
    /// When ClickHouse cannot be reached or aborts the answer.
    pub async fn sample_keys(
        &self,
        database: &str,
        table: &str,
        columns: &[Column],
        timestamp: Option<&str>,
    ) -> Result<Vec<SampledColumn>, ClickHouseError> {
        let name = quote_table(database, table);
        let client = self.client.with_limits(QueryLimits { seconds: TIMEOUT_SECONDS, rows: 0 });
        let recent = match timestamp {
            None => String::new(),
            Some(column) => newest_hour(&client, &name, &quote(column)).await,
        };
        let source = SampleSource { client, columns, from: format!("{name}{recent}") };
        let sampled = columns.iter().filter(|column| {
            matches!(column.column_type, ColumnType::Json { .. })
                || !column.column_type.map_key_logical_types().is_empty()
        });
        let mut found = Vec::new();
        for column in sampled.take(MAX_COLUMNS) {
            let result = match column.column_type {
                ColumnType::Json { .. } => source.paths(column).await,
                _ => source.keys(column).await,
            };
            let ((sampled_rows, keys), stopped_early) = match result {
                Ok(sampled) => (sampled, false),
                Err(error) if error.is_refusal() => ((0, Vec::new()), true),
                Err(error) => return Err(error),
            };
            found.push(SampledColumn { column: column.name.clone(), sampled_rows, keys, stopped_early });
        }
        Ok(found)
    }
}

/// Writes the condition for a table's newest hour. It excludes the future: one span from a clock that is years ahead would
/// otherwise be the whole sample.
async fn newest_hour(client: &Client, table: &str, timestamp: &str) -> String {
    const SOON: &str = "now() + INTERVAL 1 HOUR";
    let statement = format!("SELECT max({timestamp}) > {SOON} AND min({timestamp}) <= {SOON} FROM {table}");
    let is_ahead: Result<Vec<(u8,)>, ClickHouseError> = client.rows(Statement::new(&statement)).await;
    // If this fails, the statement that reads the keys fails as well, and reports it.
    if matches!(is_ahead.as_deref(), Ok([(1,)])) {
        let past = format!("{timestamp} <= {SOON}");
        format!(
            " WHERE {past} AND {timestamp} >= (SELECT max({timestamp}) FROM {table} WHERE {past}) - INTERVAL 1 HOUR"
        )
    } else {
        format!(" WHERE {timestamp} >= (SELECT max({timestamp}) FROM {table}) - INTERVAL 1 HOUR")
    }
}

impl SampleSource<'_> {
    fn statement(&self) -> Statement {
        Statement::for_columns(self.columns.iter().map(|column| column.name.as_str()))
    }

    async fn rows<T: DeserializeOwned + Send + 'static>(
        &self,
        mut statement: Statement,
        text: &str,
    ) -> Result<Vec<T>, ClickHouseError> {
        statement.push(text);
        self.client.rows(statement).await
    }

    /// Returns the sub-query for some rows of a column, and their number.
    async fn sample(&self, column: &Column, rows: u32) -> Result<(String, u64), ClickHouseError> {
        let statement = self.statement();
        let sampled = statement.alias("sampled");
        let sample = format!("(SELECT {} AS {sampled} FROM {} LIMIT {rows})", quote(&column.name), self.from);
        let counted: Vec<(u64,)> = self.rows(statement, &format!("SELECT count() FROM {sample}")).await?;
        Ok((sample, counted.first().map_or(0, |(rows,)| *rows)))
    }

    async fn keys(&self, column: &Column) -> Result<(u64, Vec<SampledKey>), ClickHouseError> {
        let statement = self.statement();
        let [sampled, key, value, found] = statement.aliases(["sampled", "key", "value", "found"]);
        let (sample, sampled_rows) = self.sample(column, MAX_ROWS).await?;
        let text = format!(
            "SELECT toString({key}), count() AS {found}, arraySort(groupUniqArray({MAX_EXAMPLES})(\
             substringUTF8(ifNull(toString({value}), ''), 1, {MAX_EXAMPLE_LENGTH}))) \
             FROM (SELECT {key}, {value} FROM {sample} ARRAY JOIN \
             arraySlice(mapKeys({sampled}), 1, {MAX_KEYS_PER_ROW}) AS {key}, \
             arraySlice(mapValues({sampled}), 1, {MAX_KEYS_PER_ROW}) AS {value}) \
             WHERE isValidUTF8({key}) AND length({key}) <= {MAX_KEY_BYTES} \
             GROUP BY {key} ORDER BY {found} DESC, {key} LIMIT {MAX_KEYS}"
        );
        let rows: Vec<(String, u64, Vec<String>)> = self.rows(statement, &text).await?;
        let map_key = |(name, rows, examples): (String, u64, Vec<String>)| {
            let types = column.column_type.map_value().map(ToString::to_string).into_iter().collect();
            let logical_types = column.column_type.map_key_logical_types().to_vec();
            SampledKey { name, rows, types, logical_types, examples }
        };
        Ok((sampled_rows, rows.into_iter().map(map_key).collect()))
    }

    async fn paths(&self, column: &Column) -> Result<(u64, Vec<SampledKey>), ClickHouseError> {
        let statement = self.statement();
        let [sampled, pair, found] = statement.aliases(["sampled", "pair", "found"]);
        let (sample, sampled_rows) = self.sample(column, MAX_DOCUMENTS).await?;
        let text = format!(
            "SELECT {pair}.1, count() AS {found}, arraySort(groupUniqArray({MAX_TYPES})({pair}.2)) \
             FROM {sample} ARRAY JOIN arraySlice(CAST(JSONAllPathsWithTypes({sampled}), \
             'Array(Tuple(String, String))'), 1, {MAX_KEYS_PER_ROW}) AS {pair} \
             WHERE isValidUTF8({pair}.1) AND length({pair}.1) <= {MAX_KEY_BYTES} \
             GROUP BY {pair}.1 ORDER BY {found} DESC, {pair}.1 LIMIT {MAX_KEYS}"
        );
        let rows: Vec<(String, u64, Vec<String>)> = self.rows(statement, &text).await?;
        let json_key = |(name, rows, types): (String, u64, Vec<String>)| {
            let mut logical_types = physical_field(&FieldRef::key(&column.name, &name), self.columns)
                .map_or(Vec::new(), |physical| physical.logical_types.to_vec());
            let observed: Vec<LogicalType> = types.iter().filter_map(|text| natural_type(text)).collect();
            logical_types.sort_by_key(|logical| !observed.contains(logical));
            SampledKey { name, rows, types, logical_types, examples: Vec::new() }
        };
        let mut keys: Vec<SampledKey> = rows.into_iter().map(json_key).collect();
        self.add_examples(column, &mut keys).await?;
        Ok((sampled_rows, keys))
    }

    /// Adds examples to the most frequent paths that statements can name, where ClickHouse returns any.
    async fn add_examples(&self, column: &Column, keys: &mut [SampledKey]) -> Result<(), ClickHouseError> {
        let named = keys.iter_mut().filter(|key| !key.logical_types.is_empty()).take(PATHS_WITH_EXAMPLES);
        let named: Vec<&mut SampledKey> = named.collect();
        if named.is_empty() {
            return Ok(());
        }
        let statement = self.statement();
        let own: Vec<String> = (0..named.len()).map(|at| statement.alias(&format!("path{at}"))).collect();
        let pairs = named.iter().zip(&own);
        let read = pairs.map(|(key, own)| format!("{} AS {own}", quote_path(&column.name, &key.name)));
        let read: Vec<String> = read.collect();
        let examples = own.iter().map(|own| {
            format!(
                "arraySort(groupUniqArrayIf({MAX_EXAMPLES})(\
                 substringUTF8(assumeNotNull(toString({own})), 1, {MAX_EXAMPLE_LENGTH}), isNotNull({own})))"
            )
        });
        let examples: Vec<String> = examples.collect();
        let text = format!(
            "SELECT [{}] FROM (SELECT {} FROM {} LIMIT {MAX_EXAMPLE_DOCUMENTS})",
            examples.join(", "),
            read.join(", "),
            self.from
        );
        let rows: Vec<(Vec<Vec<String>>,)> = match self.rows(statement, &text).await {
            // Paths without examples are better than none.
            Err(error) if error.is_refusal() => return Ok(()),
            rows => rows?,
        };
        let found = rows.into_iter().next().map(|(found,)| found).unwrap_or_default();
        for (key, examples) in named.into_iter().zip(found) {
            key.examples = examples;
        }
        Ok(())
    }
}

/// Returns the logical type that fits a JSON value of this type.
fn natural_type(type_text: &str) -> Option<LogicalType> {
    match ColumnType::parse(type_text) {
        ColumnType::Array(inner) if inner.is_string() => Some(LogicalType::StringArray),
        other => other.logical_types().first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_testkit::local_store::LocalStore;

    use crate::agreement::{connect, execute};

    #[tokio::test]
    async fn a_clock_ahead_hides_no_keys() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let table = "CREATE TABLE default.spans (At DateTime64(3), m Map(String, String)) ENGINE = MergeTree ORDER BY At";
        execute(&local, table.to_owned()).await;
        let keys = async || {
            let columns = store.columns("default", "spans").await.unwrap();
            let mut sampled =
                store.catalogue().sample_keys("default", "spans", &columns, Some("At")).await.unwrap();
            let mut keys: Vec<String> = sampled.remove(0).keys.into_iter().map(|key| key.name).collect();
            keys.sort();
            keys
        };
        let ahead = "INSERT INTO default.spans VALUES (toDateTime64('2262-01-01 00:00:00', 3, 'UTC'), map('ahead', ''))";
        execute(&local, ahead.to_owned()).await;
        assert_eq!(keys().await, ["ahead"], "there is nothing else");
        let past = "INSERT INTO default.spans SELECT now() - INTERVAL 2 DAY - INTERVAL number MINUTE, map(concat('k', \
                    toString(number % 2)), '') FROM numbers(180)";
        execute(&local, past.to_owned()).await;
        assert_eq!(keys().await, ["k0", "k1"]);
    }
}
