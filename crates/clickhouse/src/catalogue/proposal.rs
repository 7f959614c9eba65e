//! Proposes a binding: from the names and types of a table's columns and its engine, and more exactly from a sample of its rows.

use serde_json::Value;
use tracewarden_model::{Binding, ColumnType, Display, ReadAs, TimeBucket, TimeUnit};

use super::Catalogue;
use crate::Result;
use crate::catalogue::binding::{is_integer_time, is_number, is_time};
use crate::client::QueryLimits;
use crate::schema::{Column, TableEngine, TimeExpressions, column_named, is_id, is_integer};
use crate::sql::{Statement, quote, quote_table};

/// Maximum number of rows of a sample.
const SAMPLE_ROWS: u32 = 10_000;
/// Time limit of a sample in seconds.
const SAMPLE_SECONDS: u32 = 5;
/// Maximum number of status values that are read.
const MAX_STATUSES: u32 = 50;

// Names of columns, in lower case without `_`, in order of preference: of the OpenTelemetry exporter, and of other products.
const TRACE_ID: &[&str] = &["traceid"];
const SPAN_ID: &[&str] = &["spanid", "id"];
const PARENT_SPAN_ID: &[&str] = &["parentspanid", "parentid", "parentobservationid"];
const TIMESTAMP: &[&str] = &[
    "timestamp",
    "starttime",
    "start",
    "startedat",
    "spanstarttime",
    "timestampns",
    "starttimens",
    "starttimeus",
    "starttimems",
    "starttimeunixnano",
    "time",
    "ts",
];
const END: &[&str] =
    &["endtime", "endedat", "finishtime", "spanendtime", "endtimens", "endtimeus", "finishtimeus"];
const NAME: &[&str] =
    &["spanname", "name", "operationname", "operation", "opname", "displayname", "endpoint", "message"];
const SERVICE: &[&str] = &["servicename", "service", "resourcestringservice$$name", "appservice"];
const DURATION: &[&str] = &[
    "duration",
    "durationnano",
    "durationnanos",
    "durationns",
    "durationus",
    "durationmicros",
    "durationms",
    "durationmillis",
    "responseduration",
];
const STATUS: &[&str] = &["statuscode", "statuscodestring", "status", "responsestatus", "haserror"];
const KIND: &[&str] = &["spankind", "kind", "kindstring", "spantype", "type"];
const TIME_BUCKET: &[&str] = &["tsbucketstart", "timebucket"];
/// Status values that mean an error, in lower case.
const ERRORS: [&str; 6] = ["error", "status_code_error", "failed", "failure", "2", "true"];

/// Products, each with columns that only its tables have.
const PRODUCTS: &[(&str, &[&str])] = &[
    ("SigNoz", &["ts_bucket_start", "resource_fingerprint"]),
    ("SigNoz", &["durationNano", "stringTagMap"]),
    ("Jaeger", &["str_attributes.key", "service_name"]),
    ("Langfuse", &["parent_observation_id", "project_id"]),
    ("Langfuse", &["metadata_names", "is_deleted", "trace_name"]),
    ("ClickStack", &["__hdx_materialized_rum.sessionId"]),
    ("Laminar", &["trace_metadata", "span_type"]),
    ("Uptrace", &["group_id", "display_name", "string_keys"]),
    ("Gigapipe", &["oid", "payload_type", "timestamp_ns"]),
    ("PostHog", &["original_expiry_timestamp", "attributes_map_str"]),
    ("Opik", &["workspace_id", "last_updated_at", "parent_span_id"]),
    ("Weave", &["op_name", "inputs_dump"]),
    ("LangWatch", &["TenantId", "ProjectionId"]),
    ("trigger.dev", &["environment_id", "attributes_text"]),
    ("TraceRoot", &["ch_update_time", "span_start_time"]),
    ("Latitude", &["retention_expires_at", "workspace_id"]),
    ("Highlight", &["TraceAttributes", "ProjectId"]),
    ("DeepFlow", &["attribute_names", "app_service"]),
    ("LangDB", &["start_time_us", "finish_time_us", "attribute", "tenant_id"]),
    ("OpenTelemetry Collector", &["SpanAttributes", "ResourceAttributes", "TraceId"]),
];

/// Returns the product that writes a table with these columns, if it is known.
pub(super) fn product(columns: &[Column]) -> Option<&'static str> {
    let has = |name: &&str| column_named(columns, name).is_some();
    PRODUCTS.iter().find(|(_, names)| names.iter().all(has)).map(|(product, _)| *product)
}

