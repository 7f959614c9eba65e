//! The configuration: parsed and validated as a whole before anything starts.

use std::net::SocketAddr;
use std::path::Path;

pub mod identity;
pub mod settings;
pub mod sources;
pub mod values;
pub mod warnings;

pub use settings::Configuration;
use settings::SETTINGS;
use sources::Sources;
use tracewarden_service::PasswordLogin;

impl Configuration {
    /// Reads the file and the environment. Returns one message per error, each naming the setting. No message repeats a
    /// secret.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<String>> {
        let mut sources = Sources::new(SETTINGS);
        sources.read(file, environment);
        let mut parsed = Self::parse(&mut sources);
        if let Some(parsed) = &mut parsed
            && let Some(identity) = &parsed.identity_providers
        {
            parsed.secret_files.extend(identity.secret_files.iter().cloned());
        }
        let mut errors = sources.errors;
        errors.extend(parsed.iter().flat_map(Self::contradictions).map(str::to_owned));
        parsed.filter(|_| errors.is_empty()).ok_or(errors)
    }

    /// Returns errors that concern two settings.
    fn contradictions(&self) -> impl Iterator<Item = &'static str> {
        let shorter_answer = self.answer_timeout < self.query_timeout;
        let without_url = self.public_url.is_none() && !self.listen.ip().is_loopback();
        let one_port = self.metrics_listen.is_some_and(|metrics| same_port(self.listen, metrics));
        let no_sign_in = self.password_login == PasswordLogin::Off && self.identity_providers.is_none();
        let providers = self.identity_providers.iter().flat_map(|file| &file.providers);
        let without_key = self.refresh_token_key.is_none()
            && providers.into_iter().any(|provider| provider.refresh_interval.is_some());
        let providers = self.identity_providers.iter().flat_map(|file| &file.providers);
        let too_rare = providers
            .into_iter()
            .filter_map(|provider| provider.refresh_interval)
            .any(|interval| interval > self.identity_max_age / 2);
        [
            too_rare.then_some(
                "`refresh_interval` must not be longer than half of `identity_max_age`, after which sessions end",
            ),
            without_key.then_some("`refresh_token_key` is required when a provider has a `refresh_interval`"),
            no_sign_in
                .then_some("`password_login = off` needs `identity_providers`: otherwise no one can sign in"),
            shorter_answer.then_some("`answer_timeout` must not be less than `query_timeout`"),
            without_url.then_some("`public_url` is required when `listen` is not a loopback address"),
            one_port.then_some(
                "`metrics_listen` and `listen` name the same port; choose another port for metrics",
            ),
        ]
        .into_iter()
        .flatten()
    }
}

/// Whether two addresses cannot be listened on at the same time.
fn same_port(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    one.port() != 0 && one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
}

/// Documentation of all settings as Markdown; committed as `docs/configuration.md`.
#[cfg(test)]
fn documentation() -> String {
    let mut text = String::from(include_str!("configuration/preamble.md"));
    for setting in settings::SETTINGS {
        let default = match setting.default {
            None => "no default".to_owned(),
            Some("") => "default: empty".to_owned(),
            Some(default) => format!("default: `{default}`"),
        };
        let variable = sources::variable(setting.name);
        let by_file = if setting.secret { format!(", or a file: `{variable}_FILE`") } else { String::new() };
        text.push_str(&format!(
            "\n### `{}`\n\n`{variable}`{by_file}; {default}\n\n{}\n",
            setting.name,
            setting.help.split_whitespace().collect::<Vec<_>>().join(" ")
        ));
    }
    text
}

#[cfg(test)]
mod tests;
