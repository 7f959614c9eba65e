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
