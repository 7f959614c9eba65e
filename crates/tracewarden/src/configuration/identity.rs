//! The file with the identity providers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;
use tracewarden_identity::{AccessTokenSettings, ProviderSettings, check_issuer};

use super::values::limited_duration;

/// The identity providers.
#[derive(Debug, Clone)]
pub struct IdentityFile {
    /// Settings of each provider, by name.
    pub providers: Vec<ProviderSettings>,
    /// Files that client secrets were read from.
    pub secret_files: Vec<PathBuf>,
}

/// One table of the file. Its name is the provider's name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    issuer: String,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    label: Option<String>,
    #[serde(default = "default_scopes")]
    scopes: Vec<String>,
    #[serde(default = "default_subject")]
    subject: Vec<String>,
    #[serde(default = "default_username")]
    username: String,
    #[serde(default)]
    userinfo: bool,
    ca_file: Option<PathBuf>,
    access_tokens: Option<AccessTokens>,
    refresh_interval: Option<String>,
}

/// The access tokens of programs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessTokens {
    mcp_audiences: Option<Vec<String>>,
    rest_audiences: Option<Vec<String>>,
    #[serde(default = "default_token_types")]
    token_types: Vec<String>,
    #[serde(default)]
    clients: Vec<String>,
    #[serde(default)]
    introspection: bool,
    #[serde(default)]
    userinfo: bool,
    cache_ttl: Option<String>,
}

fn default_token_types() -> Vec<String> {
    vec!["at+jwt".to_owned()]
}

fn default_scopes() -> Vec<String> {
    vec!["profile".to_owned()]
}

fn default_subject() -> Vec<String> {
    vec!["sub".to_owned()]
}

fn default_username() -> String {
    "preferred_username".to_owned()
}

impl IdentityFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A message with all errors, each with the provider's name.
    pub fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the file {path} cannot be read: {error}"))?;
        let tables: BTreeMap<String, Table> = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            format!("{path}, line {}: {}", before.matches('\n').count() + 1, error.message())
        })?;
        let (mut providers, mut secret_files, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        if tables.is_empty() {
            errors.push(format!("{path} has no table: each provider has one, such as `[company]`"));
        }
        for (name, table) in tables {
            secret_files.extend(table.client_secret_file.clone());
            match table.settings(&name) {
                Ok(settings) => providers.push(settings),
                Err(found) => {
                    errors.extend(found.into_iter().map(|error| format!("{path}, `[{name}]`: {error}")))
                }
            }
        }
        for (index, provider) in providers.iter().enumerate() {
            // People are known by issuer and subject. Two mappings for one person would let the person choose.
            if providers.iter().take(index).any(|other| other.issuer == provider.issuer) {
                errors.push(format!("{path}, `[{}]`: another provider has the same `issuer`", provider.name));
            }
        }
        if errors.is_empty() { Ok(Self { providers, secret_files }) } else { Err(errors.join("; ")) }
    }
}

impl AccessTokens {
    fn settings(self, client_id: &str, errors: &mut Vec<String>) -> AccessTokenSettings {
        let Self { mcp_audiences, rest_audiences, token_types, clients, introspection, userinfo, cache_ttl } =
            self;
        for (name, audiences) in [("mcp_audiences", &mcp_audiences), ("rest_audiences", &rest_audiences)] {
            let Some(audiences) = audiences else { continue };
            if audiences.iter().any(String::is_empty) {
                errors.push(format!("`access_tokens.{name}` must not have an empty text"));
            }
            if audiences.iter().any(|audience| audience == client_id) {
                // ID tokens have this audience.
                errors.push(format!(
                    "`access_tokens.{name}` must not name `client_id`, whose tokens are for sign-in"
                ));
            }
        }
        let rest = rest_audiences.as_deref().unwrap_or_default();
        if let Some(shared) = mcp_audiences.iter().flatten().find(|audience| rest.contains(audience)) {
            errors.push(format!(
                "`access_tokens`: `{shared}` is in both lists, but a token for one interface must not be one for the other"
            ));
        }
        if token_types.is_empty() || token_types.iter().any(String::is_empty) {
            errors.push("`access_tokens.token_types` must name at least one type".to_owned());
        }
        let normal = |typ: &String| {
            let typ = typ.to_ascii_lowercase();
            typ.strip_prefix("application/").unwrap_or(&typ).to_owned()
        };
        let token_types = token_types.iter().map(normal).collect();
        if cache_ttl.is_some() && !introspection && !userinfo {
            errors.push(
                "`access_tokens.cache_ttl` is for `introspection` and `userinfo`, which are not set"
                    .to_owned(),
            );
        }
        let cache_ttl = cache_ttl.as_deref().and_then(|text| {
            let failed = |error| errors.push(format!("`access_tokens.cache_ttl` {error}"));
            limited_duration(text).map_err(failed).ok()
        });
        AccessTokenSettings {
            mcp_audiences,
            rest_audiences,
            token_types,
            clients,
            introspection,
            userinfo,
            cache_ttl,
        }
    }
}

