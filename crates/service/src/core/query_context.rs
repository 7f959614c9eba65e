//! Queries that exceeded a ClickHouse limit, and advice for the caller.

use tracewarden_clickhouse::ClickHouseError;
use tracewarden_model::{Condition, Window};

use crate::core::Core;
use crate::core::access::Access;
use crate::core::error::ServiceError;
use crate::core::query_limit::QueryLimit;

/// Properties of a query on which the advice depends.
#[derive(Debug, Clone)]
pub(crate) struct QueryContext {
    /// Time window; `None` if the query has none.
    window: Option<Window>,
    /// Whether the caller is an administrator, which determines the details in messages.
    is_administrator: bool,
    /// The DDL suggestion for the table that would help most. For administrators only: it may name a field whose existence is
    /// hidden from others.
    suggestion: Option<String>,
}

impl Core {
    /// Collects the properties for advice on a read with these conditions.
    pub(crate) fn query_context(
        &self,
        access: &Access,
        window: Option<Window>,
        conditions: &[Condition],
    ) -> QueryContext {
        let is_administrator = access.authority.principal.is_admin();
        let suggestion = if is_administrator {
            let conditions = conditions.iter().map(|condition| &condition.field.field);
            let policies = access.scope.referenced_fields().iter().map(|marked| &marked.field);
            self.clickhouse.helpful_suggestion(&access.binding, conditions.chain(policies))
        } else {
            None
        };
        QueryContext { window, is_administrator, suggestion }
    }
}

impl QueryContext {
    /// Converts a ClickHouse error for the caller. ClickHouse's message goes to the log only, because it quotes statements.
    pub(crate) fn error(&self, error: ClickHouseError) -> ServiceError {
        match ServiceError::from_store(error, self.is_administrator) {
            ServiceError::OverLimit { limit, log_cause, .. } => {
                ServiceError::OverLimit { limit, detail: self.advice(limit), log_cause }
            }
            other => other,
        }
    }

    fn advice(&self, limit: QueryLimit) -> String {
        let mut text = limit.message().to_owned();
        match self.window {
            Some(window) => text.push_str(&format!(
                ": narrow the window ({} from {} to {} were requested), or add a condition that few traces \
                 match",
                format_duration(window),
                window.from(),
                window.to()
            )),
            None => text.push_str(": a search in a narrow window costs less"),
        }
        text.push_str(match limit {
            QueryLimit::Time => "; the limit is the setting `query_timeout` (`TRACEWARDEN_QUERY_TIMEOUT`)",
            QueryLimit::Memory => {
                "; the limit is the setting `query_memory` (`TRACEWARDEN_QUERY_MEMORY`), or a limit of \
                 ClickHouse itself"
            }
            QueryLimit::Size => "; the limit is set in ClickHouse for the service's user",
        });
        match (self.is_administrator, &self.suggestion) {
            (true, Some(id)) => {
                text.push_str(&format!(
                    "; the suggestion `{id}` of `GET /schema/ddl` would make this cheaper"
                ));
            }
            (true, None) => text.push_str("; see `GET /schema/ddl` for what makes queries read less"),
            (false, _) => {
                text.push_str(
                    "; an administrator can raise it, or make queries read less (`GET /schema/ddl`)",
                );
            }
        }
        text
    }
}

/// Formats the length of a window in the largest unit of which it contains at least two.
fn format_duration(window: Window) -> String {
    let seconds = window.to().as_nanos().saturating_sub(window.from().as_nanos()) / 1_000_000_000;
    let units: [(i64, &str); 4] = [(86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= unit.saturating_mul(2));
    unit.map_or_else(
        || "less than 2 seconds".to_owned(),
        |(unit, name)| {
            let tenths = seconds.saturating_mul(10) / unit;
            if tenths % 10 == 0 {
                format!("{} {name}", tenths / 10)
            } else {
                format!("{}.{} {name}", tenths / 10, tenths % 10)
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use tracewarden_model::Timestamp;

    use super::*;

    fn window(seconds: i64) -> Window {
        let from = Timestamp::parse("2026-11-20T00:00:00Z").unwrap();
        Window::new(from, from.saturating_add(seconds * 1_000_000_000)).unwrap()
    }

    #[test]
    fn windows_are_formatted_in_large_units() {
        for (seconds, expected) in [
            (1, "less than 2 seconds"),
            (119, "119 seconds"),
            (120, "2 minutes"),
            (5_400, "90 minutes"),
            (86_400, "24 hours"),
            (7 * 86_400, "7 days"),
            (9_000, "2.5 hours"),
        ] {
            assert_eq!(format_duration(window(seconds)), expected);
        }
    }

    #[test]
    fn advice_contains_the_request_but_no_clickhouse_text() {
        let failures = [
            (
                ClickHouseError::Timeout("SELECT secret".to_owned()),
                "query_timeout",
                "TRACEWARDEN_QUERY_TIMEOUT",
            ),
            (ClickHouseError::Memory("SELECT secret".to_owned()), "query_memory", "TRACEWARDEN_QUERY_MEMORY"),
            (
                ClickHouseError::TooLarge("SELECT secret".to_owned()),
                "query_too_large",
                "in ClickHouse for the service's user",
            ),
        ];
        for (failure, code, setting) in failures {
            for is_administrator in [true, false] {
                let suggestion = is_administrator.then(|| "skip_index_x".to_owned());
                let query_context =
                    QueryContext { window: Some(window(86_400)), is_administrator, suggestion };
                let error = query_context.error(failure.clone());
                let detail = error.detail();
                assert_eq!(error.code(), code);
                assert!(
                    detail.contains("24 hours from 2026-11-20T00:00:00Z") && detail.contains(setting),
                    "{detail}"
                );
                assert!(
                    !detail.contains("secret") && error.log_cause().unwrap().contains("secret"),
                    "{detail}"
                );
                assert_eq!(detail.contains("skip_index_x"), is_administrator);
                assert!(!detail.ends_with('.') && detail.contains("GET /schema/ddl"), "{detail}");
            }
        }
        let refused = ClickHouseError::Exception { code: Some(60), message: "SELECT secret".to_owned() };
        let query_context = QueryContext { window: None, is_administrator: false, suggestion: None };
        assert_eq!(query_context.error(refused).detail(), "ClickHouse failed");
    }
}
