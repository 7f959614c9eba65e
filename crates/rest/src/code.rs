//! The stable codes of problem details. One table holds the status and title of each, so a code always has the same status.

use http::StatusCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $status:ident $title:literal;)*) => {
        /// A stable, machine-readable kind of problem. The spelling of a code never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// All codes, ordered by status.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the wire spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Parses the wire spelling.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// Returns the HTTP status of this kind of problem.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// Returns the title of this kind of problem, the same for every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// Not JSON, an unknown member, a wrong type or a malformed parameter.
    InvalidRequest "invalid_request" BAD_REQUEST "The request is not valid";
    /// The cursor belongs to another filter.
    CursorFilterMismatch "cursor_filter_mismatch" BAD_REQUEST "The cursor belongs to another filter";
    /// The cursor cannot be read, or belongs to another window, caller or binding.
    InvalidCursor "invalid_cursor" BAD_REQUEST "The cursor is not valid here";
    /// The sign-in did not begin in this browser, took too long, or was completed before.
    SignInExpired "sign_in_expired" BAD_REQUEST "The sign-in has expired";
    /// The request has no valid session and no valid API key.
    Unauthenticated "unauthenticated" UNAUTHORIZED "A session or an API key is required";
    /// The sign-in was rejected; the response does not say why.
    InvalidCredentials "invalid_credentials" UNAUTHORIZED "User name or password is wrong";
    /// The caller is authenticated but not an administrator, or the API key is not valid for this operation.
    Forbidden "forbidden" FORBIDDEN "The caller may not do this";
    /// The password must be changed before anything else.
    PasswordChangeRequired "password_change_required" FORBIDDEN "The password must be changed first";
    /// The person is known, but is not signed in.
    SignInRefused "sign_in_refused" FORBIDDEN "The sign-in is refused";
    /// The scopes of the access token do not permit the call.
    InsufficientScope "insufficient_scope" FORBIDDEN "The access token does not permit this";
    /// A browser sent the request on behalf of another site.
    CrossSite "cross_site" FORBIDDEN "The request comes from another site";
    /// The operation cannot be called with an API key.
    SessionRequired "session_required" FORBIDDEN "A session is required, not an API key";
    /// The trace is absent or the caller may not read it; the response does not tell which.
    TraceNotFound "trace_not_found" NOT_FOUND "No such trace";
    /// Any other resource is absent.
    NotFound "not_found" NOT_FOUND "No such resource";
    /// The resource exists but does not support the method.
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "The method is not served here";
    /// The route serves no representation that `Accept` asks for.
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE "No acceptable representation";
    /// The request's body did not arrive in time.
    RequestTimeout "request_timeout" REQUEST_TIMEOUT "The request took too long to arrive";
    /// A name is taken, or the current state does not permit the change.
    Conflict "conflict" CONFLICT "The request conflicts with the current state";
    /// The last administrator cannot be removed.
    LastAdmin "last_admin" CONFLICT "The last administrator must remain";
    /// No table is bound as trace source.
    NotBound "not_bound" CONFLICT "No trace source is bound";
    /// Columns of the bound table have other types than when its fields were marked; no spans are returned.
    SchemaChanged "schema_changed" CONFLICT "The bound table has changed";
    /// The `If-Match` precondition failed.
    PreconditionFailed "precondition_failed" PRECONDITION_FAILED "The resource has changed";
    /// The client expects another user than the one whose credential it sent.
    UserMismatch "user_mismatch" PRECONDITION_FAILED "Another user is signed in";
    /// The body is larger than the limit.
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE "The body is too large";
    /// The path with its query parameters is longer than the limit.
    UriTooLong "uri_too_long" URI_TOO_LONG "The path is too long";
    /// The body is not declared to be JSON.
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "The body must be JSON";
    /// There is no such field, or the caller may not know of it.
    UnknownField "unknown_field" UNPROCESSABLE_ENTITY "No such field";
    /// The field cannot be used in filters.
    NotFilterable "not_filterable" UNPROCESSABLE_ENTITY "The field is not searchable";
    /// The field's type does not have the operator.
    OperatorNotAllowed "operator_not_allowed" UNPROCESSABLE_ENTITY "The operator is not allowed for the field";
    /// The value has another type than the operator takes.
    ValueType "value_type" UNPROCESSABLE_ENTITY "The value has the wrong type";
    /// `value` or `values` is missing, superfluous or has the wrong number of elements.
    ValueCount "value_count" UNPROCESSABLE_ENTITY "Wrong number of values for the operator";
    /// More conditions than the limit.
    TooManyConditions "too_many_conditions" UNPROCESSABLE_ENTITY "The filter has too many conditions";
    /// More values than the limit.
    TooManyValues "too_many_values" UNPROCESSABLE_ENTITY "A condition has too many values";
    /// A policy does not compile against the access model.
    PolicyInvalid "policy_invalid" UNPROCESSABLE_ENTITY "The policy is not valid";
    /// `from` is not before `to`.
    InvalidWindow "invalid_window" UNPROCESSABLE_ENTITY "The time window is empty";
    /// The new password does not meet the requirements.
    PasswordRejected "password_rejected" UNPROCESSABLE_ENTITY "The new password is refused";
    /// There is no role of this name.
    UnknownRole "unknown_role" UNPROCESSABLE_ENTITY "No such role";
    /// Tests of a model file fail.
    TestsFailed "tests_failed" UNPROCESSABLE_ENTITY "Tests of the access model fail";
    /// A column that is to be adopted has other values than the map.
    ColumnDiffers "column_differs" UNPROCESSABLE_ENTITY "The column differs from the map";
    /// Well-formed, but a member's value is not allowed.
    InvalidValue "invalid_value" UNPROCESSABLE_ENTITY "A value is not allowed";
    /// `If-Match` is required here.
    PreconditionRequired "precondition_required" PRECONDITION_REQUIRED "`If-Match` is required";
    /// The headers exceed the limit on their size or number.
    HeadersTooLarge "headers_too_large" REQUEST_HEADER_FIELDS_TOO_LARGE "The headers are too large";
    /// Too many attempts; `Retry-After` says how long to wait.
    TooManyAttempts "too_many_attempts" TOO_MANY_REQUESTS "Too many attempts";
    /// The user already runs the maximum number of concurrent queries; `Retry-After` says when to try again.
    TooManyQueries "too_many_queries" TOO_MANY_REQUESTS "Too many queries at a time";
    /// A stored policy cannot be applied; no spans are returned.
    PolicyBroken "policy_broken" INTERNAL_SERVER_ERROR "A stored policy cannot be applied";
    /// An internal error of the service.
    Internal "internal" INTERNAL_SERVER_ERROR "Internal error";
    /// An identity provider failed, or sent what cannot be accepted.
    IdentityProvider "identity_provider" BAD_GATEWAY "The identity provider failed";
    /// ClickHouse failed.
    ClickHouseError "clickhouse_error" BAD_GATEWAY "ClickHouse failed";
    /// ClickHouse or the application database is not reachable.
    Unavailable "unavailable" SERVICE_UNAVAILABLE "Temporarily unavailable";
    /// The service is at capacity; the operation was not started.
    Overloaded "overloaded" SERVICE_UNAVAILABLE "The service is busy";
    /// The query exceeded its time limit.
    QueryTimeout "query_timeout" GATEWAY_TIMEOUT "The query took too long";
    /// The query needed more memory in ClickHouse than its limit.
    QueryMemory "query_memory" GATEWAY_TIMEOUT "The query needs too much memory";
    /// The query would read more than the limits of ClickHouse permit.
    QueryTooLarge "query_too_large" GATEWAY_TIMEOUT "The query reads too much";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique() {
        let mut spellings: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        spellings.sort_unstable();
        spellings.dedup();
        assert_eq!(spellings.len(), Code::ALL.len());
    }

    #[test]
    fn every_code_is_documented_with_its_status() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        let documentation = std::fs::read_to_string(path).unwrap();
        let is_row = |line: &&str| {
            line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let rows = documentation.lines().filter(is_row).count();
        assert_eq!(rows, Code::ALL.len());
        for code in Code::ALL {
            let row = format!("| {} | `{}` |", code.status().as_u16(), code.as_str());
            assert!(documentation.contains(&row), "docs/api.md lacks {row}");
        }
    }
}
