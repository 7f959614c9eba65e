//! Queries that exceeded a ClickHouse limit, and advice for the caller.

use tracewarden_clickhouse::ClickHouseError;
use tracewarden_model::{Filter, Window};

use crate::core::access::Access;
use crate::core::clickhouse_errors::changed_fields;
use crate::core::error::{QueryLimit, ServiceError};

/// Properties of a query on which the advice depends.
#[derive(Debug, Clone)]
pub(crate) struct QueryContext {
    window: Option<Window>,
    /// Whether the caller is an administrator, which determines the details in messages.
    is_administrator: bool,
    /// The DDL suggestion for the table that would help most. For administrators only: it may name a field whose existence is
    /// hidden from others.
    suggestion: Option<String>,
    /// Whether the caller has chosen the time-out, with `seconds`.
    pub(crate) has_chosen_timeout: bool,
}

impl QueryContext {
    /// Collects the properties for advice on a read with this filter.
    pub(crate) fn new(access: &Access, window: Option<Window>, filter: &Filter) -> Self {
        let is_administrator = access.authority.principal.is_admin();
        let suggestion = if is_administrator {
            let conditions = filter.all_conditions().map(|condition| &condition.field.field);
            let policies = access.scope.referenced_fields().iter().map(|marked| &marked.field);
            access.store.helpful_suggestion(&access.binding, conditions.chain(policies))
        } else {
            None
        };
        Self { window, is_administrator, suggestion, has_chosen_timeout: false }
    }

    /// Completes an error of ClickHouse for the caller. ClickHouse's message goes to the log only, because it quotes statements.
    pub(crate) fn complete(&self, error: ServiceError) -> ServiceError {
        match error {
            ServiceError::OverLimit { limit, source, .. } => {
                ServiceError::OverLimit { limit, detail: self.advice(limit), source }
            }
            ServiceError::SchemaChanged { source: ClickHouseError::FieldsChanged(changed), .. } => {
                ServiceError::SchemaChanged {
                    errors: changed_fields(&changed, self.is_administrator),
                    source: ClickHouseError::FieldsChanged(changed),
                }
            }
            other => other,
        }
    }

    fn advice(&self, limit: QueryLimit) -> String {
        if self.has_chosen_timeout && limit == QueryLimit::Time {
            return "timed out before even a sample was counted: allow more `seconds`, at most 60, or narrow the \
                    window"
                .to_owned();
        }
        let narrow = match self.window {
            Some(window) => format!(
                "narrow the window ({} from {} to {} were requested), or add a condition that few traces match",
                format_duration(window),
                window.from(),
                window.to()
            ),
            None => "a search in a narrow window costs less".to_owned(),
        };
        let setting = match limit {
            QueryLimit::Time => "the limit is the setting `query_timeout` (`TRACEWARDEN_QUERY_TIMEOUT`)",
            QueryLimit::Memory => {
                "the limit is the setting `query_memory` (`TRACEWARDEN_QUERY_MEMORY`), or a limit of \
                 ClickHouse itself"
            }
            QueryLimit::Size => "the limit is set in ClickHouse for the service's user",
        };
        let remedy = match (self.is_administrator, &self.suggestion) {
            (true, Some(id)) => {
                format!("the suggestion `{id}` of `GET /schema/ddl` would make this cheaper")
            }
            (true, None) => "see `GET /schema/ddl` for what makes queries read less".to_owned(),
            (false, _) => {
                "an administrator can raise it, or make queries read less (`GET /schema/ddl`)".to_owned()
            }
        };
        format!("{limit}: {narrow}; {setting}; {remedy}")
    }
}

/// Formats the length of a window in the largest unit of which it contains at least two.
fn format_duration(window: Window) -> String {
    let seconds = window.to().as_nanos().saturating_sub(window.from().as_nanos()) / 1_000_000_000;
    let units: [(i64, &str); 4] = [(86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds")];
    match units.into_iter().find(|(unit, _)| seconds >= unit.saturating_mul(2)) {
        None => "less than 2 seconds".to_owned(),
        Some((unit, name)) if seconds.saturating_mul(10) / unit % 10 == 0 => {
            format!("{} {name}", seconds / unit)
        }
        Some((unit, name)) => {
            let tenths = seconds.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
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
                let query_context = QueryContext {
                    window: Some(window(86_400)),
                    is_administrator,
                    suggestion,
                    has_chosen_timeout: false,
                };
                let error = query_context.complete(failure.clone().into());
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
        let query_context = QueryContext {
            window: None,
            is_administrator: false,
            suggestion: None,
            has_chosen_timeout: false,
        };
        assert_eq!(query_context.complete(refused.into()).detail(), "ClickHouse failed");
    }
}
