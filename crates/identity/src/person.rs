//! A person as a provider describes them.

use serde_json::{Map, Value};

use crate::error::ProviderError;
use crate::settings::ProviderSettings;

/// Maximum size of all claims as JSON.
pub(crate) const MAX_CLAIMS_BYTES: usize = 64 * 1024;
const MAX_SUBJECT_BYTES: usize = 1_024;

/// Claims about the token, not about the person; they are not kept.
const TOKEN_CLAIMS: [&str; 12] =
    ["exp", "iat", "nbf", "jti", "nonce", "at_hash", "c_hash", "s_hash", "auth_time", "sid", "azp", "aud"];

/// Further claims that do not describe the person. They are kept, but only if the token itself makes them.
const ONLY_IN_TOKENS: [&str; 11] =
    ["iss", "client_id", "cid", "appid", "idtyp", "scope", "scp", "acr", "amr", "cnf", "typ"];

/// A claim, and the one that says whether it is verified.
const VERIFIABLE_CLAIMS: [(&str, &str); 2] =
    [("email", "email_verified"), ("phone_number", "phone_number_verified")];

/// Returns the claims of UserInfo that describe the person. The person may have chosen the value of others, such as `sid`.
pub(crate) fn describing_person(mut user_info: Map<String, Value>) -> Map<String, Value> {
    user_info.retain(|name, _| !TOKEN_CLAIMS.iter().chain(&ONLY_IN_TOKENS).any(|known| known == name));
    user_info
}

/// Adds what UserInfo says about a person to the claims of a token, which count if they differ.
pub(crate) fn add_user_info(claims: &mut Map<String, Value>, mut user_info: Map<String, Value>) {
    for (value, is_verified) in VERIFIABLE_CLAIMS {
        // One may be older than the other: a verified address must not vouch for another one, which the person has typed.
        let is_same = claims.get(value).is_some_and(|known| user_info.get(value) == Some(known));
        if !is_same && (claims.contains_key(value) || claims.contains_key(is_verified)) {
            user_info.remove(value);
            user_info.remove(is_verified);
        }
    }
    for (name, value) in user_info {
        claims.entry(name).or_insert(value);
    }
}

/// A person as a provider describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Issuer identifier of the provider.
    pub issuer: String,
    /// What identifies the person at the issuer for ever.
    pub subject: String,
    /// User name for a new user.
    pub username: Option<String>,
    /// Id of the session at the provider, if it has told it.
    pub session: Option<String>,
    /// Claims about the person, as a JSON object of bounded size.
    pub claims: Map<String, Value>,
}

impl Person {
    /// Reads verified claims.
    pub(crate) fn new(
        settings: &ProviderSettings,
        mut claims: Map<String, Value>,
    ) -> Result<Self, ProviderError> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let parts: Vec<&str> = settings
            .subject
            .iter()
            .map(|name| {
                text(name).ok_or_else(|| {
                    ProviderError::invalid(format!("no claim `{name}` that identifies the person"))
                })
            })
            .collect::<Result<_, _>>()?;
        let subject = match parts.as_slice() {
            [one] => (*one).to_owned(),
            // As JSON, so that different parts give different subjects.
            several => serde_json::to_string(several).map_err(ProviderError::invalid)?,
        };
        if subject.len() > MAX_SUBJECT_BYTES || subject.contains('\0') {
            return Err(ProviderError::invalid(
                "the claim that identifies the person is too long, or contains U+0000",
            ));
        }
        let username = text(&settings.username).map(str::to_owned);
        let session = text("sid")
            .filter(|sid| sid.len() <= MAX_SUBJECT_BYTES && !sid.contains('\0'))
            .map(str::to_owned);
        for name in TOKEN_CLAIMS {
            claims.remove(name);
        }
        let size = serde_json::to_string(&claims).map_err(ProviderError::invalid)?.len();
        if size > MAX_CLAIMS_BYTES {
            let cause = format!("the claims have {size} bytes, more than {MAX_CLAIMS_BYTES}");
            return Err(ProviderError::invalid(cause));
        }
        Ok(Self { issuer: settings.issuer.clone(), subject, username, session, claims })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn user_info_adds_what_describes_the_person() {
        let added = |claims: Value, user_info: Value| {
            let mut claims = claims.as_object().unwrap().clone();
            add_user_info(&mut claims, user_info.as_object().unwrap().clone());
            Value::Object(claims)
        };
        assert_eq!(
            added(json!({"sub": "1", "groups": ["a"]}), json!({"sub": "1", "groups": ["b"], "team": "x"})),
            json!({"sub": "1", "groups": ["a"], "team": "x"})
        );
        let user_info = json!({"email": "a@example.com", "email_verified": true});
        for token in [
            json!({"email": "boss@example.com"}),
            json!({"email": "boss@example.com", "email_verified": false}),
            json!({"email_verified": false}),
        ] {
            assert_eq!(added(token.clone(), user_info.clone()), token);
        }
        let unverified = json!({"email": "boss@example.com", "email_verified": false});
        assert_eq!(added(json!({"email_verified": true}), unverified), json!({"email_verified": true}));
        assert_eq!(added(json!({}), user_info.clone()), user_info);
        assert_eq!(added(json!({"email": "a@example.com"}), user_info.clone()), user_info);
    }

    #[test]
    fn user_info_says_nothing_about_the_token() {
        for name in ["sid", "aud", "azp", "exp", "iss", "client_id", "scope", "scp", "acr", "amr", "cnf"] {
            let user_info = json!({"sub": "1", name: "x"}).as_object().unwrap().clone();
            assert_eq!(Value::Object(describing_person(user_info)), json!({"sub": "1"}), "{name}");
        }
    }
}
