//! Error messages for agents: what is wrong, where, and how to correct it, so that an agent needs one more call and no
//! guesses.

use rmcp::model::{CallToolResult, ContentBlock};
use tracewarden_service::{Outcome, Retry, ServiceError};

use crate::span_text::one_line;
use crate::tokens::tokens;

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Machine-readable code, as in the REST API.
    pub(crate) code: &'static str,
    retry: Retry,
    /// Messages, each with the argument that it refers to, or an empty name.
    causes: Vec<(String, String)>,
    advice: Option<String>,
    /// Details of the ClickHouse error, for administrators only.
    for_administrators: Option<String>,
    /// Outcome for the audit log, unless it is already recorded.
    pub(crate) unrecorded: Option<Outcome>,
}

/// Maximum number of causes in a message. Further ones are mostly repetitions.
const MAX_CAUSES: usize = 5;
/// Maximum length of a cause. It may quote arguments, and a response must stay small.
const MAX_CAUSE_CHARACTERS: usize = 400;
/// Maximum tokens of a failure; the rest of the smallest response is for the text around it.
const MAX_TEXT_TOKENS: usize = 900;

impl Failure {
    pub(crate) fn argument(argument: &str, detail: impl Into<String>) -> Self {
        let causes = vec![(argument.to_owned(), detail.into())];
        Self { unrecorded: Some(Outcome::Failed), ..Self::new("invalid_request", causes) }
    }

    fn new(code: &'static str, causes: Vec<(String, String)>) -> Self {
        Self {
            code,
            retry: Retry::from_code(code),
            causes,
            advice: None,
            for_administrators: None,
            unrecorded: None,
        }
    }

    pub(crate) fn internal(what: &'static str) -> Self {
        tracing::error!(what, "a tool failed");
        Self::new("internal", vec![(String::new(), "something went wrong".to_owned())])
    }

    /// Marks the failure as recorded, because the read is already in the audit log and only its response is rejected.
    pub(crate) fn after_reading(self) -> Self {
        Self { unrecorded: None, ..self }
    }

    /// Marks the failure as denied before a use case handled the call.
    pub(crate) fn mark_denied(self) -> Self {
        Self { unrecorded: Some(Outcome::Denied), ..self }
    }

    /// Adds the details of the ClickHouse error for an administrator, as in the REST API.
    pub(crate) fn with_administrator_detail(mut self) -> Self {
        if let (Some(more), Some((_, detail))) = (self.for_administrators.take(), self.causes.first_mut()) {
            *detail = format!("{detail}: {more}");
        }
        self
    }

    /// Sets the argument of causes that refer to none.
    pub(crate) fn for_argument(mut self, name: &str) -> Self {
        for (argument, _) in &mut self.causes {
            if argument.is_empty() {
                *argument = name.to_owned();
            }
        }
        self
    }

    /// Returns the message, which always fits into the smallest response.
    pub(crate) fn text(&self) -> String {
        let lengths = [MAX_CAUSE_CHARACTERS, MAX_CAUSE_CHARACTERS / 4, MAX_CAUSE_CHARACTERS / 16];
        let texts = lengths.map(|characters| self.within(characters));
        let [.., shortest] = &texts;
        texts.iter().find(|text| tokens(text) <= MAX_TEXT_TOKENS).unwrap_or(shortest).clone()
    }

    fn within(&self, characters: usize) -> String {
        let mut text = format!("error {}:", self.code);
        for (argument, detail) in self.causes.iter().take(MAX_CAUSES) {
            let detail = one_line(detail, characters);
            let separator = if self.causes.len() > 1 { "\n- " } else { " " };
            text += separator;
            if !argument.is_empty() {
                text += &format!("{}: ", one_line(argument, characters.min(100)));
            }
            text += &detail;
        }
        if self.causes.len() > MAX_CAUSES {
            text += &format!("\n- and {} more", self.causes.len() - MAX_CAUSES);
        }
        text.extend(self.advice.iter().map(|advice| format!("\n{advice}")));
        text + &format!("\nretry: {}", self.retry)
    }

    pub(crate) fn result(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.text())])
    }
}

/// Converts a JSON Pointer into a REST API request to the name of the argument.
pub(crate) fn argument_name(pointer: &str) -> String {
    let pointer = pointer.strip_prefix("/filter").unwrap_or(pointer);
    let mut name = String::new();
    for part in pointer.split('/').filter(|part| !part.is_empty()) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            name += &format!("[{part}]");
        } else {
            let separator = if name.is_empty() { "" } else { "." };
            name += &format!("{separator}{part}");
        }
    }
    name
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        if let Some(log_cause) = error.log_cause() {
            tracing::warn!(code = error.code(), log_cause, "a tool call failed");
        }
        let causes = match error.errors() {
            [] => vec![(String::new(), error.detail())],
            errors => {
                errors.iter().map(|error| (argument_name(&error.pointer), error.detail.clone())).collect()
            }
        };
        // Use cases record the requests that they reject.
        Self {
            code: error.code(),
            retry: error.retry(),
            causes,
            advice: advice(error.code(), error.retry(), error.retry_after_seconds()),
            for_administrators: error.for_administrators(),
            unrecorded: None,
        }
    }
}

