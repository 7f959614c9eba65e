//! Settings of a provider.

use std::time::Duration;

use secrecy::SecretString;
use url::{Host, Url};

use crate::error::ProviderError;
use crate::resource::Resource;

/// By how much the clock of a provider may be ahead of the one of this machine.
pub const CLOCK_LEEWAY_SECONDS: i64 = 60;

/// Settings of a provider.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Name, in paths and in mappings: 1 to 32 of `a-z 0-9 -`.
    pub name: String,
    /// Text of the button on the sign-in page.
    pub label: String,
    /// Issuer identifier, exactly as the provider writes it.
    pub issuer: String,
    /// Client id.
    pub client_id: String,
    /// Client secret; `None` for a public client.
    pub client_secret: Option<SecretString>,
    /// Scopes besides `openid`.
    pub scopes: Vec<String>,
    /// Names of the claims that together identify a person for ever.
    pub subject: Vec<String>,
    /// Name of the claim with the user name of a new user.
    pub username: String,
    /// Whether claims that are not in the ID token are fetched from the UserInfo endpoint.
    pub userinfo: bool,
    /// Certificates in PEM format that are trusted in addition to those of the system.
    pub ca_certificates: Option<Vec<u8>>,
    /// The access tokens that are accepted; `None` for none.
    pub access_tokens: Option<AccessTokenSettings>,
    /// Time after which the provider is asked again about the person of a session, with a refresh token; `None` for not before the
    /// next sign-in.
    pub refresh_interval: Option<Duration>,
}

impl ProviderSettings {
    pub(crate) fn accepted_tokens(&self) -> Result<&AccessTokenSettings, ProviderError> {
        let refused = || ProviderError::invalid("access tokens of this provider are not accepted");
        self.access_tokens.as_ref().ok_or_else(refused)
    }
}

/// The access tokens of a provider that are accepted.
#[derive(Debug, Clone)]
pub struct AccessTokenSettings {
    /// Audiences for the interface for agents: a token must have one of them. `None` for the URL of the interface.
    pub mcp_audiences: Option<Vec<String>>,
    /// The same for the API.
    pub rest_audiences: Option<Vec<String>>,
    /// Values of `typ` in the header, in lower case.
    pub token_types: Vec<String>,
    /// Ids of the clients whose tokens are accepted; empty for all.
    pub clients: Vec<String>,
    /// Whether the provider is asked about tokens that are not JWTs.
    pub introspection: bool,
    /// Whether claims that a token lacks are fetched from the UserInfo endpoint.
    pub userinfo: bool,
    /// How long answers of the introspection and UserInfo endpoints are kept; `None` if the provider is asked for each request.
    pub cache_ttl: Option<Duration>,
}

impl AccessTokenSettings {
    /// Returns an audience that both resources at this origin accept.
    pub(crate) fn shared_audience(&self, origin: &str) -> Option<String> {
        let rest = self.audiences(Resource::Rest, origin);
        self.audiences(Resource::Mcp, origin).into_iter().find(|audience| rest.contains(audience))
    }

    /// Returns the audiences that are accepted for a resource at this origin.
    pub(crate) fn audiences(&self, resource: Resource, origin: &str) -> Vec<String> {
        let configured = match resource {
            Resource::Mcp => &self.mcp_audiences,
            Resource::Rest => &self.rest_audiences,
        };
        configured.clone().unwrap_or_else(|| vec![resource.url(origin)])
    }
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The issuer cannot be used.
    #[error("{0}")]
    Issuer(&'static str),
    /// A token could be for both interfaces.
    #[error("the identity provider `{0}` accepts `{1}` as audience of both interfaces")]
    Audience(String, String),
    /// A token would be sent to a provider that did not issue it.
    #[error(
        "`introspection` is set for several identity providers, but an opaque token does not tell which of them to ask"
    )]
    Introspection,
    /// The certificates or the HTTP client cannot be used.
    #[error("no HTTP client: {0}")]
    Http(#[from] reqwest::Error),
}

/// Parses an issuer identifier: an `https` URL without query and fragment, or `http` with a loopback host.
///
/// # Errors
/// [`SettingsError::Issuer`].
pub fn check_issuer(issuer: &str) -> Result<Url, SettingsError> {
    let url = Url::parse(issuer).map_err(|_| SettingsError::Issuer("must be a URL"))?;
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(SettingsError::Issuer("must be a URL without user, query and fragment"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(SettingsError::Issuer(
            "must begin with `https://`; `http://` is accepted for loopback hosts only",
        )),
    }
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether the host is written as an address that is not reachable from the Internet. Names are not resolved.
pub(crate) fn is_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(_)) => is_loopback(url),
        Some(Host::Ipv4(address)) => is_private_v4(address),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(address) => is_private_v4(address),
            None => {
                address.is_loopback()
                    || address.is_unspecified()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
            }
        },
        None => true,
    }
}

fn is_private_v4(address: std::net::Ipv4Addr) -> bool {
    let is_shared = matches!(address.octets(), [100, 64..=127, ..]);
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || is_shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_https_or_loopback() {
        for good in [
            "https://id.example.com",
            "https://id.example.com/realms/a/",
            "http://127.0.0.1:8080",
            "http://localhost",
        ] {
            assert!(check_issuer(good).is_ok(), "{good}");
        }
        for bad in [
            "id.example.com",
            "http://id.example.com",
            "http://192.168.0.1",
            "https://id.example.com?a",
            "https://id.example.com#a",
            "https://user@id.example.com",
            "ftp://id.example.com",
        ] {
            assert!(check_issuer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn private_addresses_are_recognised() {
        let private = |url: &str| is_private(&Url::parse(url).unwrap());
        for url in [
            "https://10.0.0.1",
            "https://192.168.1.1",
            "https://172.16.0.1",
            "https://127.0.0.1",
            "https://169.254.169.254",
            "https://100.64.0.1",
            "https://0.0.0.0",
            "https://[::1]",
            "https://[fd00::1]",
            "https://[fe80::1]",
            "https://[::ffff:10.0.0.1]",
            "https://localhost",
            "https://0x7f.1",
            "https://2130706433",
        ] {
            assert!(private(url), "{url}");
        }
        for url in
            ["https://id.example.com", "https://192.0.2.1", "https://100.128.0.1", "https://[2001:db8::1]"]
        {
            assert!(!private(url), "{url}");
        }
    }
}