/// A table to propose a binding for.
pub(super) struct Candidate<'a> {
    pub(super) database: &'a str,
    pub(super) table: &'a str,
    pub(super) columns: &'a [Column],
    /// The columns of the table that stores the rows, as far as this server knows them.
    pub(super) stored_columns: &'a [Column],
    /// The engine that stores the rows, as far as this server knows it.
    pub(super) engine: &'a TableEngine,
    /// Expressions of the sorting key, where they are known.
    pub(super) sorting_key: &'a [String],
    pub(super) trace_index: Option<String>,
}

/// Proposes a binding; `None` for a table that does not look like one of spans.
pub(super) fn propose(candidate: &Candidate<'_>) -> Option<Binding> {
    let find =
        |names: &[&str], fits: &dyn Fn(&ColumnType) -> bool| find_column(candidate.columns, names, fits);
    let name = |column: Option<&Column>| column.map(|column| column.name.clone());
    let timestamp = find(TIMESTAMP, &is_time).or_else(|| find(TIMESTAMP, &is_integer_time))?;
    let timestamp_unit = is_integer_time(&timestamp.column_type).then(|| unit_of_name(&timestamp.name));
    let duration = find(DURATION, &is_number);
    let duration_unit = duration.and_then(|column| unit_of_name(&column.name));
    let end = find(END, &|column_type| match timestamp_unit {
        Some(_) => is_integer_time(column_type.bare()),
        None => is_time(column_type.bare()),
    });
    let status = find(STATUS, &ColumnType::is_text)
        .or_else(|| find(STATUS, &is_integer))
        .or_else(|| find(STATUS, &|column_type| *column_type.bare() == ColumnType::Bool));
    let is_bucket = |column_type: &ColumnType| is_time(column_type) || is_integer_time(column_type);
    let is_in_key = |name: &str| candidate.sorting_key.iter().any(|key| key.trim_matches('`') == name);
    let time_bucket =
        find(TIME_BUCKET, &is_bucket).filter(|column| is_in_key(&column.name)).and_then(|column| {
            let stored = column_named(candidate.stored_columns, &column.name)?;
            Some(TimeBucket { column: column.name.clone(), seconds: bucket_seconds(stored)? })
        });
    Some(Binding {
        database: candidate.database.to_owned(),
        table: candidate.table.to_owned(),
        trace_id: name(find(TRACE_ID, &is_id))?,
        span_id: name(find(SPAN_ID, &is_id))?,
        parent_span_id: name(find(PARENT_SPAN_ID, &is_id))?,
        timestamp: timestamp.name.clone(),
        trace_index: candidate.trace_index.clone(),
        timestamp_unit: timestamp_unit.map(Option::unwrap_or_default),
        read_as: candidate.engine.replaces_rows().then_some(ReadAs::Final),
        only: Vec::new(),
        time_bucket,
        display: Display {
            name: name(find(NAME, &ColumnType::is_text)),
            service: name(find(SERVICE, &ColumnType::is_text)),
            end: name(end.filter(|_| duration.is_none())),
            duration: name(duration),
            duration_unit: duration_unit.filter(|unit| *unit != TimeUnit::Nanoseconds),
            error_values: match status.map(|column| &column.column_type) {
                Some(number) if is_integer(number) => vec!["2".to_owned()],
                Some(boolean) if *boolean.bare() == ColumnType::Bool => vec!["true".to_owned()],
                _ => Vec::new(),
            },
            status: name(status),
            kind: name(find(KIND, &ColumnType::is_text)),
        },
    })
}

/// Finds a column by its name. An alias is another name of a column, which is preferred.
fn find_column<'c>(
    columns: &'c [Column],
    names: &[&str],
    fits: &dyn Fn(&ColumnType) -> bool,
) -> Option<&'c Column> {
    let folded = |name: &str| name.replace('_', "").to_lowercase();
    let with_name = |wanted: &str, alias: bool| {
        columns.iter().find(|column| {
            (column.default_kind == "ALIAS") == alias
                && folded(&column.name) == wanted
                && fits(&column.column_type)
        })
    };
    let stored = names.iter().find_map(|wanted| with_name(wanted, false));
    stored.or_else(|| names.iter().find_map(|wanted| with_name(wanted, true)))
}

/// Returns the unit that the name of a column ends with.
fn unit_of_name(name: &str) -> Option<TimeUnit> {
    let name = name.to_lowercase();
    let ends_with = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    if ends_with(&["nano", "nanos", "_ns"]) {
        Some(TimeUnit::Nanoseconds)
    } else if ends_with(&["micro", "micros", "_us"]) {
        Some(TimeUnit::Microseconds)
    } else if ends_with(&["milli", "millis", "_ms"]) || name == "durationms" {
        Some(TimeUnit::Milliseconds)
    } else {
        None
    }
}

