//! Cost of statements, as ClickHouse reports it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Resources that ClickHouse used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cost {
    /// Rows read.
    pub rows: u64,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// Execution time in milliseconds.
    #[serde(rename = "milliseconds", serialize_with = "milliseconds")]
    #[schema(value_type = u64)]
    pub elapsed: Duration,
}

fn milliseconds<S: Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

impl Cost {
    /// Returns the sum; it saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            bytes: self.bytes.saturating_add(other.bytes),
            elapsed: self.elapsed.saturating_add(other.elapsed),
        }
    }

    /// Parses the summary header of an answer: numbers as strings. Older servers do not send the time.
    pub(crate) fn from_summary(text: &str, waited: Duration) -> Option<Self> {
        let summary: serde_json::Value = serde_json::from_str(text).ok()?;
        let number = |name: &str| -> Option<u64> {
            let value = summary.get(name)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        let elapsed = number("elapsed_ns").map_or(waited, Duration::from_nanos);
        Some(Self { rows: number("read_rows")?, bytes: number("read_bytes")?, elapsed })
    }
}

/// Adds up the cost of statements, also for the outer meter, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    total: Mutex<Cost>,
    outer: Option<Arc<Meter>>,
}

impl Meter {
    pub(crate) fn nested(outer: Option<Arc<Self>>) -> Self {
        Self { outer, ..Self::default() }
    }

    pub(crate) fn add(&self, cost: Cost) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        *total = total.plus(cost);
        if let Some(outer) = &self.outer {
            outer.add(cost);
        }
    }

    pub(crate) fn cost(&self) -> Cost {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{Filter, Timestamp, Window};
    use tracewarden_policy::Predicate;
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::{binding, unrestricted_scope};
    use crate::agreement::{connect, execute};
    use crate::sql::Statement;
    use crate::{SelectRequest, TraceOrder};

    #[test]
    fn a_summary_is_numbers_as_strings() {
        let waited = Duration::from_millis(7);
        let cost = |rows, bytes, elapsed| Some(Cost { rows, bytes, elapsed });
        let of = |text: &str| Cost::from_summary(text, waited);
        assert_eq!(
            of(
                r#"{"read_rows":"18446744073709551615","read_bytes":"5","elapsed_ns":"1000","memory_usage":"0"}"#
            ),
            cost(u64::MAX, 5, Duration::from_micros(1))
        );
        assert_eq!(of(r#"{"read_rows":"3","read_bytes":"5"}"#), cost(3, 5, waited));
        assert_eq!(of(r#"{"read_rows":3,"read_bytes":5}"#), cost(3, 5, waited));
        for odd in ["", "3", "{}", r#"{"read_rows":"3"}"#, r#"{"read_rows":"-3","read_bytes":"5"}"#] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[tokio::test]
    async fn every_row_of_a_slow_answer_is_counted() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        execute(
            &local,
            "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY Timestamp AS SELECT \
             toDateTime64(1790000000, 9) AS Timestamp, toString(number + 1) AS TraceId, toString(number) AS SpanId, \
             '' AS ParentSpanId FROM numbers(30000)"
                .to_owned(),
        )
        .await;
        let metered = store.metered();
        assert_eq!(metered.cost(), Cost::default());
        // The first rows arrive long before the last are read.
        let slow = "SELECT SpanId, 0 FROM default.spans WHERE SpanId < '1' \
                    UNION ALL SELECT SpanId, sleepEachRow(0.00003) FROM default.spans";
        let rows: Vec<(String, u8)> = metered.client.rows(Statement::new(slow)).await.unwrap();
        let cost = metered.cost();
        assert_eq!((rows.len(), cost.rows), (30_001, 60_000));
        assert!(cost.bytes >= 30_000 * 8 && cost.elapsed >= Duration::from_millis(500), "{cost:?}");

        // All statements of a search count, for the search and for the outer meter; other clients' statements do not.
        let inner = metered.metered();
        let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let (binding, scope, filter) = (binding("default", "spans"), unrestricted_scope(), Filter::default());
        let request = || SelectRequest {
            binding: &binding,
            scope: &scope,
            filter: &filter,
            window: Window::new(at(1_789_999_000), at(1_790_001_000)).unwrap(),
            order: TraceOrder::Newest,
            limit: 10,
            after: None,
            progress: None,
        };
        assert_eq!(inner.select(request()).await.unwrap().len(), 10);
        let found = inner.cost();
        assert!(found.rows >= 30_000, "{found:?}");
        assert_eq!(metered.cost().rows, cost.rows + found.rows);
        assert_eq!(store.cost(), Cost::default());

        // The cost of a search is available without its results.
        let unscoped = {
            let SelectRequest { binding, window, limit, .. } = request();
            let timeout = Duration::from_secs(60);
            let asked = connect(&local);
            asked
                .search_cost(binding, &[Predicate::False, Predicate::True], &[], window, limit, timeout)
                .await
        };
        let fresh = connect(&local).metered();
        fresh.select(request()).await.unwrap();
        assert_eq!(unscoped.unwrap().rows, fresh.cost().rows);
    }
}
