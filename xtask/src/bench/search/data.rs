//! The data set. ClickHouse generates it once from numbers, so that the same size gives the same data, and it is kept for later
//! runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::bench::store::Store;
use crate::cache::{self, Lock};
use crate::stack::interrupt;

/// Version of the generated data; increase it with every change of the generator.
const VERSION: u64 = 1;
/// End of the data: 2026-01-02T00:00:00Z, in nanoseconds since 1970.
pub const END: u64 = 1_767_312_000_000_000_000;
const DAY: u64 = 86_400_000_000_000;
/// No trace starts in the last minute, so that no trace crosses the end.
const MARGIN: u64 = 60_000_000_000;
pub const SPANS_A_TRACE: u64 = 16;
/// Number of users per trace, as a fraction: one user per 6.25 traces.
pub const USERS_A_TRACE: (u64, u64) = (4, 25);
const BATCH: u64 = 500_000;
/// Disk space for both tables with their indexes, including merges in progress and the suggested projections.
const BYTES_A_SPAN: u64 = 900;
const DESCRIPTION: &str = "data-set.json";

pub const DATABASE: &str = "otel";

/// One of the two tables of the data set.
#[derive(Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub days: u64,
}

/// Table with all spans in one day.
pub const DAY_TABLE: Table = Table { name: "otel_traces", days: 1 };
/// Table with the same number of spans over eight days.
pub const WEEK_TABLE: Table = Table { name: "otel_traces_8d", days: 8 };

impl Table {
    pub fn quoted(self) -> String {
        format!("`{DATABASE}`.`{}`", self.name)
    }
}

/// Directory of a data set of this size. It is locked until this value is dropped.
pub struct DataDirectory {
    directory: PathBuf,
    spans: u64,
    complete: bool,
    _lock: Lock,
}