/// Functions that return the start of a bucket, with its length in seconds.
const BUCKET_FUNCTIONS: [(&str, u32); 7] = [
    ("toStartOfMinute(", 60),
    ("toStartOfFiveMinutes(", 300),
    ("toStartOfFiveMinute(", 300),
    ("toStartOfTenMinutes(", 600),
    ("toStartOfFifteenMinutes(", 900),
    ("toStartOfHour(", 3_600),
    ("toStartOfDay(", 86_400),
];

/// Returns the length of the buckets whose starts a column holds, in seconds: from its expression, or as SigNoz writes it.
/// `None` if it is unknown. It does not follow from rows: those of one hour also fit into buckets that are too short, and
/// searches would miss later spans.
fn bucket_seconds(column: &Column) -> Option<u32> {
    if column.name == "ts_bucket_start" {
        return Some(1_800);
    }
    let expression = column.default_expression.as_str();
    if let Some((_, interval)) = expression.split_once("toInterval") {
        let (unit, rest) = interval.split_once('(')?;
        let count: u32 = rest.split_once(')')?.0.parse().ok()?;
        let seconds = match unit {
            "Second" => 1,
            "Minute" => 60,
            "Hour" => 3_600,
            "Day" => 86_400,
            _ => return None,
        };
        return count.checked_mul(seconds).filter(|_| expression.starts_with("toStartOfInterval("));
    }
    let function = BUCKET_FUNCTIONS.into_iter().find(|(function, _)| expression.starts_with(function));
    function.map(|(_, seconds)| seconds)
}

/// Returns the unit in which a number of this size is a time of our days.
fn unit_of_time(value: f64) -> TimeUnit {
    match value {
        ..1e11 => TimeUnit::Seconds,
        ..1e14 => TimeUnit::Milliseconds,
        ..1e17 => TimeUnit::Microseconds,
        _ => TimeUnit::Nanoseconds,
    }
}

impl Catalogue {
    /// Makes a proposal more exact by a sample of rows: units of integers, status values of errors. It is
    /// unchanged where the table cannot be read or holds nothing. The sample is span data: not every user may see what
    /// follows from it.
    pub async fn refine(&self, mut proposal: Binding, columns: &[Column]) -> Binding {
        let find = |name: Option<&String>| column_named(columns, name?);
        if let Some(unit) = proposal.timestamp_unit
            && find(Some(&proposal.timestamp)).is_some_and(|column| unit_of_name(&column.name).is_none())
        {
            let expression = format!("max({})", quote(&proposal.timestamp));
            let newest = self.sampled(&proposal, columns, &[&expression]).await;
            let newest = newest.first().and_then(Value::as_f64).filter(|newest| *newest > 0.0);
            proposal.timestamp_unit = Some(newest.map_or(unit, unit_of_time));
        }
        let Some(start) = find(Some(&proposal.timestamp))
            .and_then(|column| TimeExpressions::new(column, proposal.timestamp_unit))
        else {
            return proposal;
        };
        let nanos_per_tick = 10_u64.pow(9 - u32::from(start.precision));
        let status = find(proposal.display.status.as_ref()).map_or("[]".to_owned(), |column| {
            format!("groupUniqArray({MAX_STATUSES})(ifNull(toString({}), ''))", quote(&column.name))
        });
        // Nanoseconds of a unit of the duration, by spans with an end.
        let end = find_column(columns, END, &|column_type| is_time(column_type.bare()));
        let unit = match (find(proposal.display.duration.as_ref()), end) {
            (Some(duration), Some(end)) if unit_of_name(&duration.name).is_none() => {
                let (duration, end) = (quote(&duration.name), quote(&end.name));
                let nanos = format!(
                    "(toInt64(toUnixTimestamp64Nano(toDateTime64(assumeNotNull({end}), 9))) - toInt64({}) * {nanos_per_tick})",
                    start.ticks
                );
                format!(
                    "ifNotFinite(quantileIf(0.5)({nanos} / {duration}, isNotNull({end}) AND {duration} > 0 AND {nanos} > 0), 0)"
                )
            }
            _ => "0".to_owned(),
        };
        let found = self.sampled(&proposal, columns, &[&status, &unit]).await;
        let [statuses, unit] = found.as_slice() else { return proposal };
        if let Some(errors) = error_values(statuses) {
            proposal.display.error_values = errors;
        }
        if let Some(nanos) = unit.as_f64().filter(|nanos| *nanos > 0.0) {
            let unit = TimeUnit::ALL
                .into_iter()
                .min_by(|one, other| {
                    let distance = |unit: &TimeUnit| (nanos.log10() - (unit.nanos() as f64).log10()).abs();
                    distance(one).total_cmp(&distance(other))
                })
                .filter(|unit| *unit != TimeUnit::Nanoseconds);
            proposal.display.duration_unit = unit;
        }
        proposal
    }

