//! Access tokens of programs, for which this service is the resource server.

use openidconnect::core::CoreGenderClaim;
use openidconnect::{IntrospectionUrl, RequestTokenError, SubjectIdentifier, UserInfoClaims, UserInfoError};
use serde_json::{Map, Value};
use tracewarden_model::Timestamp;

use crate::access_token::{self, AccessToken, VerifiedToken};
use crate::answer_cache::Question;
use crate::error::ProviderError;
use crate::metadata::{Known, error_chain};
use crate::person::describing_person;
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

    fn audiences(&self, resource: Resource) -> Result<Vec<String>, ProviderError> {
        Ok(self.settings.accepted_tokens()?.audiences(resource, &self.origin))
    }

    /// Verifies an access token for one resource.
    pub(crate) async fn verify_access_token(
        &self,
        token: &str,
        resource: Resource,
        now: Timestamp,
    ) -> Result<VerifiedToken, ProviderError> {
        let audiences = self.audiences(resource)?;
        let verify =
            |known: &Known| access_token::verify(token, &known.keys, &self.settings, &audiences, now);
        self.with_current_keys(now, "the key of the access token is unknown", verify).await
    }

    /// Asks the provider about an opaque access token for one resource (RFC 7662).
    pub(crate) async fn introspect(
        &self,
        token: &str,
        resource: Resource,
        now: Timestamp,
    ) -> Result<VerifiedToken, ProviderError> {
        let audiences = self.audiences(resource)?;
        let kept = self.answers.get(Question::Introspection, token, now);
        let is_new = kept.is_none();
        let answer = match kept {
            Some(answer) => answer,
            None => self.introspection(token, now).await?,
        };
        let verified = access_token::check_introspection(answer.clone(), &self.settings, &audiences, now)?;
        if is_new {
            self.answers.put(Question::Introspection, token, &answer, now);
        }
        Ok(verified)
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

    /// Adds the claims of UserInfo to those of a token, if they are used and were kept. Returns `false` if they have to be fetched.
    pub fn add_kept_claims(&self, token: &str, verified: &mut VerifiedToken, now: Timestamp) -> bool {
        if !self.settings.access_tokens.as_ref().is_some_and(|accepted| accepted.userinfo) {
            return true;
        }
        let kept = self.answers.get(Question::UserInfo, token, now);
        // What was kept can be of another subject if the provider now says something else about an opaque token.
        let is_same = |claims: &Map<String, Value>| {
            claims.get("sub").and_then(Value::as_str).is_some_and(|sub| Some(sub) == verified.subject())
        };
        let Some(claims) = kept.filter(is_same) else { return false };
        verified.add_user_info(claims);
        true
    }

    /// Fetches the claims of UserInfo and adds them to those of a token.
    ///
    /// # Errors
    /// [`ProviderError::Invalid`] if the provider refuses the token, or answers about another person; [`ProviderError::Unavailable`].
    pub async fn add_fetched_claims(
        &self,
        token: &str,
        verified: &mut VerifiedToken,
        now: Timestamp,
    ) -> Result<(), ProviderError> {
        // Without it, UserInfo could be about another person.
        let subject = verified
            .subject()
            .ok_or_else(|| ProviderError::invalid("the token has no `sub`, which UserInfo must confirm"))?;
        let subject = SubjectIdentifier::new(subject.to_owned());
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        let sent = openidconnect::AccessToken::new(token.to_owned());
        let claims = self.user_info(&self.client(&known), sent, Some(subject)).await?;
        self.answers.put(Question::UserInfo, token, &claims, now);
        verified.add_user_info(claims);
        Ok(())
    }

    /// Reads the person of a token.
    ///
    /// # Errors
    /// [`ProviderError::Invalid`].
    pub fn access_token(&self, verified: VerifiedToken) -> Result<AccessToken, ProviderError> {
        verified.into_access_token(&self.settings)
    }

    /// Fetches the claims of the UserInfo endpoint that describe the person, who must have this subject, if it is known.
    pub(crate) async fn user_info(
        &self,
        client: &OidcClient,
        access_token: openidconnect::AccessToken,
        subject: Option<SubjectIdentifier>,
    ) -> Result<Map<String, Value>, ProviderError> {
        let request = client.user_info(access_token, subject).map_err(ProviderError::unavailable)?;
        let answer = request.request_async(&self.http).await.map_err(|error| match error {
            UserInfoError::Request(cause) => ProviderError::unavailable(cause),
            // Only these are about the token. The body is not repeated, nor are the values in it: they are claims.
            UserInfoError::Response(status, ..) if matches!(status.as_u16(), 400 | 401 | 403) => {
                ProviderError::invalid(format!("UserInfo: {status}"))
            }
            UserInfoError::Response(status, _, reason) if status.is_success() => {
                ProviderError::unavailable(format!("UserInfo: {reason}"))
            }
            UserInfoError::Response(status, ..) => ProviderError::unavailable(format!("UserInfo: {status}")),
            UserInfoError::Parse(error) => {
                ProviderError::invalid(format!("UserInfo: not as it must be at `{}`", error.path()))
            }
            other => ProviderError::invalid(format!("UserInfo: {other}")),
        })?;
        let claims: UserInfoClaims<OtherClaims, CoreGenderClaim> = answer;
        Ok(describing_person(object(&claims)?))
    }
}