/// Claims that people or their administrators can change: another person could take the account over.
const CHANGEABLE_CLAIMS: [&str; 8] =
    ["email", "name", "nickname", "phone_number", "preferred_username", "unique_name", "upn", "username"];

impl Table {
    fn settings(self, name: &str) -> Result<ProviderSettings, Vec<String>> {
        let mut errors = Vec::new();
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=32).contains(&name.len()) || !name.bytes().all(is_name) {
            errors.push("the name must have 1 to 32 of `a-z 0-9 -`".to_owned());
        }
        errors.extend(check_issuer(&self.issuer).err().map(|error| format!("`issuer` {error}")));
        if self.client_id.trim().is_empty() {
            errors.push("`client_id` must not be empty".to_owned());
        }
        if self.subject.is_empty() || self.subject.iter().any(String::is_empty) {
            errors
                .push("`subject` must name at least one claim that identifies a person for ever".to_owned());
        }
        for claim in self.subject.iter().filter(|claim| CHANGEABLE_CLAIMS.contains(&claim.as_str())) {
            errors.push(format!("`subject` must not name `{claim}`: its value can pass to another person"));
        }
        let mut read = |member: &str, path: &PathBuf| {
            let failed = |error| errors.push(format!("`{member}` {}: {error}", path.display()));
            std::fs::read(path).map_err(failed).ok()
        };
        let ca_certificates = self.ca_file.as_ref().and_then(|path| read("ca_file", path));
        let secret = self.client_secret_file.as_ref().and_then(|path| read("client_secret_file", path));
        let client_secret =
            secret.map(|bytes| String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned());
        if client_secret.as_ref().is_some_and(String::is_empty) {
            errors.push("the file of `client_secret_file` is empty".to_owned());
        }
        let refresh_interval = self.refresh_interval.as_deref().and_then(|text| {
            let failed = |error| errors.push(format!("`refresh_interval` {error}"));
            limited_duration(text).map_err(failed).ok()
        });
        let access_tokens = self.access_tokens.map(|table| table.settings(&self.client_id, &mut errors));
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(ProviderSettings {
            label: self.label.unwrap_or_else(|| name.to_owned()),
            name: name.to_owned(),
            issuer: self.issuer,
            client_id: self.client_id,
            client_secret: client_secret.map(SecretString::from),
            scopes: self.scopes,
            subject: self.subject,
            username: self.username,
            userinfo: self.userinfo,
            ca_certificates,
            access_tokens,
            refresh_interval,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tables: &str) -> Result<usize, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("providers.toml");
        std::fs::write(&path, tables).unwrap();
        IdentityFile::read(path.to_str().unwrap()).map(|file| file.providers.len())
    }

    #[test]
    fn people_of_two_providers_cannot_be_the_same() {
        let table = |name: &str, issuer: &str, more: &str| {
            format!("[{name}]\nissuer = \"https://{issuer}\"\nclient_id = \"tracewarden\"\n{more}\n")
        };
        let two = table("a", "a.example.com", "") + &table("b", "b.example.com", "");
        assert_eq!(read(&two), Ok(2));
        let same = table("a", "a.example.com", "") + &table("b", "a.example.com", "");
        assert!(read(&same).unwrap_err().contains("`[b]`: another provider has the same `issuer`"));
    }

    #[test]
    fn a_token_is_for_one_interface() {
        let with = |members: &str| {
            read(&format!(
                "[a]\nissuer = \"https://a.example.com\"\nclient_id = \"tracewarden\"\n[a.access_tokens]\n{members}\n"
            ))
        };
        assert_eq!(with(""), Ok(1));
        assert_eq!(with("mcp_audiences = [\"m\"]\nrest_audiences = [\"r\"]\ntoken_types = [\"JWT\"]"), Ok(1));
        for (members, message) in [
            ("mcp_audiences = [\"a\", \"b\"]\nrest_audiences = [\"b\"]", "`b` is in both lists"),
            ("mcp_audiences = [\"tracewarden\"]", "must not name `client_id`"),
            ("rest_audiences = [\"\"]", "must not have an empty text"),
            ("token_types = []", "at least one type"),
            ("audiences = []", "unknown field `audiences`"),
            ("userinfo = true\ncache_ttl = \"soon\"", "`access_tokens.cache_ttl`"),
            ("cache_ttl = \"10s\"", "which are not set"),
        ] {
            let error = with(members).unwrap_err();
            assert!(error.contains(message), "{members}: {error}");
        }
    }

    #[test]
    fn the_subject_never_changes() {
        let with = |subject: &str| {
            read(&format!(
                "[a]\nissuer = \"https://a.example.com\"\nclient_id = \"t\"\nsubject = {subject}\n"
            ))
        };
        assert_eq!(with("[\"tid\", \"oid\"]"), Ok(1));
        for subject in CHANGEABLE_CLAIMS.map(|claim| format!("[\"sub\", \"{claim}\"]")) {
            assert!(with(&subject).unwrap_err().contains("can pass to another person"), "{subject}");
        }
        assert!(with("[]").is_err() && with("[\"\"]").is_err());
    }
}