    /// Returns values of expressions over some rows; none where they cannot be read.
    async fn sampled(&self, proposal: &Binding, columns: &[Column], expressions: &[&str]) -> Vec<Value> {
        let mut statement = Statement::for_columns(columns.iter().map(|column| column.name.as_str()));
        let names = [
            Some(&proposal.timestamp),
            proposal.display.status.as_ref(),
            proposal.display.duration.as_ref(),
            find_column(columns, END, &|column_type| is_time(column_type.bare())).map(|column| &column.name),
        ];
        let mut quoted: Vec<String> = names.into_iter().flatten().map(|name| quote(name)).collect();
        quoted.sort_unstable();
        quoted.dedup();
        statement.push(&format!(
            "SELECT {} FROM (SELECT {} FROM {} LIMIT {SAMPLE_ROWS})",
            expressions.join(", "),
            quoted.join(", "),
            quote_table(&proposal.database, &proposal.table),
        ));
        let client = self.client.with_limits(QueryLimits { seconds: SAMPLE_SECONDS, rows: 0 });
        let rows: Result<Vec<Vec<Value>>> = client.rows(statement).await;
        match rows {
            Ok(rows) => rows.into_iter().next().unwrap_or_default(),
            Err(error) => {
                tracing::debug!(%error, "no sample for a proposal");
                Vec::new()
            }
        }
    }
}

/// Returns those of a sample of status values that mean an error. `None` where the sample has none, or only those that every
/// version of the OpenTelemetry exporter writes, which need not be named.
fn error_values(statuses: &Value) -> Option<Vec<String>> {
    let statuses = statuses.as_array()?.iter().filter_map(Value::as_str);
    let errors = statuses.filter(|status| ERRORS.contains(&status.to_lowercase().as_str()));
    let mut errors: Vec<String> = errors.map(str::to_owned).collect();
    errors.sort_unstable();
    let is_known = |error: &String| tracewarden_model::Display::ERROR_VALUES.contains(&error.as_str());
    (!errors.is_empty() && !errors.iter().all(is_known)).then_some(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(definitions: &[(&str, &str)]) -> Vec<Column> {
        definitions.iter().map(|(name, kind)| Column::new((*name).to_owned(), (*kind).to_owned())).collect()
    }

    #[test]
    fn units_follow_from_names_and_magnitudes() {
        for (name, unit) in [
            ("timestamp_ns", Some(TimeUnit::Nanoseconds)),
            ("durationNano", Some(TimeUnit::Nanoseconds)),
            ("start_time_us", Some(TimeUnit::Microseconds)),
            ("DurationMs", Some(TimeUnit::Milliseconds)),
            ("duration_ms", Some(TimeUnit::Milliseconds)),
            ("Duration", None),
            ("status", None),
        ] {
            assert_eq!(unit_of_name(name), unit, "{name}");
        }
        for (value, unit) in [
            (1_790_000_000.0, TimeUnit::Seconds),
            (1_790_000_000_000.0, TimeUnit::Milliseconds),
            (1.79e15, TimeUnit::Microseconds),
            (1.79e18, TimeUnit::Nanoseconds),
        ] {
            assert_eq!(unit_of_time(value), unit, "{value}");
        }
    }

    #[test]
    fn the_length_of_a_time_bucket_follows_from_its_expression() {
        for (name, expression, seconds) in [
            ("ts_bucket_start", "", Some(1_800)),
            ("time_bucket", "toStartOfInterval(timestamp, toIntervalHour(4))", Some(14_400)),
            ("time_bucket", "toStartOfInterval(timestamp, toIntervalMonth(1))", None),
            ("time_bucket", "toStartOfFifteenMinutes(timestamp)", Some(900)),
            ("time_bucket", "toStartOfHour(timestamp) + toIntervalHour(1)", None),
            ("time_bucket", "", None),
        ] {
            let column = Column {
                default_expression: expression.to_owned(),
                ..Column::new(name.to_owned(), "DateTime".to_owned())
            };
            assert_eq!(bucket_seconds(&column), seconds, "{name} {expression}");
        }
    }

    #[test]
    fn stored_columns_are_preferred_to_aliases() {
        let mut columns = columns(&[("traceID", "String"), ("trace_id", "FixedString(32)")]);
        columns[0].default_kind = "ALIAS".to_owned();
        let found = |columns: &[Column]| find_column(columns, TRACE_ID, &is_id).unwrap().name.clone();
        assert_eq!(found(&columns), "trace_id");
        columns.pop();
        assert_eq!(found(&columns), "traceID");
    }
}
