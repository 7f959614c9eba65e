//! `/me/api-keys`.

use axum::Json as JsonResponse;
use axum::extract::State;
use http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tracewarden_model::Timestamp;
use tracewarden_service::{ApiKey, NewApiKey};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::problem::Problem;
use crate::query::Path;
use crate::read_only::ReadOnly;

/// An API key to create.
#[serde_with::apply(ReadOnly => #[serde(default)] #[schema(inline, required = false)] #[expect(dead_code, reason = "ignored")])]
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewApiKey)]
pub(crate) struct CreateRequest {
    /// Purpose of the key.
    #[schema(examples("nightly report"))]
    name: String,
    /// Time from which the key is invalid; absent for a key that does not expire.
    expires_at: Option<Timestamp>,
    /// A policy that a trace must satisfy in addition to the policies of the owner's roles. The same span or another span of the
    /// trace may satisfy it.
    #[schema(examples("SpanAttributes[\"deployment.environment\"] == \"staging\""))]
    policy: Option<String>,
    /// The only tools that the key may call, each once; absent for every operation that does not require a session.
    #[schema(min_items = 1, examples(json!(["svc_query_traces", "svc_get_trace"])))]
    tools: Option<Vec<String>>,
    id: ReadOnly,
    token_hint: ReadOnly,
    created_at: ReadOnly,
    last_used_at: ReadOnly,
    last_client_ip: ReadOnly,
    last_user_agent: ReadOnly,
}

impl From<CreateRequest> for NewApiKey {
    fn from(request: CreateRequest) -> Self {
        let CreateRequest { name, expires_at, policy, tools, .. } = request;
        Self { name, expires_at, policy, tools }
    }
}

/// Personal API keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiKeyList {
    /// The newest key first.
    pub(crate) api_keys: Vec<ApiKey>,
}

/// A new key. The token is returned only in this response.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedApiKey {
    /// The key.
    #[serde(flatten)]
    key: ApiKey,
    /// The token; send it as `Authorization: Bearer`.
    token: String,
}

/// Creates a key with the access that the caller's roles have at the time of each request. With `policy` or `tools` it is a
/// scoped API key, which has less access and never administrator rights.
#[utoipa::path(post, path = "/me/api-keys", tag = "self", request_body = CreateRequest, responses(
    (status = 201, description = "Made", body = CreatedApiKey),
    (status = 409, description = "`conflict`: the caller has reached the limit of API keys"),
    (status = 422, description = "`invalid_value`: a name, an expiry or a tool that is not allowed; `policy_invalid`: the policy does not compile"),
    (status = 429, description = "`too_many_queries`: with a policy, when the user has reached the limit of concurrent queries"),
))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<CreateRequest>,
) -> Result<(StatusCode, JsonResponse<CreatedApiKey>), Problem> {
    let created = app.service.account().create_api_key(&caller, new.into()).await?;
    Ok((StatusCode::CREATED, JsonResponse(created.into())))
}

impl From<tracewarden_service::CreatedApiKey> for CreatedApiKey {
    fn from(created: tracewarden_service::CreatedApiKey) -> Self {
        Self { token: created.token.expose_secret().to_owned(), key: created.key }
    }
}

/// Lists the caller's keys.
#[utoipa::path(get, path = "/me/api-keys", tag = "self", responses((status = 200, description = "Keys", body = ApiKeyList)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<ApiKeyList>, Problem> {
    Ok(JsonResponse(ApiKeyList { api_keys: app.service.account().my_api_keys(&caller).await? }))
}

/// Revokes one of the caller's keys.
#[utoipa::path(delete, path = "/me/api-keys/{id}", tag = "self", params(("id" = String, Path, description = "The key's id")),
    responses((status = 204, description = "Revoked"), (status = 404, description = "`not_found`: the caller has no such key")))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service.account().revoke_my_api_key(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
