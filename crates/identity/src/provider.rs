//! Sign-in with the authorization code flow, PKCE and a nonce.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim,
    CoreIdTokenVerifier, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreResponseType, CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenType,
};
use openidconnect::{
    AccessTokenHash, AdditionalClaims, AuthType, AuthenticationFlow, AuthorizationCode,
    ClaimsVerificationError, Client, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields, EndSessionUrl,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, ExtraTokenFields, IdTokenClaims, IdTokenFields,
    LogoutRequest, Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, PostLogoutRedirectUrl,
    RedirectUrl, RequestTokenError, Scope, SignatureVerificationError, StandardErrorResponse,
    StandardTokenIntrospectionResponse, StandardTokenResponse, TokenResponse,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracewarden_model::Timestamp;
use url::Url;

use crate::answer_cache::AnswerCache;
use crate::error::ProviderError;
use crate::http::{Http, HttpError};
use crate::logout_token::{self, LogoutToken};
use crate::metadata::{Known, MetadataCache, error_chain};
use crate::person::{Person, add_user_info};
use crate::refresh_token::{ExpectedNonce, RefreshToken};
use crate::settings::{CLOCK_LEEWAY_SECONDS, ProviderSettings, SettingsError, check_issuer};

/// Signature algorithms of tokens: asymmetric ones. With a symmetric one, everyone who knows the client secret could sign.
const ID_TOKEN_ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Claims besides the standard ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OtherClaims(Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

impl ExtraTokenFields for OtherClaims {}

type TokenFields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

pub(crate) type Tokens = StandardTokenResponse<TokenFields, CoreTokenType>;

pub(crate) type OidcClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    StandardTokenIntrospectionResponse<OtherClaims, CoreTokenType>,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

type Claims = IdTokenClaims<OtherClaims, CoreGenderClaim>;

/// Secrets of one sign-in. Each has at least 256 bits of entropy.
#[derive(Debug, Clone)]
pub struct SignInSecrets {
    /// `state`, which binds the answer to the browser.
    pub state: SecretString,
    /// `nonce`, which binds the ID token to this sign-in.
    pub nonce: SecretString,
    /// PKCE code verifier, which binds the code to this service: 43 to 128 characters of base64url.
    pub code_verifier: SecretString,
}

/// An identity provider.
#[derive(Debug)]
pub struct Provider {
    pub(crate) settings: ProviderSettings,
    pub(crate) http: Http,
    pub(crate) metadata: MetadataCache,
    pub(crate) answers: AnswerCache,
    /// Scheme, host and port under which users reach this service.
    pub(crate) origin: Arc<str>,
}

impl Provider {
    pub(crate) fn new(settings: ProviderSettings, origin: Arc<str>) -> Result<Self, SettingsError> {
        let issuer = check_issuer(&settings.issuer)?;
        let http = Http::new(&issuer, settings.ca_certificates.as_deref())?;
        let kept_for = settings.access_tokens.as_ref().and_then(|accepted| accepted.cache_ttl);
        let answers = AnswerCache::new(kept_for.unwrap_or_default());
        Ok(Self { settings, http, metadata: MetadataCache::default(), answers, origin })
    }

    /// Name, in paths and in mappings.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Text of the button on the sign-in page.
    pub fn label(&self) -> &str {
        &self.settings.label
    }

    /// Issuer identifier.
    pub fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// Returns the address at the provider to which the browser is sent.
    ///
    /// # Errors
    /// [`ProviderError::Unavailable`].
    pub async fn authorization_url(
        &self,
        secrets: &SignInSecrets,
        redirect_uri: &str,
        now: Timestamp,
    ) -> Result<Url, ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        let verifier = PkceCodeVerifier::new(secrets.code_verifier.expose_secret().to_owned());
        let client = self.client(&known);
        let state = CsrfToken::new(secrets.state.expose_secret().to_owned());
        let nonce = Nonce::new(secrets.nonce.expose_secret().to_owned());
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let request = client.authorize_url(flow, move || state, move || nonce);
        // The library adds `openid`.
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new);
        let (url, ..) = request
            .add_scopes(scopes)
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .set_redirect_uri(Cow::Owned(redirect_url(redirect_uri)?))
            .url();
        Ok(url)
    }

    /// Checks `iss` of an authorization response (RFC 9207), which tells apart responses of different providers.
    ///
    /// # Errors
    /// [`ProviderError::Invalid`] if it is of another issuer, or is missing although the provider sends it;
    /// [`ProviderError::Unavailable`].
    pub async fn check_response_issuer(
        &self,
        iss: Option<&str>,
        now: Timestamp,
    ) -> Result<(), ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        match iss {
            Some(iss) if iss == self.issuer() => Ok(()),
            Some(_) => Err(ProviderError::invalid("`iss` of the authorization response is another issuer")),
            None if known.metadata.additional_metadata().authorization_response_iss_parameter_supported => {
                Err(ProviderError::invalid("the authorization response has no `iss`"))
            }
            None => Ok(()),
        }
    }

    /// Exchanges an authorization code for an ID token and verifies it. The refresh token is returned if one is needed.
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn redeem(
        &self,
        code: &str,
        secrets: &SignInSecrets,
        redirect_uri: &str,
        now: Timestamp,
    ) -> Result<(Person, Option<RefreshToken>), ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        let client = self.client(&known);
        let request = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(ProviderError::unavailable)?;
        let tokens = request
            .set_pkce_verifier(PkceCodeVerifier::new(secrets.code_verifier.expose_secret().to_owned()))
            .set_redirect_uri(Cow::Owned(redirect_url(redirect_uri)?))
            .request_async(&self.http)
            .await
            .map_err(token_error)?;
        let person = self.person(known, &tokens, ExpectedNonce::Required(&secrets.nonce), now).await?;
        let refresh_token = self.refresh_interval().and_then(|_| refresh_token_of(&tokens, &secrets.nonce));
        Ok((person, refresh_token))
    }

    /// Verifies the ID token of a token response, and returns the person.
    pub(crate) async fn person(
        &self,
        known: Arc<Known>,
        tokens: &Tokens,
        nonce: ExpectedNonce<'_>,
        now: Timestamp,
    ) -> Result<Person, ProviderError> {
        let mut client = self.client(&known);
        let id_token =
            tokens.id_token().ok_or_else(|| ProviderError::invalid("the answer has no ID token"))?;
        let mut verified = id_token.claims(&verifier(&client, now), nonce).cloned();
        if let Err(ClaimsVerificationError::SignatureVerification(
            SignatureVerificationError::NoMatchingKey,
        )) = verified
        {
            let known = self.metadata.with_newer_keys(&known, &self.http, self.issuer(), now).await?;
            client = self.client(&known);
            verified = id_token.claims(&verifier(&client, now), nonce).cloned();
        }
        let verified = verified.map_err(ProviderError::invalid)?;
        self.check_more(&verified, now)?;
        if let Some(expected) = verified.access_token_hash() {
            let verifier = verifier(&client, now);
            let algorithm = id_token.signing_alg().map_err(ProviderError::invalid)?;
            let key = id_token.signing_key(&verifier).map_err(ProviderError::invalid)?;
            let actual = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if actual.map_err(ProviderError::invalid)? != *expected {
                return Err(ProviderError::invalid("`at_hash` is of another access token"));
            }
        }
        let mut claims = object(&verified)?;
        if self.settings.userinfo {
            let subject = verified.subject().clone();
            let more = self.user_info(&client, tokens.access_token().clone(), Some(subject)).await?;
            add_user_info(&mut claims, more);
        }
        Person::new(&self.settings, claims)
    }

    /// Checks claims that the library leaves to its users.
    fn check_more(&self, claims: &Claims, now: Timestamp) -> Result<(), ProviderError> {
        if claims.authorized_party().is_some_and(|party| party.as_str() != self.settings.client_id) {
            return Err(ProviderError::invalid("`azp` is another client"));
        }
        match claims.additional_claims().0.get("nbf") {
            None => Ok(()),
            Some(nbf) if nbf.as_i64().is_some_and(|nbf| nbf <= seconds(now) + CLOCK_LEEWAY_SECONDS) => Ok(()),
            Some(_) => Err(ProviderError::invalid("the ID token is not valid yet")),
        }
    }

    /// Verifies a token with which the provider ends sessions (OpenID Connect Back-Channel Logout 1.0).
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn logout_token(&self, token: &str, now: Timestamp) -> Result<LogoutToken, ProviderError> {
        let expected =
            logout_token::Expected { issuer: self.issuer(), client_id: &self.settings.client_id, now };
        let verify = |known: &Known| logout_token::verify(token, &known.keys, &expected);
        self.with_current_keys(now, "the key of the logout token is unknown", verify).await
    }

    /// Returns the address at which a browser ends the session at the provider (OpenID Connect RP-Initiated Logout), or `None` if the
    /// provider has none. The provider then sends the browser to `return_uri`.
    ///
    /// # Errors
    /// [`ProviderError::Unavailable`].
    pub async fn end_session_url(
        &self,
        return_uri: &str,
        now: Timestamp,
    ) -> Result<Option<Url>, ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        let Some(endpoint) = known.metadata.additional_metadata().end_session_endpoint.clone() else {
            return Ok(None);
        };
        let return_uri =
            PostLogoutRedirectUrl::new(return_uri.to_owned()).map_err(ProviderError::unavailable)?;
        let request = LogoutRequest::from(EndSessionUrl::from_url(endpoint))
            .set_client_id(ClientId::new(self.settings.client_id.clone()))
            .set_post_logout_redirect_uri(return_uri);
        Ok(Some(request.http_get_url()))
    }

    /// Verifies with the current keys, and if the key is not among them, with newer ones.
    pub(crate) async fn with_current_keys<T>(
        &self,
        now: Timestamp,
        unknown: &'static str,
        verify: impl Fn(&Known) -> Result<Option<T>, ProviderError> + Send,
    ) -> Result<T, ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        if let Some(verified) = verify(&known)? {
            return Ok(verified);
        }
        let known = self.metadata.with_newer_keys(&known, &self.http, self.issuer(), now).await?;
        verify(&known)?.ok_or_else(|| ProviderError::invalid(unknown))
    }

    /// Whether `sub` alone identifies people.
    pub fn identifies_by_sub(&self) -> bool {
        self.settings.subject == ["sub"]
    }

    pub(crate) fn client(&self, known: &Arc<Known>) -> OidcClient {
        let secret = self.settings.client_secret.as_ref();
        let secret = secret.map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
        let methods = known.metadata.token_endpoint_auth_methods_supported();
        // The default of OpenID Connect is `client_secret_basic`.
        let is_basic =
            methods.is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let client_id = ClientId::new(self.settings.client_id.clone());
        let client = Client::from_provider_metadata(known.metadata.clone(), client_id, secret);
        client.set_auth_type(if is_basic { AuthType::BasicAuth } else { AuthType::RequestBody })
    }
}

