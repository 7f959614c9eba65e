//! Samples the maps and JSON columns of a table: the keys and paths that could be marked.
//!
//! A user waits for the result, and the table may hold anything: every statement has a limit on rows, keys per row, and
//! seconds. A column that exceeds them is reported as such, and the others are still sampled.

use serde::Serialize;
use tracewarden_model::{Binding, ColumnType, FieldRef, LogicalType, Timestamp};
use utoipa::ToSchema;

use super::Catalogue;
use crate::Result;
use crate::client::{Client, QueryLimits};
use crate::schema::{BoundTable, Column, paired_maps, physical_field};
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

/// Sampled content of a map or JSON column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SampledMap)]
pub struct SampledColumn {
    /// The column.
    #[serde(rename = "map")]
    pub column: String,
    /// Number of rows in the sample.
    pub sampled_rows: u64,
    /// Keys or paths, the most frequent first; at most 500.
    pub keys: Vec<SampledKey>,
    /// Whether sampling took longer than a few seconds and was stopped, so that the keys are not known.
    pub stopped_early: bool,
}

/// A key of a map, or a path of a JSON column, in the sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SampledKey {
    /// The key or path.
    pub name: String,
    /// Number of sampled rows that have it.
    pub rows: u64,
    /// Types of its values in ClickHouse: of the map's values, or those found at the path.
    pub types: Vec<String>,
    /// The types that it can be marked as, those that fit the sampled values first; empty when it cannot be marked.
    pub logical_types: Vec<LogicalType>,
    // Cut to 80 characters. Span data: not every user may see them.
    /// Some of its values.
    pub examples: Vec<String>,
}

/// The rows that are sampled.
struct SampleSource<'a> {
    client: Client,
    columns: &'a [Column],
    rows: SampleRows,
}

/// Which rows are sampled.
enum SampleRows {
    /// Any rows of a table that is not bound, by its quoted name.
    Table(String),
    /// Spans of the bound table in a range of time, if it has spans.
    Spans(Box<BoundTable>, Option<(Timestamp, Timestamp)>),
}

/// A map to sample: its name, and its keys and values as arrays over a row.
struct SampledMap {
    name: String,
    column_type: ColumnType,
    keys: String,
    values: String,
}

impl Catalogue {
    /// Samples the map and JSON columns of a table, and its maps that are stored as two arrays: spans of the newest hour when
    /// the table is bound, future ones excluded.
    ///
    /// # Errors
    /// When ClickHouse cannot be reached or aborts the answer.
    pub async fn sample_keys(
        &self,
        database: &str,
        table: &str,
        columns: &[Column],
        binding: Option<&Binding>,
    ) -> Result<Vec<SampledColumn>> {
        let client = self.client.with_limits(QueryLimits { seconds: TIMEOUT_SECONDS, rows: 0 });
        let rows = match binding {
            None => SampleRows::Table(quote_table(database, table)),
            Some(binding) => {
                let table = BoundTable::new(binding, columns.to_vec())?;
                let newest_hour = newest_hour(&client, &table).await?;
                SampleRows::Spans(Box::new(table), newest_hour)
            }
        };
        let source = SampleSource { client, columns, rows };
        let mut found = Vec::new();
        for sampled in sampled_columns(columns).into_iter().take(MAX_COLUMNS) {
            let (name, result) = match sampled {
                Sampled::Json(column) => (column.name.clone(), source.paths(column).await),
                Sampled::Map(map) => (map.name.clone(), source.keys(&map).await),
            };
            let ((sampled_rows, keys), stopped_early) = match result {
                Ok(sampled) => (sampled, false),
                Err(error) if error.is_refusal() => ((0, Vec::new()), true),
                Err(error) => return Err(error),
            };
            found.push(SampledColumn { column: name, sampled_rows, keys, stopped_early });
        }
        Ok(found)
    }
}

/// A column with keys or paths, or a pair of columns.
enum Sampled<'a> {
    Json(&'a Column),
    Map(SampledMap),
}

