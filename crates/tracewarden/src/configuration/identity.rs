//! The file with the identity providers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;
use tracewarden_identity::{ProviderSettings, check_issuer};

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