impl DataDirectory {
    /// Prepares the given directory, or one in the user's cache directory. A different data set there is regenerated if it is
    /// incomplete or if `fresh` is set; otherwise it is an error.
    pub fn prepare(directory: Option<&Path>, spans: u64, fresh: bool) -> Result<Self> {
        let directory = match directory {
            Some(directory) => directory.to_path_buf(),
            None => cache::directory("bench")?.join(format!("search-{spans}")),
        };
        fs::create_dir_all(&directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
        let directory = directory.canonicalize()?;
        let foreign = !directory.join(DESCRIPTION).exists() && directory.join("store").exists();
        ensure!(
            !foreign,
            "`{}` contains a store that this command did not create; choose another directory with --data",
            directory.display()
        );
        let lock = Lock::acquire(&directory)?;
        let stored = stored(&directory);
        let complete = !fresh && stored == Some(description(spans, true));
        if let Some(stored) =
            stored.filter(|stored| !complete && stored.get("complete") == Some(&json!(true)))
        {
            ensure!(
                fresh || stored.get("spans") == Some(&json!(spans)),
                "`{}` holds another data set: {stored}; choose another directory with --data, or recreate it \
                 with --fresh",
                directory.display()
            );
        }
        let data_directory = Self { directory, spans, complete, _lock: lock };
        if !complete {
            data_directory.clear()?;
        }
        Ok(data_directory)
    }

    /// Directory of the ClickHouse data.
    pub fn store(&self) -> PathBuf {
        self.directory.join("store")
    }

    fn clear(&self) -> Result<()> {
        let store = self.store();
        if store.exists() {
            fs::remove_dir_all(&store).with_context(|| format!("cannot remove `{}`", store.display()))?;
        }
        let file_system = rustix::fs::statvfs(&self.directory)?;
        let (free, needed) = (file_system.f_bavail * file_system.f_frsize, self.spans * BYTES_A_SPAN);
        if free < needed {
            bail!(
                "{} spans need about {} GB, and {} GB are free at `{}`; choose another directory with --data, or \
                 fewer spans with --spans",
                self.spans,
                needed / 1_000_000_000 + 1,
                free / 1_000_000_000,
                self.directory.display()
            );
        }
        self.describe(false)
    }

    fn describe(&self, complete: bool) -> Result<()> {
        let path = self.directory.join(DESCRIPTION);
        fs::write(&path, format!("{}\n", description(self.spans, complete)))
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Generates the data unless they exist.
    pub fn fill(&mut self, store: &Store) -> Result<()> {
        if self.complete {
            eprintln!("data set of {} spans, kept in `{}`", self.spans, self.directory.display());
            return Ok(());
        }
        eprintln!(
            "creating a data set of {} spans, once over a day and once over eight days, in `{}`",
            self.spans,
            self.directory.display()
        );
        create_week(store)?;
        for table in [DAY_TABLE, WEEK_TABLE] {
            fill(store, table, self.spans)?;
        }
        self.describe(true)?;
        self.complete = true;
        Ok(())
    }
}

fn description(spans: u64, complete: bool) -> Value {
    json!({"version": VERSION, "spans": spans, "complete": complete})
}

fn stored(directory: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(directory.join(DESCRIPTION)).ok()?).ok()
}

/// Creates the second table with its trace index, with the same definition as the tables of the local store.
fn create_week(store: &Store) -> Result<()> {
    let (day, week) = (DAY_TABLE.quoted(), WEEK_TABLE.quoted());
    let index = |table: Table, suffix: &str| format!("`{DATABASE}`.`{}_trace_id_ts{suffix}`", table.name);
    store.run(&format!("CREATE TABLE {week} AS {day}"))?;
    store.run(&format!("CREATE TABLE {} AS {}", index(WEEK_TABLE, ""), index(DAY_TABLE, "")))?;
    store.run(&format!(
        "CREATE MATERIALIZED VIEW {} TO {} AS SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End \
         FROM {week} WHERE TraceId != '' GROUP BY TraceId",
        index(WEEK_TABLE, "_mv"),
        index(WEEK_TABLE, "")
    ))?;
    Ok(())
}

fn fill(store: &Store, table: Table, spans: u64) -> Result<()> {
    let bar = ProgressBar::new(spans);
    bar.set_style(ProgressStyle::with_template(
        "{msg} {wide_bar} {human_pos} of {human_len} spans, {per_sec}, {eta} remain",
    )?);
    bar.set_message(table.name);
    let mut done = 0;
    while done < spans {
        interrupt::check()?;
        let batch = BATCH.min(spans - done);
        store.run(&insert(table, spans, done, batch))?;
        done += batch;
        bar.set_position(done);
    }
    bar.finish_and_clear();
    eprintln!("{}: {spans} spans are in; merging them into one part a day", table.name);
    store.run(&format!("OPTIMIZE TABLE {} FINAL", table.quoted()))?;
    store.run(&format!("OPTIMIZE TABLE `{DATABASE}`.`{}_trace_id_ts` FINAL", table.name))?;
    let stored = store.run(&format!("SELECT count() FROM {}", table.quoted()))?;
    ensure!(stored.trim() == spans.to_string(), "{} holds {} spans, not {spans}", table.name, stored.trim());
    Ok(())
}

/// Returns the statement that inserts spans `first` to `first + count` of the data set.
///
/// There are 36 services of 12 teams, with 8 operations each. A trace has 16 spans in up to four services, 20 ms apart. Every
/// fourth span is an entry span: it has the trace's tenant (one of 500, and a rare one) and user, and its own status. 70 % of the
/// traces are production, and 5 % fail in their second half. All values derive from hashes of the trace's number.
fn insert(table: Table, spans: u64, first: u64, count: u64) -> String {
    let traces = spans.div_ceil(SPANS_A_TRACE);
    let length = table.days * DAY;
    let (begin, step) = (END - length, (length - MARGIN) / traces.max(1));
    let users = users(traces);
    format!(
        "INSERT INTO {table} (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, \
         ResourceAttributes, ScopeName, SpanAttributes, Duration, StatusCode) \
         WITH intDiv(number, {SPANS_A_TRACE}) AS trace, number % {SPANS_A_TRACE} AS place, cityHash64(trace) AS h, \
           cityHash64(trace, place) AS s, \
           if(place < 4, h, cityHash64(h, toUInt64(intDiv(place, 4)))) % 36 AS service, \
           {begin} + toInt64(trace) * {step} + toInt64(h % 2000000000) AS begin, cityHash64(trace, 'tenant') AS t, \
           if(t % 12500 = 0, 'tenant-rare', concat('tenant-', toString(intDiv(t, 12500) % 500))) AS tenant, \
           cityHash64(trace, 'status') % 20 = 0 AND place >= 8 AS failing \
         SELECT fromUnixTimestamp64Nano(begin + toInt64(place) * 20000000 + toInt64(s % 10000000)), \
           lower(hex(sipHash128(trace))), lower(hex(sipHash64(number))), \
           if(place = 0, '', lower(hex(sipHash64(trace * {SPANS_A_TRACE} + intDiv(place - 1, 3))))), \
           concat(['GET', 'POST', 'SELECT', 'publish'][s % 4 + 1], ' /', toString(service), '/', \
             toString(intDiv(s, 4) % 2)), \
           ['Server', 'Client', 'Internal'][s % 3 + 1], concat('service-', toString(service)), \
           map('service.name', concat('service-', toString(service)), 'team', concat('team-', toString(service % 12)), \
             'deployment.environment', if(h % 10 < 7, 'production', 'staging'), \
             'host.name', concat('host-', toString(s % 200)), 'telemetry.sdk.language', 'rust', \
             'service.version', concat('1.', toString(h % 20))), \
           'bench', \
           if(place % 4 = 0, \
             map('tenant.id', tenant, 'http.status_code', if(failing, '500', '200'), \
               'user.id', concat('user-', toString(cityHash64(trace, 'user') % {users})), \
               'http.route', concat('/r/', toString(s % 300)), \
               'net.peer.ip', concat('10.0.', toString(s % 256), '.', toString(h % 256))), \
             map('thread.id', toString(s % 64), 'code.function', concat('fn', toString(s % 500)), \
               'db.system', 'postgresql', 'rpc.method', concat('m', toString(s % 100)), \
               'http.route', concat('/r/', toString(s % 300)))), \
           20000000 + s % 50000000, if(failing, 'Error', 'Unset') \
         FROM numbers({first}, {count})",
        table = table.quoted()
    )
}

/// Number of users in the data set.
pub fn users(traces: u64) -> u64 {
    (traces * USERS_A_TRACE.0 / USERS_A_TRACE.1).clamp(1, 200_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_directories_are_not_changed() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("store")).unwrap();
        for fresh in [false, true] {
            let error =
                DataDirectory::prepare(Some(directory.path()), 1_000, fresh).err().unwrap().to_string();
            assert!(error.contains("did not create"), "{error}");
        }
        assert!(directory.path().join("store").exists());
    }

    #[test]
    fn a_finished_data_set_is_kept_and_an_unfinished_one_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("store").join("part");
        let data_directory = DataDirectory::prepare(Some(directory.path()), 1_000, false).unwrap();
        let write = || {
            fs::create_dir_all(directory.path().join("store")).unwrap();
            fs::write(&file, "spans").unwrap();
        };
        write();
        drop(data_directory);
        let data_directory = DataDirectory::prepare(Some(directory.path()), 1_000, false).unwrap();
        assert!(!file.exists() && !data_directory.complete);
        write();
        data_directory.describe(true).unwrap();
        drop(data_directory);
        let data_directory = DataDirectory::prepare(Some(directory.path()), 1_000, false).unwrap();
        assert!(file.exists() && data_directory.complete);
        drop(data_directory);
        let error = DataDirectory::prepare(Some(directory.path()), 2_000, false).err().unwrap().to_string();
        assert!(error.contains("another data set") && file.exists(), "{error}");
        let data_directory = DataDirectory::prepare(Some(directory.path()), 2_000, true).unwrap();
        assert!(!file.exists() && !data_directory.complete);
    }
}