fn sampled_columns(columns: &[Column]) -> Vec<Sampled<'_>> {
    let of_columns = columns.iter().filter_map(|column| match &column.column_type {
        ColumnType::Json { .. } => Some(Sampled::Json(column)),
        map if !map.map_key_logical_types().is_empty() => {
            let (name, quoted) = (column.name.clone(), quote(&column.name));
            let [keys, values] = ["mapKeys", "mapValues"].map(|function| format!("{function}({quoted})"));
            Some(Sampled::Map(SampledMap { name, column_type: map.clone(), keys, values }))
        }
        _ => None,
    });
    let of_pairs = paired_maps(columns).into_iter().map(|map| {
        let [keys, values] = map.columns().map(|column| quote(&column));
        Sampled::Map(SampledMap { name: map.name, column_type: map.column_type, keys, values })
    });
    of_columns.chain(of_pairs).collect()
}

/// Returns the newest hour of a table's spans; `None` if it has none, or ClickHouse refuses to read it. It excludes the
/// future: one span from a clock that is years ahead would otherwise be the whole hour.
pub(crate) async fn newest_hour(
    client: &Client,
    table: &BoundTable,
) -> Result<Option<(Timestamp, Timestamp)>> {
    const HOUR_NANOS: i64 = 3_600_000_000_000;
    let mut statement = table.statement();
    let ticks = &table.ticks;
    let past = format!(
        "intDiv({ticks}, {}) <= toInt64(toUnixTimestamp(now())) + 3600",
        1_000_000_000 / table.nanos_per_tick
    );
    let spans = table.spans("1", &mut statement);
    statement.push(&format!(
        "SELECT if(countIf({past}) > 0, maxIf({ticks}, {past}), max({ticks})), count() FROM {spans}"
    ));
    let newest: Option<(i64, u64)> = client.row_unless_refused(statement).await?;
    Ok(newest.filter(|(_, spans)| *spans > 0).map(|(newest, _)| {
        let newest = Timestamp::from_nanos(newest.saturating_mul(table.nanos_per_tick));
        (newest.saturating_sub(HOUR_NANOS), newest.saturating_add(table.nanos_per_tick))
    }))
}

