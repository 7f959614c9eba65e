//! Sources of settings: a TOML file and environment variables, which take precedence. An unknown setting prevents the
//! start: a misspelt limit that was silently ignored would not be enforced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracewarden_model::nearest::nearest;

use super::settings::{FOREIGN_PREFIX, FOREIGN_VARIABLES, PREFIX, SETTINGS, Setting, find};

/// A setting that was given, before it is parsed.
#[derive(Debug, Clone)]
pub struct SettingValue {
    /// Its text.
    pub text: String,
    /// Variable or file key that it came from, for messages.
    pub origin: String,
}

/// All settings that were given.
#[derive(Debug, Default)]
pub struct Sources {
    values: BTreeMap<&'static str, SettingValue>,
    secret_files: Vec<PathBuf>,
    errors: Vec<String>,
}

impl Sources {
    /// Reads the file, if there is one, and the environment.
    pub fn read(file: Option<&Path>, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut sources = Self::default();
        if let Some(path) = file {
            match std::fs::read_to_string(path) {
                Ok(text) => sources.add_file(&path.display().to_string(), &text),
                Err(error) => {
                    sources.errors.push(format!("the configuration file {}: {error}", path.display()))
                }
            }
        }
        sources.add_environment(environment);
        sources
    }

    /// Returns the given text of a setting.
    pub fn get(&self, name: &str) -> Option<&SettingValue> {
        self.values.get(name)
    }

    /// Returns the files that secrets came from: those named for a secret, and the configuration file if it contains a
    /// secret itself.
    pub fn secret_files(&self) -> &[PathBuf] {
        &self.secret_files
    }

    /// Returns one line per setting with its effective value and source, in the order of the documentation. Values of
    /// secrets are not shown.
    pub fn lines(&self) -> Vec<String> {
        let line = |setting: &Setting| {
            let name = setting.name;
            match (self.values.get(name), setting.default) {
                (Some(SettingValue { origin, .. }), _) if setting.secret => {
                    format!("{name}: not shown ({origin})")
                }
                (Some(SettingValue { text, origin }), _) => {
                    format!("{name} = {} ({origin})", display_text(text))
                }
                (None, Some(default)) => format!("{name} = {} (default)", display_text(default)),
                (None, None) => format!("{name}: not set"),
            }
        };
        SETTINGS.iter().map(line).collect()
    }

    /// Returns all errors so far.
    pub fn into_errors(self) -> Vec<String> {
        self.errors
    }

    pub(crate) fn add_file(&mut self, path: &str, text: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            // The library's full message quotes the line, which may contain a secret.
            Err(error) => {
                let error: toml::de::Error = error;
                let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                self.errors.push(format!("{path}, line {line}: not TOML: {}", error.message()));
                return;
            }
        };
        let mut found = Vec::new();
        if table.keys().any(|key| find(key).is_some_and(|setting| setting.secret)) {
            self.secret_files.push(PathBuf::from(path));
        }
        for (key, value) in table {
            match plain_text(&value) {
                Some(text) => found.push((key.clone(), text, format!("`{key}` in {path}"))),
                None => self.errors.push(format!(
                    "`{key}` in {path}: must be a string, a number, a boolean or a list of strings"
                )),
            }
        }
        self.add(found, |setting| setting.name.to_owned(), "setting");
    }

    fn add_environment(&mut self, environment: impl IntoIterator<Item = (String, String)>) {
        let ours = environment.into_iter().filter(|(name, value)| {
            name.starts_with(PREFIX)
                && !FOREIGN_VARIABLES.contains(&name.as_str())
                && !name.starts_with(FOREIGN_PREFIX)
                && !is_set_by_kubernetes(name, value)
                // Container configurations often pass variables with empty values.
                && !value.is_empty()
        });
        let found = ours.map(|(name, value)| (name.clone(), value, format!("`{name}`"))).collect();
        self.add(found, Setting::variable, "environment variable");
    }

    /// Adds the settings of one source. They override those of earlier sources.
    fn add(
        &mut self,
        found: Vec<(String, String, String)>,
        key_name: impl Fn(&Setting) -> String,
        what: &str,
    ) {
        let mut origins: BTreeMap<&'static str, String> = BTreeMap::new();
        for (key, text, origin) in found {
            let lower = key.to_ascii_lowercase();
            let suffix = if key == lower { "_file" } else { "_FILE" };
            let exact = SETTINGS.iter().find(|setting| key_name(setting) == key);
            let by_file = key
                .strip_suffix(suffix)
                .and_then(|stem| SETTINGS.iter().find(|setting| setting.secret && key_name(setting) == stem));
            let (setting, text) = match (exact, by_file) {
                (Some(setting), _) => (setting, Ok(text)),
                (None, Some(setting)) => {
                    self.secret_files.push(PathBuf::from(&text));
                    (setting, read_secret(&text))
                }
                (None, None) => {
                    self.unknown(&key, &origin, &key_name, what);
                    continue;
                }
            };
            if let Some(other) = origins.insert(setting.name, origin.clone()) {
                self.errors.push(format!("{other} and {origin} both give `{}`; keep one", setting.name));
            }
            match text {
                Ok(text) => {
                    self.values.insert(setting.name, SettingValue { text, origin });
                }
                Err(error) => self.errors.push(format!("{origin}: {error}")),
            }
        }
    }

    fn unknown(&mut self, key: &str, origin: &str, key_name: impl Fn(&Setting) -> String, what: &str) {
        let known: Vec<String> = SETTINGS
            .iter()
            .flat_map(|setting| {
                let name = key_name(setting);
                let suffix = if name.starts_with(PREFIX) { "_FILE" } else { "_file" };
                let by_file = setting.secret.then(|| format!("{name}{suffix}"));
                [Some(name), by_file]
            })
            .flatten()
            .collect();
        let hint = match nearest(key, known.iter().map(String::as_str)).first() {
            Some(name) => format!("; did you mean `{name}`?"),
            None => String::new(),
        };
        self.errors.push(format!("{origin}: no such {what}{hint}"));
    }
}

/// Whether Kubernetes sets this variable in every container, for a Service whose name begins like this program's.
fn is_set_by_kubernetes(variable: &str, value: &str) -> bool {
    let is_address = variable.ends_with("_PORT") && value.contains("://");
    let has_protocol = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| variable.contains(protocol));
    is_address
        || (variable.contains("_PORT_") && has_protocol)
        || variable.ends_with("_SERVICE_HOST")
        || variable.ends_with("_SERVICE_PORT")
        || variable.contains("_SERVICE_PORT_")
}

fn plain_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

fn read_secret(path: &str) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => match text.trim_end_matches(['\r', '\n']) {
            // An empty file is a secret that was never filled in. To set no secret, name no file.
            "" => Err(format!("the file {path} is empty")),
            text => Ok(text.to_owned()),
        },
        Err(error) => Err(format!("the file {path} cannot be read: {error}")),
    }
}

fn display_text(text: &str) -> &str {
    if text.is_empty() { "empty" } else { text }
}

/// Returns the setting's default, if it has one.
pub fn default_value(name: &str) -> Option<&'static str> {
    find(name).and_then(|setting| setting.default)
}
