//! `/me/api-keys`.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tracewarden_service::{ApiKeyInfo, NewApiKey};
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::problem::Problem;
use crate::query::Path;
use crate::routes::Caller;
use crate::wire::Time;

/// A personal API key to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewApiKey)]
pub(crate) struct CreateRequest {
    /// What the key is for.
    #[schema(examples("nightly report"))]
    name: String,
    /// From when it is dead; absent for never.
    expires_at: Option<Time>,
}

/// A personal API key, without its token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub(crate) struct WireApiKey {
    /// Opaque id.
    id: String,
    /// What the key is for.
    name: String,
    /// Beginning of the token, for recognition.
    #[schema(examples("twk_4fG8"))]
    token_hint: String,
    /// When it was made.
    created_at: Time,
    /// From when it is dead, if ever.
    expires_at: Option<Time>,
    /// When it was last used, to about a minute.
    last_used_at: Option<Time>,
}

impl From<ApiKeyInfo> for WireApiKey {
    fn from(key: ApiKeyInfo) -> Self {
        Self {
            id: key.id,
            name: key.name,
            token_hint: key.token_hint,
            created_at: key.created_at.into(),
            expires_at: key.expires_at.map(Time),
            last_used_at: key.last_used_at.map(Time),
        }
    }
}

/// Personal API keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiKeyList {
    /// The newest first.
    api_keys: Vec<WireApiKey>,
}

impl From<Vec<ApiKeyInfo>> for ApiKeyList {
    fn from(keys: Vec<ApiKeyInfo>) -> Self {
        Self { api_keys: keys.into_iter().map(WireApiKey::from).collect() }
    }
}

/// A new key. The token is shown this once.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedApiKey {
    /// Opaque id.
    id: String,
    /// What the key is for.
    name: String,
    /// The token; send it as `Authorization: Bearer`.
    token: String,
    /// Beginning of the token, for recognition.
    token_hint: String,
    /// When it was made.
    created_at: Time,
    /// From when it is dead, if ever.
    expires_at: Option<Time>,
}

/// Makes a key that carries the caller's roles as they are at each request.
#[utoipa::path(post, path = "/me/api-keys", tag = "self", request_body = CreateRequest, responses(
    (status = 201, description = "Made", body = CreatedApiKey),
))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<CreateRequest>,
) -> Result<(StatusCode, Answer<CreatedApiKey>), Problem> {
    let new = NewApiKey { name: new.name, expires_at: new.expires_at.map(|time| time.0) };
    let created = app.service.create_api_key(&caller, new).await?;
    let WireApiKey { id, name, token_hint, created_at, expires_at, .. } = created.key.into();
    let token = created.token.expose_secret().to_owned();
    let answer = CreatedApiKey { id, name, token, token_hint, created_at, expires_at };
    Ok((StatusCode::CREATED, Answer(answer)))
}

/// The caller's keys.
#[utoipa::path(get, path = "/me/api-keys", tag = "self", responses((status = 200, description = "Keys", body = ApiKeyList)))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Answer<ApiKeyList>, Problem> {
    Ok(Answer(app.service.my_api_keys(&caller).await?.into()))
}

/// Revokes one of the caller's keys.
#[utoipa::path(delete, path = "/me/api-keys/{id}", tag = "self", params(("id" = String, Path, description = "The key's id")),
    responses((status = 204, description = "Revoked"), (status = 404, description = "The caller has no such key")))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service.revoke_my_api_key(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
