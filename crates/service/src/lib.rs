//! The use cases: authentication of the caller, authorisation, and the audit log. The only caller of `policy::authorise`.
//! Contains no HTTP. Results that REST returns unchanged have a serialised form.
//!
//! Invariants:
//! - A use case takes the permission that it needs as a value: [`Identity`] for the few actions that a user with a pending
//!   password change may do, [`Principal`] for those of any user, [`Administrator`] for the rest. Only [`Core::identify`],
//!   [`Identity::into_principal`] and [`Principal::require_admin`] create these values.
//! - No authority is cached between requests: each request reads the credential, user, roles and access model.
//! - Every use case can fail with the errors of authentication, of the application database and of ClickHouse, and with
//!   [`ServiceError::NotFound`] for an object that it names. The documentation of a use case lists its other errors.
//! - A change and its audit record are one transaction. The record of a read of traces is durable before the first byte is
//!   sent.

mod access;
mod analysis;
mod bootstrap;
mod core;
#[cfg(test)]
mod fuzz;
mod maintenance;
mod model_file;
mod policies;
mod service;
mod source;
mod traces;

pub use bootstrap::{AdminSettings, Bootstrap};
pub use core::Core;
pub use maintenance::Maintenance;
pub use model_file::{
    ChangeKind, ExportedModel, FailedTest, FileField, HistoryEntry, HistoryPage, ImportedModel, LostRole,
    ModelAt, ModelChange, ModelFile, ModelFiles, ModelPart, ModelPlan, PartKind, PolicyWarning, RunTests,
    TestRun,
};
pub use service::Service;
pub use traces::{
    AnswerBody, PageCursors, PendingQuery, QueryAnswer, QueryRequest, SchemaEcho, TraceAnswer, Traces, View,
};

pub use tracewarden_appdb::{
    ApiKey, AppDb, AuditRemoval, ChainFault, CurrentModel, DbError, DbInspection, ModelState, Policy,
    Preview, Role, SchemaState, VerifiedAudit,
};
pub use tracewarden_clickhouse::{
    ClickHouse, ClickHouseError, Column, Cost, DdlAdvice, DdlState, DdlSuggestion, Difference,
    ExistingAddition, FacetValue, MAX_SPANS_PER_ID, NearestSpan, ProgressCallback, Reads, SearchProgress,
    SpanChunk, SpanIdentity, SpanLine, SpanSummary, Stats, StatsBucket, StatsFacet, StatsGroup, StatsNumbers,
    StatsOrder, StatsUnit, Summary, TableSummary, TraceOrder, ValueCount,
};
pub use tracewarden_policy::{
    Decision, Diagnostic, FieldValue, Outcome as PolicyOutcome, Span, Verdict, check as check_expression,
    suite,
};

/// Token or password that is created or received; `Debug` does not show it.
pub type Secret = secrecy::SecretString;

pub use access::{
    Account, ApiKeyOfUser, AssignedAccess, AuthorizationResponse, BreakGlassRequest, CreatedApiKey,
    CreatedUser, Identities, MappingAnswer, MappingEvaluation, MappingWarning, NewApiKey, NewUser,
    PasswordCredentials, PolicyCheck, PreviewRequest, ProtectedResource, ProviderInfo, ProviderRedirect,
    ProviderSignIn, RoleDetail, Roles, ServiceInfo, ServiceOwner, SessionInfo, SignInAnswer, SignInMethods,
    SignInProvider, StoredRole, UnmappedExpression, UserAccess, UserChange, UserInfo, UserPage, UserProvider,
    Users,
};
pub use analysis::{
    Analysis, CollateralAnswer, CountedTraces, GrantingPolicy, ImpactAnswer, PolicyFailure, PolicyPreview,
    PolicyPreviewRequest, SearchCosts, UserImpact, Viewer, Viewers,
};
pub use core::{
    Actor, Administrator, Attributes, AuditDetail, AuditEntry, AuditLog, AuditPage, AuditQuery, AuthKind,
    Cause, Credential, EncryptionKey, FieldError, Identity, IfMatch, Limit, Limiter, Limits, Me, Outcome,
    PasswordCost, PasswordLogin, Permit, Principal, QueryLimit, RecordedCall, RejectedCall, RequestInfo,
    Retry, SearchedAround, ServiceError, SessionOnly, Settings, SignInRefusal, Tool, ToolCall, Transport,
    bounded, hash_password_phc, is_generated_password, limit_in_query, present, resembles_api_key,
};
pub use policies::{
    DecidedBy, EVALUATED_SPANS_MAX, EvaluateResult, ExplainVerdict, ExplainedPolicy, ExplainedUser,
    Explanation, OwnAccess, OwnPolicy, OwnRole, Policies, PolicyExplanation, PolicyVerdict, SpanReader,
};
pub use source::{BoundModel, FieldMark, Source, TableDetail};
pub use traces::{
    BRIEF_SPANS_MAX, FieldDescriptor, FieldValuesAnswer, FieldValuesRequest, FilterSchema, SpanStream,
    TraceReader, TraceStatsAnswer, TraceStatsRequest,
};