/// Returns the refresh token of a response, unless the response has none.
pub(crate) fn refresh_token_of(tokens: &Tokens, nonce: &SecretString) -> Option<RefreshToken> {
    let token = tokens.refresh_token()?.secret().clone();
    Some(RefreshToken::new(token.into(), nonce.clone()))
}

fn redirect_url(url: &str) -> Result<RedirectUrl, ProviderError> {
    RedirectUrl::new(url.to_owned()).map_err(ProviderError::unavailable)
}

fn seconds(time: Timestamp) -> i64 {
    time.as_nanos().div_euclid(1_000_000_000)
}

fn verifier<'a>(client: &'a OidcClient, now: Timestamp) -> CoreIdTokenVerifier<'a> {
    let now: DateTime<Utc> = DateTime::from_timestamp_nanos(now.as_nanos());
    let latest = now + TimeDelta::seconds(CLOCK_LEEWAY_SECONDS);
    client
        .id_token_verifier()
        .set_allowed_algs(ID_TOKEN_ALGORITHMS)
        .set_time_fn(move || now)
        .set_issue_time_verifier_fn(move |issued| {
            if issued <= latest { Ok(()) } else { Err("the ID token was issued in the future".to_owned()) }
        })
}

pub(crate) fn object(claims: &impl Serialize) -> Result<Map<String, Value>, ProviderError> {
    match serde_json::to_value(claims).map_err(ProviderError::invalid)? {
        Value::Object(claims) => Ok(claims),
        _ => Err(ProviderError::invalid("the claims are not an object")),
    }
}

pub(crate) type TokenRequestError =
    RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>;

pub(crate) fn token_error(error: TokenRequestError) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(response) => ProviderError::Refused(response.to_string().into()),
        RequestTokenError::Request(cause) => ProviderError::unavailable(error_chain(&cause)),
        // The response is not repeated: it may contain tokens.
        RequestTokenError::Parse(error, _) => ProviderError::invalid(error_chain(&error)),
        RequestTokenError::Other(cause) => ProviderError::invalid(cause),
    }
}