impl SampleSource<'_> {
    fn statement(&self) -> Statement {
        Statement::for_columns(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// Writes the rows that are sampled, after `FROM`.
    fn source(&self, statement: &mut Statement) -> String {
        match &self.rows {
            SampleRows::Table(name) => name.clone(),
            SampleRows::Spans(table, None) => table.spans("1", statement),
            SampleRows::Spans(table, Some((from, to))) => {
                let condition = table.within(*from, *to, statement);
                table.spans(&condition, statement)
            }
        }
    }

    /// Returns the sub-query for some rows, and their number.
    async fn sample(&self, select: &str, rows: u32) -> Result<(String, Statement, u64)> {
        let mut statement = self.statement();
        let sample = format!("(SELECT {select} FROM {} LIMIT {rows})", self.source(&mut statement));
        let mut counting = statement.clone();
        counting.push(&format!("SELECT count() FROM {sample}"));
        let counted: Vec<(u64,)> = self.client.rows(counting).await?;
        Ok((sample, statement, counted.first().map_or(0, |(rows,)| *rows)))
    }

    async fn keys(&self, map: &SampledMap) -> Result<(u64, Vec<SampledKey>)> {
        let [keys, values, key, value, found] =
            self.statement().aliases(["keys", "values", "key", "value", "found"]);
        // In two arrays of unequal lengths, a key without a value does not count.
        let select = format!(
            "arraySlice({0}, 1, least(length({1}), {MAX_KEYS_PER_ROW})) AS {keys}, \
             arraySlice({1}, 1, least(length({0}), {MAX_KEYS_PER_ROW})) AS {values}",
            map.keys, map.values
        );
        let (sample, mut statement, sampled_rows) = self.sample(&select, MAX_ROWS).await?;
        statement.push(&format!(
            "SELECT toString({key}), count() AS {found}, arraySort(groupUniqArray({MAX_EXAMPLES})(\
             substringUTF8(ifNull(toString({value}), ''), 1, {MAX_EXAMPLE_LENGTH}))) \
             FROM (SELECT {key}, {value} FROM {sample} ARRAY JOIN {keys} AS {key}, {values} AS {value}) \
             WHERE isValidUTF8({key}) AND length({key}) <= {MAX_KEY_BYTES} \
             GROUP BY {key} ORDER BY {found} DESC, {key} LIMIT {MAX_KEYS}"
        ));
        let rows: Vec<(String, u64, Vec<String>)> = self.client.rows(statement).await?;
        let map_key = |(name, rows, examples): (String, u64, Vec<String>)| {
            let types = map.column_type.map_value().map(ToString::to_string).into_iter().collect();
            let logical_types = map.column_type.map_key_logical_types().to_vec();
            SampledKey { name, rows, types, logical_types, examples }
        };
        Ok((sampled_rows, rows.into_iter().map(map_key).collect()))
    }

    async fn paths(&self, column: &Column) -> Result<(u64, Vec<SampledKey>)> {
        let [sampled, pair, found] = self.statement().aliases(["sampled", "pair", "found"]);
        let select = format!("{} AS {sampled}", quote(&column.name));
        let (sample, mut statement, sampled_rows) = self.sample(&select, MAX_DOCUMENTS).await?;
        statement.push(&format!(
            "SELECT {pair}.1, count() AS {found}, arraySort(groupUniqArray({MAX_TYPES})({pair}.2)) \
             FROM {sample} ARRAY JOIN arraySlice(CAST(JSONAllPathsWithTypes({sampled}), \
             'Array(Tuple(String, String))'), 1, {MAX_KEYS_PER_ROW}) AS {pair} \
             WHERE isValidUTF8({pair}.1) AND length({pair}.1) <= {MAX_KEY_BYTES} \
             GROUP BY {pair}.1 ORDER BY {found} DESC, {pair}.1 LIMIT {MAX_KEYS}"
        ));
        let rows: Vec<(String, u64, Vec<String>)> = self.client.rows(statement).await?;
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
    async fn add_examples(&self, column: &Column, keys: &mut [SampledKey]) -> Result<()> {
        let named = keys.iter_mut().filter(|key| !key.logical_types.is_empty()).take(PATHS_WITH_EXAMPLES);
        let named: Vec<&mut SampledKey> = named.collect();
        if named.is_empty() {
            return Ok(());
        }
        let mut statement = self.statement();
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
        let source = self.source(&mut statement);
        statement.push(&format!(
            "SELECT [{}] FROM (SELECT {} FROM {source} LIMIT {MAX_EXAMPLE_DOCUMENTS})",
            examples.join(", "),
            read.join(", "),
        ));
        // Paths without examples are better than none.
        let found: Option<(Vec<Vec<String>>,)> = self.client.row_unless_refused(statement).await?;
        let found = found.map(|(found,)| found).unwrap_or_default();
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

    use crate::agreement::{binding, connect, execute};

    #[tokio::test]
    async fn a_clock_ahead_hides_no_keys() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let table = "CREATE TABLE default.spans (Timestamp DateTime64(3), m Map(String, String), TraceId String, \
                     SpanId String, ParentSpanId String) ENGINE = MergeTree ORDER BY Timestamp";
        execute(&local, table.to_owned()).await;
        let keys = async || {
            let columns = store.catalogue().columns("default", "spans").await.unwrap();
            let binding = binding("default", "spans");
            let mut sampled =
                store.catalogue().sample_keys("default", "spans", &columns, Some(&binding)).await.unwrap();
            let mut keys: Vec<String> = sampled.remove(0).keys.into_iter().map(|key| key.name).collect();
            keys.sort();
            keys
        };
        let ahead = "INSERT INTO default.spans (Timestamp, m) VALUES (toDateTime64('2262-01-01 00:00:00', 3, 'UTC'), map('ahead', ''))";
        execute(&local, ahead.to_owned()).await;
        assert_eq!(keys().await, ["ahead"], "there is nothing else");
        let past = "INSERT INTO default.spans (Timestamp, m) SELECT now() - INTERVAL 2 DAY - INTERVAL number MINUTE, map(concat('k', \
                    toString(number % 2)), '') FROM numbers(180)";
        execute(&local, past.to_owned()).await;
        assert_eq!(keys().await, ["k0", "k1"]);
    }
}
