//! Access tokens of programs, for which this service is the resource server.

use openidconnect::core::CoreGenderClaim;
use openidconnect::{IntrospectionUrl, RequestTokenError, SubjectIdentifier, UserInfoClaims, UserInfoError};
use serde_json::{Map, Value};
use tracewarden_model::Timestamp;

use crate::access_token::{self, AccessToken, VerifiedToken};
use crate::answer_cache::Question;
use crate::error::ProviderError;
use crate::metadata::{Known, error_chain};
use crate::provider::{OidcClient, OtherClaims, Provider, object, token_error};
use crate::resource::Resource;

impl Provider {
    /// Whether access tokens of the provider are accepted.
    pub fn accepts_access_tokens(&self) -> bool {
        self.settings.access_tokens.is_some()
    }

    /// Whether the provider is asked about access tokens that are not JWTs.
    pub(crate) fn introspects(&self) -> bool {
        self.settings.access_tokens.as_ref().is_some_and(|accepted| accepted.introspection)
    }

    /// Whether claims that access tokens lack are fetched.
    pub(crate) fn completes_access_tokens(&self) -> bool {
        self.settings.access_tokens.as_ref().is_some_and(|accepted| accepted.userinfo)
    }

    /// Verifies an access token for one resource at this origin.
    pub(crate) async fn access_token(
        &self,
        token: &str,
        resource: Resource,
        origin: &str,
        now: Timestamp,
    ) -> Result<AccessToken, ProviderError> {
        let audiences = self.settings.accepted_tokens()?.audiences(resource, origin);
        let verify =
            |known: &Known| access_token::verify(token, &known.keys, &self.settings, &audiences, now);
        let verified = self.with_current_keys(now, "the key of the access token is unknown", verify).await?;
        self.complete(token, verified, now).await
    }

    /// Asks the provider about an opaque access token for one resource at this origin (RFC 7662).
    pub(crate) async fn introspect(
        &self,
        token: &str,
        resource: Resource,
        origin: &str,
        now: Timestamp,
    ) -> Result<AccessToken, ProviderError> {
        let audiences = self.settings.accepted_tokens()?.audiences(resource, origin);
        let kept = self.answers.get(Question::Introspection, token, now);
        let answer = match &kept {
            Some(answer) => answer.clone(),
            None => self.introspection(token, now).await?,
        };
        let verified = access_token::check_introspection(answer.clone(), &self.settings, &audiences, now)?;
        if kept.is_none() {
            self.answers.put(Question::Introspection, token, answer, now);
        }
        self.complete(token, verified, now).await
    }

    /// An error of the provider says nothing about the token.
    async fn introspection(&self, token: &str, now: Timestamp) -> Result<Map<String, Value>, ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        let endpoint = known.metadata.additional_metadata().introspection_endpoint.clone();
        let endpoint = endpoint.ok_or_else(|| {
            ProviderError::unavailable("the provider's metadata have no `introspection_endpoint`")
        })?;
        let client = self.client(&known).set_introspection_url(IntrospectionUrl::from_url(endpoint));
        let token = openidconnect::AccessToken::new(token.to_owned());
        let answer = client.introspect(&token).request_async(&self.http).await;
        let answer = answer.map_err(|error| match error {
            RequestTokenError::ServerResponse(response) => ProviderError::unavailable(response.to_string()),
            other => ProviderError::unavailable(error_chain(&token_error(other))),
        })?;
        object(&answer)
    }

    /// Adds the claims of UserInfo, if they are used.
    async fn complete(
        &self,
        token: &str,
        mut verified: VerifiedToken,
        now: Timestamp,
    ) -> Result<AccessToken, ProviderError> {
        if self.completes_access_tokens() {
            let claims = match self.answers.get(Question::UserInfo, token, now) {
                Some(claims) => claims,
                None => {
                    // Without it, UserInfo could be about another person.
                    let subject = verified.subject().ok_or_else(|| {
                        ProviderError::invalid("the token has no `sub`, which UserInfo must confirm")
                    })?;
                    let subject = SubjectIdentifier::new(subject.to_owned());
                    let known = self.metadata.current(&self.http, self.issuer(), now).await?;
                    let sent = openidconnect::AccessToken::new(token.to_owned());
                    let claims = self.user_info(&self.client(&known), sent, Some(subject)).await?;
                    self.answers.put(Question::UserInfo, token, claims.clone(), now);
                    claims
                }
            };
            verified.add_claims(claims);
        }
        verified.into_access_token(&self.settings)
    }

    /// Fetches the claims of the UserInfo endpoint, which must be of this subject, if it is known.
    pub(crate) async fn user_info(
        &self,
        client: &OidcClient,
        access_token: openidconnect::AccessToken,
        subject: Option<SubjectIdentifier>,
    ) -> Result<Map<String, Value>, ProviderError> {
        let request = client.user_info(access_token, subject).map_err(ProviderError::unavailable)?;
        let answer = request.request_async(&self.http).await.map_err(|error| match error {
            UserInfoError::Request(cause) => ProviderError::unavailable(cause),
            UserInfoError::Response(status, ..) if !status.is_client_error() => {
                ProviderError::unavailable(format!("UserInfo: {status}"))
            }
            // The rest of the answer is not repeated: it may contain claims.
            UserInfoError::Response(status, ..) => ProviderError::invalid(format!("UserInfo: {status}")),
            other => ProviderError::invalid(error_chain(&other)),
        })?;
        let claims: UserInfoClaims<OtherClaims, CoreGenderClaim> = answer;
        object(&claims)
    }
}