/// Returns advice, if the error message does not contain any.
fn advice(code: &str, retry: Retry, retry_after_seconds: Option<u64>) -> Option<String> {
    let advice = match code {
        "unknown_field" | "not_filterable" => "svc_filter_schema lists the fields that there are.",
        "operator_not_allowed" | "value_type" | "value_count" => {
            "svc_filter_schema lists the operators of each type, with an example of each."
        }
        "invalid_window" => "`from` must be before `to`; or use `last`, such as \"1h\".",
        "invalid_cursor" | "cursor_filter_mismatch" => {
            "Repeat the call that gave the cursor, with the arguments that its answer contains under `next`, \
             or leave `cursor` out to start again."
        }
        "trace_not_found" => {
            "Either there is no such trace, or you may not read it; the answer is the same for both. \
             svc_query_traces lists the traces that you may read."
        }
        "not_bound" => "No table of traces is connected yet; an administrator has to bind one.",
        "schema_changed" | "policy_broken" => {
            "An administrator has to fix this; no trace is shown until then."
        }
        "forbidden" => "The key is limited to other tools; its owner can create another.",
        "too_many_queries" => "Wait a second, and call one tool at a time.",
        "clickhouse_error" if retry == Retry::Never => {
            "An administrator has to change something in ClickHouse first; the same call fails until then."
        }
        "unavailable" | "overloaded" | "clickhouse_error" => match retry_after_seconds {
            Some(1) => "Try again in a second.",
            Some(seconds) => return Some(format!("Try again in {seconds} seconds.")),
            None => "Try again in some seconds.",
        },
        _ => return None,
    };
    Some(advice.to_owned())
}

#[cfg(test)]
mod tests {
    use tracewarden_service::ClickHouseError;

    use super::*;

    #[test]
    fn pointers_become_arguments() {
        let check = |pointer: &str, name: &str| assert_eq!(argument_name(pointer), name);
        check("/filter/conditions/0/name", "conditions[0].name");
        check("/filter/conditions/3/values/1", "conditions[3].values[1]");
        check("/filter/same_span/2/0/value", "same_span[2][0].value");
        check("/ref", "ref");
        check("", "");
    }

    #[test]
    fn administrators_get_causes_and_all_callers_retry_advice() {
        let failed = |error: ClickHouseError| Failure::from(ServiceError::from(error));
        let lasting = failed(ClickHouseError::TableChanged("a column is gone".to_owned())).text();
        assert!(
            lasting.ends_with("until then.\nretry: never") && !lasting.contains("Try again"),
            "{lasting}"
        );
        let cause = "ClickHouse 25.8.2.1 answered with code 1001 (STD_EXCEPTION)";
        let message = "Code: 1001. DB::Exception: a statement (STD_EXCEPTION) (version 25.8.2.1)".to_owned();
        let exception = ClickHouseError::Exception { code: Some(1001), message };
        let rest = "\nTry again in some seconds.\nretry: safe";
        let text = failed(exception.clone()).text();
        assert_eq!(text, format!("error clickhouse_error: ClickHouse failed{rest}"));
        let text = failed(exception).with_administrator_detail().text();
        assert_eq!(text, format!("error clickhouse_error: ClickHouse failed: {cause}{rest}"));
        for (retry_after_seconds, expected) in
            [(59, "Try again in 59 seconds."), (1, "Try again in a second.")]
        {
            let message = "a statement".to_owned();
            let text = failed(ClickHouseError::Unavailable { message, retry_after_seconds }).text();
            assert!(text.contains(&format!("temporarily unavailable\n{expected}\n")), "{text}");
        }
    }

    #[test]
    fn many_causes_are_truncated() {
        let causes = (0..50).map(|at| (format!("conditions[{at}].name"), "x\n".repeat(10_000))).collect();
        let failure = Failure {
            code: "unknown_field",
            retry: Retry::Never,
            causes,
            advice: advice("unknown_field", Retry::Never, None),
            for_administrators: None,
            unrecorded: None,
        };
        let text = failure.text();
        assert!(text.starts_with("error unknown_field:\n- conditions[0].name: x\\nx\\n"), "{text}");
        assert!(
            text.ends_with("- and 45 more\nsvc_filter_schema lists the fields that there are.\nretry: never"),
            "{text}"
        );
        assert!(text.lines().count() == 9 && text.len() < 4_000, "{} {}", text.lines().count(), text.len());
        let causes = (0..5).map(|_| (String::new(), "🦀".repeat(1_000))).collect();
        let text = Failure { causes, ..failure }.text();
        assert!(tokens(&text) <= MAX_TEXT_TOKENS, "{text}");
    }
}
