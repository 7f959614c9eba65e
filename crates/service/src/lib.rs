//! The use cases: authentication of the caller, authorisation, and the audit log. The only caller of `policy::authorise`.
//! Contains no HTTP and no JSON of the wire format.
//!
//! Invariants:
//! - A use case takes the permission that it needs as a value: [`Identity`] for the few actions that a user with a pending
//!   password change may do, [`Principal`] for those of any user, [`Administrator`] for the rest. Only [`Service::identify`],
//!   [`Service::authenticate`] and [`Principal::require_admin`] create these values.
//! - No authority is cached between requests: each request reads the credential, user, roles and access model.
//! - A change and its audit record are one transaction. The record of a read of traces is durable before the first byte is
//!   sent.

mod access;
mod adoption;
mod api_keys;
mod argon2_memory;
mod audit;
mod audit_detail;
mod audit_log;
mod authentication;
mod authority;
mod binding;
mod bootstrap;
mod change_password;
mod collateral_access;
mod core;
mod cursor;
mod ddl;
mod discovery;
mod error;
mod evaluation;
mod explain;
mod field_values;
mod fields;
mod filter_schema;
#[cfg(test)]
mod fuzz;
mod impact;
mod maintenance;
mod metrics;
mod model_change;
mod model_file;
mod open_audit_record;
mod passwords;
mod permits;
mod policy_advice;
mod policy_errors;
mod precondition;
mod preview;
mod principal;
mod query_input;
mod query_limit;
mod rejected_calls;
mod retry;
mod roles;
mod service;
mod sessions;
mod settings;
mod sign_in;
mod sign_in_limits;
mod sign_in_throttle;
mod span_stream;
mod tasks;
mod tokens;
mod tools;
mod trace_reader;
mod trace_stats;
mod traces;
mod user_batches;
mod user_credentials;
mod username_characters;
mod username_key;
mod users;
mod validate;
mod viewers;

pub use api_keys::{ApiKeyInfo, CreatedApiKey, NewApiKey};
pub use audit::{Outcome, RecordedCall, is_invisible_or_bidi_control};
pub use audit_log::{AuditDetail, AuditEntry, AuditLog, AuditPage, AuditQuery};
pub use binding::BoundModel;
pub use bootstrap::{AdminSettings, Bootstrap};
pub use collateral_access::{CollateralAnswer, CollateralRequest};
pub use core::Core;
pub use discovery::{ColumnDetail, MemberDetail, Source, TableDetail};
pub use error::{Cause, FieldError, ServiceError, bounded};
pub use evaluation::{EVALUATED_SPANS_MAX, Policies};
pub use explain::{
    ExplainVerdict, ExplainedPolicy, ExplainedUser, Explanation, NearestSpan, OwnAccess, OwnPolicy, OwnRole,
    PolicyExplanation, PolicyVerdict, SpanReader, SpanReference, SpanVerdict,
};
pub use field_values::{FieldValuesAnswer, FieldValuesRequest};
pub use fields::FieldMark;
pub use filter_schema::{FieldDescriptor, FilterSchema};
pub use impact::{
    Analysis, CountedTraces, ImpactAnswer, PolicyPreview, PolicyPreviewRequest, SearchCosts, TraceChange,
    UserImpact,
};
pub use maintenance::Maintenance;
pub use model_file::{
    ChangeKind, ExportedModel, FailedTest, FileField, HistoryEntry, HistoryPage, ImportedModel, LostRole,
    ModelAt, ModelChange, ModelFile, ModelFiles, ModelPart, ModelPlan, PartKind, PolicyWarning, RunTests,
    TestRun,
};
pub use passwords::hash_password_phc;
pub use precondition::IfMatch;
pub use preview::PreviewRequest;
pub use principal::{
    Administrator, AuthKind, Credential, Identity, Me, Principal, RequestInfo, ToolCall, Transport,
};
pub use query_limit::QueryLimit;
pub use rejected_calls::{RejectedCall, SessionOnly};
pub use retry::Retry;
pub use roles::{PolicyCheck, PutRoleAnswer, RoleDetail, Roles};
pub use service::Service;
pub use sessions::SessionInfo;
pub use settings::{Limits, PasswordCost, Settings};
pub use sign_in::{Account, PasswordCredentials, SignInAnswer};
pub use span_stream::SpanStream;
pub use tokens::is_generated_password;
pub use tools::Tool;
pub use trace_reader::{BRIEF_SPANS_MAX, TraceReader};
pub use trace_stats::{TraceStatsAnswer, TraceStatsRequest};
pub use traces::{
    AnswerBody, PageCursors, PendingQuery, QueryAnswer, QueryRequest, SchemaEcho, SchemaSource, TraceAnswer,
    Traces, View,
};
pub use users::{CreatedUser, NewUser, UserAccess, UserChange, UserInfo, UserPage, Users};
pub use viewers::{GrantingPolicy, PolicyFailure, Viewer, Viewers};

pub use tracewarden_appdb::{
    AppDb, AuditRemoval, ChainFault, CurrentModel, DbError, DbInspection, ModelState, Policy, Preview, Role,
    SchemaState, VerifiedAudit,
};
pub use tracewarden_policy::{
    Decision, Diagnostic, FieldValue, Outcome as PolicyOutcome, Span, Verdict, check as check_expression,
    suite,
};
pub use tracewarden_tracestore::{
    ClickHouse, Column, Cost, DdlAdvice, DdlKind, DdlState, DdlSuggestion, ERROR_STATUSES, ExistingAddition,
    MAX_SPANS_PER_ID, PhysicalField, ProgressCallback, Reads, SampledColumn, SampledKey, SearchProgress,
    SharedValue, SpanChunk, SpanLine, SpanSummary, Stats, StatsGroup, StatsNumbers, StatsOrder, StatsUnit,
    Summary, TableSummary, ValueCount,
};

/// Token or password that is created or received; `Debug` does not show it.
pub type Secret = secrecy::SecretString;
